"""The two brokers, each started once, with topics that all comparisons read.

``OTTLA_TEST_TARGET=kafka`` puts a second Apache Kafka in our place: whatever differs then is the
fault of the comparison.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.differential.comparing import report
from tests.differential.history import write_history
from tests.differential.pair import Pair, Side
from tools.kafka_peer.broker_process import (
    BrokerProcess,
    apache_kafka,
    ottla,
    random_cluster_id,
)

TARGET = os.environ.get("OTTLA_TEST_TARGET", "ottla")
SETTINGS = {"log.retention.ms": "-1", "log.retention.check.interval.ms": "300000"}


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    cluster_id = random_cluster_id()
    theirs = apache_kafka(heap=("-Xmx512M",))
    ours = theirs if TARGET == "kafka" else ottla()
    brokers = [
        BrokerProcess(program, tmp_path_factory.mktemp(name), SETTINGS, cluster_id)
        for name, program in (("ours", ours), ("theirs", theirs))
    ]
    try:
        for broker in brokers:
            broker.start()
        found = Side(brokers[0]), Side(brokers[1])
        write_history(Pair(*found))
        yield found
    finally:
        for broker in brokers:
            broker.kill()


@pytest.fixture
def pair(sides: tuple[Side, Side]) -> Iterator[Pair]:
    """Both brokers; the test fails at its end by what they answered differently."""
    both = Pair(*sides)
    yield both
    unexplained = both.unexplained()
    if unexplained:
        lines = "\n  ".join(report(unexplained))
        pytest.fail(
            f"{len(unexplained)} differences in {both.asked} requests:\n  {lines}", pytrace=False
        )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of these need Apache Kafka."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.peer)
