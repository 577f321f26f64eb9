"""What both brokers have been through before they are compared: topics, batches, a deletion."""

import time
from functools import partial
from typing import Final

from tests.differential.pair import Pair
from tests.differential.wire import ask
from tests.waiting import eventually

from ottla.records.builder import build_batch
from ottla.records.record import Record

BASE_TIME: Final = 1_700_000_000_000
COORDINATOR_NOT_AVAILABLE: Final = 15


def batch(
    count: int = 1,
    *,
    time: int = BASE_TIME,
    codec: int = 0,
    size: int = 10,
    key: bytes | None = b"k",
    **settings: int | bool,
) -> bytes:
    """A batch of ``count`` records, a millisecond apart."""
    records = [Record(key=key, value=b"%d" % n * size, timestamp=time + n) for n in range(count)]
    return build_batch(records, codec=codec, **settings)  # type: ignore[arg-type]


def write_history(pair: Pair) -> None:
    """``plain`` has four partitions: several batches, one of each codec, nothing, one record."""
    pair.create("plain", partitions=4)
    pair.produce("plain", batch(4), batch(3, time=BASE_TIME + 100), batch(3, time=BASE_TIME + 50))
    compressed = [batch(20, codec=codec, time=BASE_TIME + codec * 1000) for codec in range(1, 5)]
    pair.produce("plain", *compressed, partition=1)
    pair.produce("plain", batch(1), partition=3)
    pair.create("trimmed")
    pair.produce("trimmed", *(batch(5, time=BASE_TIME + n) for n in range(4)))
    for side in (pair.ours, pair.theirs):
        eventually(partial(_has_producer_ids, side.port), "producer ids")
        _wake_coordinators(side.port)
        partitions = [{"partition_index": 0, "offset": 7}]
        answer = ask(
            side.port,
            "DeleteRecords",
            2,
            topics=[{"name": "trimmed", "partitions": partitions}],
            timeout_ms=10_000,
        )
        assert answer["topics"][0]["partitions"][0]["errorCode"] == 0, answer
    pair.create("append-time", message_timestamp_type="LogAppendTime")
    pair.create("compacted", cleanup_policy="compact")
    pair.create("small", max_message_bytes="1000")
    pair.create("configured", retention_ms="7200000", segment_bytes="2000000")
    pair.create("codec", compression_type="gzip")


def _has_producer_ids(port: int) -> bool:
    """A broker gets its ids from the controller, and refuses until it has them."""
    answer = ask(port, "InitProducerId", 4, transactional_id=None, transaction_timeout_ms=1000)
    return bool(answer["errorCode"] == 0)


def _wake_coordinators(port: int) -> None:
    """The first question after a coordinator makes its topic; a while later it is there."""
    for kind, key in enumerate(("group", "transaction", "g:zzzzzzzzzzzzzzzzzzzzzA:0")):
        for _ in range(100):
            answer = ask(port, "FindCoordinator", 6, key_type=kind, coordinator_keys=[key])
            if answer["coordinators"][0]["errorCode"] != COORDINATOR_NOT_AVAILABLE:
                break
            time.sleep(0.05)
