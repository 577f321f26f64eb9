"""The client next door: it writes, reads and measures while the broker is under attack.

In the end it judges: the process lives, it took no more memory than it may, nobody waited too long,
the broker made no mistake that it had to log, and what was written is there unchanged.
"""

import socket
import threading
import time
from typing import Final

from tests.differential.pair import wait_for_leaders
from tests.differential.wire import Connection, ask
from tools.kafka_peer.broker_process import BrokerProcess, resident_bytes

from ottla.records.builder import build_batch
from ottla.records.record import Record

TOPIC: Final = "witness"
MEMORY_BYTES: Final = 64 << 20
WAIT_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.02
KAFKA_WAIT_SECONDS: Final = 10.0
ENOUGH: Final = 5
EPOCH: Final = slice(12, 16)


class Witness:
    """``strict`` also asks for bounded memory and an empty list of mistakes, as only we promise."""

    def __init__(self, broker: BrokerProcess, *, strict: bool) -> None:
        self._broker = broker
        self._strict = strict
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: str | None = None
        self._served = 0
        self._longest = 0.0
        self._most_memory = 0
        self._memory = 0
        self._written = 0
        self._first = 0

    def start(self) -> None:
        names = [
            each["name"] for each in ask(self._broker.port, "Metadata", 12, topics=None)["topics"]
        ]
        if TOPIC not in names:
            topic = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
            ask(self._broker.port, "CreateTopics", 7, topics=[topic], timeout_ms=10_000)
        wait_for_leaders(self._broker.port, TOPIC)
        self._first = self._written = self._end_offset()
        with Connection(self._broker.port) as connection:
            for _ in range(20):  # what the first request loads is not held against the others
                self._write_one(connection)
        self._memory = self._most_memory = resident_bytes(self._broker.pid)
        self._thread.start()

    def _end_offset(self) -> int:
        asked = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
        found = ask(self._broker.port, "ListOffsets", 7, replica_id=-1, topics=asked)
        return int(found["topics"][0]["partitions"][0]["offset"])

    def _run(self) -> None:
        wait = WAIT_SECONDS if self._strict else KAFKA_WAIT_SECONDS
        connection = Connection(self._broker.port, timeout=wait)
        try:
            while not self._over.is_set():
                began = time.monotonic()
                self._write_one(connection)
                self._longest = max(self._longest, time.monotonic() - began)
                self._most_memory = max(self._most_memory, resident_bytes(self._broker.pid))
                self._served += 1
                time.sleep(PAUSE_SECONDS)
        except (OSError, AssertionError) as error:
            self._failure = f"{type(error).__name__}: {error} after {self._served} requests"
        finally:
            connection.close()

    def _write_one(self, connection: Connection) -> None:
        batch = build_batch([Record(value=b"%d" % self._written, timestamp=1_700_000_000_000)])
        data = {"name": TOPIC, "partition_data": [{"index": 0, "records": batch}]}
        answer = connection.ask(
            "Produce", 9, {"acks": -1, "timeout_ms": 5000, "topic_data": [data]}
        )
        (given,) = answer["responses"][0]["partitionResponses"]
        assert given["errorCode"] == 0, given
        assert given["baseOffset"] == self._written, given
        self._written += 1

    def judge(self) -> None:
        """Everything that must hold after whatever was done to the broker."""
        end = time.monotonic() + KAFKA_WAIT_SECONDS
        while self._served < ENOUGH and self._failure is None and time.monotonic() < end:
            time.sleep(PAUSE_SECONDS)
        self._over.set()
        self._thread.join(30)
        assert self._broker.is_running(), f"the broker has ended:\n{self._broker.output()}"
        assert self._failure is None, self._failure
        assert self._served >= ENOUGH, "nobody was served meanwhile"
        self._log_is_unchanged()
        if self._strict:
            grown = self._most_memory - self._memory
            assert grown < MEMORY_BYTES, f"{grown >> 20} MiB more memory"
            mistakes = self._broker.output(last=1 << 30)
            at = mistakes.find("Traceback")
            assert at < 0, f"the broker made a mistake:\n{mistakes[max(0, at - 400) : at + 3000]}"

    def _log_is_unchanged(self) -> None:
        """The segment holds what was written, in order, and nothing else."""
        segment = self._broker.log_directory / f"{TOPIC}-0" / f"{0:020}.log"
        data = bytearray(segment.read_bytes())
        position = 0
        for offset in range(self._written):
            expected = _as_stored(offset)
            found = data[position : position + len(expected)]
            found[EPOCH] = expected[EPOCH]  # each life of a broker has its own epoch
            assert found == expected, f"the log of another topic was changed at offset {offset}"
            position += len(expected)
        assert position == len(data), "something was added to the log of another topic"


def _as_stored(offset: int) -> bytes:
    records = [Record(value=b"%d" % offset, timestamp=1_700_000_000_000)]
    return build_batch(records, base_offset=offset, leader_epoch=0)


def is_open(connection: socket.socket) -> bool:
    """Whether the other side still holds a connection; what it sent is thrown away."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
