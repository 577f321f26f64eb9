"""One-record requests to a machine of several processes (``ottla.processes``).

Each connection goes to the leader of its partition, as a producer's does, and the partitions are
spread over all processes.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measures import Figures
from benchmarks.one_record import PARTITIONS, one_record_requests
from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import BrokerProcess, Program, free_ports

TOPIC: Final = "one-record"
TIMEOUT: Final = 60.0


def one_record_requests_to_all(
    machine: BrokerProcess, processes: int, *, connections: int, seconds: float
) -> Figures:
    """Warmed up as long as it is measured: nobody has asked this machine anything yet."""
    leaders = _spread_topic(machine, processes)
    measure = partial(
        one_record_requests,
        machine,
        TOPIC,
        connections=connections,
        seconds=seconds,
        leaders=leaders,
    )
    measure()
    return measure()


@contextlib.contextmanager
def machine_of(
    program: Program, directory: Path, settings: Mapping[str, str], processes: int
) -> Iterator[BrokerProcess]:
    """As ``ottla.processes`` makes it, only that each process has a port that is free."""
    own = {
        f"ottla.process.{number}.listeners": f"PLAINTEXT://127.0.0.1:{port}"
        for number, port in enumerate(free_ports(processes - 1), 2)
    }
    several = {"ottla.processes": str(processes), **own}
    with BrokerProcess(program, directory, {**settings, **several}) as machine:
        yield machine


def _spread_topic(machine: BrokerProcess, processes: int) -> list[int]:
    """Make the topic when all processes are there; the port of each partition's leader."""
    admin = AdminClient({"bootstrap.servers": machine.bootstrap_servers, "log_level": 4})
    end = time.monotonic() + TIMEOUT
    while len(admin.list_topics(timeout=TIMEOUT).brokers) < processes:
        _pause(end)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT)
    while True:
        found = admin.list_topics(TOPIC, timeout=TIMEOUT)
        leaders = [each.leader for _, each in sorted(found.topics[TOPIC].partitions.items())]
        if len(leaders) == PARTITIONS and min(leaders) >= 0:
            assert len(set(leaders)) == min(processes, PARTITIONS), "a process leads nothing"
            return [found.brokers[each].port for each in leaders]
        _pause(end)


def _pause(end: float) -> None:
    if time.monotonic() > end:
        raise TimeoutError("the machine is not complete")
    time.sleep(0.1)
