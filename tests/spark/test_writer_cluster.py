"""Tasks that write to a cluster whose brokers are killed: nothing lost, doubled or out of order."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.integration.coordinators import QUICK, TRANSACTIONS, coordinator
from tests.spark.committed import committed_records
from tests.spark.test_writer import options, table

from ottla.client.descriptions import NewTopic
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.stream_writer import MicroBatch, commit_batch, task_id, write_task
from ottla.spark.sink.writer import disconnect, write
from ottla.testing.cluster import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
TABLES, ROWS = 60, 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=QUICK) as cluster:
        yield cluster
    disconnect()


def prepare(cluster: Cluster, topic: str) -> SinkOptions:
    with cluster.admin() as admin:
        admin.create_topics([NewTopic(topic, 3, 3, {})])
    return options(
        cluster.bootstrap_servers,
        topic=topic,
        kafka_batch_size="1000",
        kafka_max_request_size="4000",
    )


def troubled(cluster: Cluster, topic: str) -> Iterator[pa.RecordBatch]:
    """Rows, between which leaders are killed and come back."""
    victim = -1
    for number in range(TABLES):
        if number % 20 == 10:
            victim = cluster.leader(topic, number // 20)
            cluster.kill(victim)
        if number % 20 == 15:
            cluster.start(victim)
            cluster.wait_until_in_sync()
        yield table(number * ROWS, (number + 1) * ROWS)


def check(cluster: Cluster, topic: str) -> None:
    seen = []
    for records in committed_records(cluster.bootstrap_servers, topic).values():
        numbers = [int(each.value or b"") for each in records]
        assert numbers == sorted(numbers), "in order"
        seen += numbers
    assert sorted(seen) == list(range(TABLES * ROWS))


def test_leaders_that_are_killed_cost_nothing(cluster: Cluster) -> None:
    sink = prepare(cluster, "plain")
    assert write(sink, 0, troubled(cluster, "plain")).records == TABLES * ROWS
    check(cluster, "plain")


def test_coordinators_that_are_killed_cost_nothing(cluster: Cluster) -> None:
    sink = prepare(cluster, "transactional")
    batch = MicroBatch("of-the-cluster", 0)
    written = write_task(sink, batch, 0, troubled(cluster, "transactional"))
    cluster.kill(coordinator(cluster, TRANSACTIONS, task_id(sink, batch, 0)))
    commit_batch(sink, 0, [written])
    cluster.start_all()
    cluster.wait_until_in_sync()
    check(cluster, "transactional")
