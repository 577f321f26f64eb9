"""Reading goes on when the broker that it reads from restarts, falls, or leads no more."""

import pytest
from tests.spark.topics import Topics, numbered

from ottla.client.descriptions import NewTopic
from ottla.spark.codec.schema import Columns
from ottla.spark.source.broker_reads import disconnect
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch, read_range
from ottla.testing.broker import Broker
from ottla.testing.cluster import Cluster

SMALL = {"kafka.max.partition.fetch.bytes": "2000"}


def options_of(servers: str, topic: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": servers, "subscribe": topic, **SMALL})


def filled(topics: Topics, topic: str) -> list[bytes]:
    rows = [row for start in range(0, 1000, 20) for row in numbered(start, start + 20)]
    for start in range(0, 1000, 20):
        topics.fill(topic, rows[start : start + 20])
    return [row.value or b"" for row in rows]


def test_a_broker_that_restarts_is_read_on() -> None:
    with Broker(config={"log.retention.ms": "-1"}) as broker:
        topics = Topics(broker.bootstrap_servers)
        topic = topics.make()
        written = filled(topics, topic)
        options = options_of(broker.bootstrap_servers, topic)
        (wanted,) = plan_batch(options)
        tables = read_range(wanted, options, Columns(["value"]), keep=True)
        found = next(tables)["value"].to_pylist()
        assert len(found) < len(written)
        broker.stop()
        broker.start()
        for table in tables:
            found += table["value"].to_pylist()
        assert found == written
        topics.close()
        disconnect()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.ottla(config={"log.retention.ms": "-1"})
def test_when_a_leader_falls_its_successor_is_read_on(ottla_cluster: Cluster) -> None:
    topics = Topics(ottla_cluster.bootstrap_servers)
    topics.admin.create_topics([NewTopic("t", 1, 3, {})])
    ottla_cluster.wait_until_in_sync()
    written = filled(topics, "t")
    ottla_cluster.wait_until_in_sync()
    options = options_of(ottla_cluster.bootstrap_servers, "t")
    (wanted,) = plan_batch(options)
    tables = read_range(wanted, options, Columns(["value"]), keep=True)
    found = next(tables)["value"].to_pylist()
    assert len(found) < len(written)
    ottla_cluster.kill(ottla_cluster.leader("t"))
    for table in tables:
        found += table["value"].to_pylist()
    assert found == written
    topics.close()
    disconnect()
