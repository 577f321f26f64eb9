"""Three brokers with one remote store: what a leader has put there, the next one serves."""

import time
from pathlib import Path

import pytest
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import QUICK
from tests.integration.test_remote_history import EARLIEST, EARLIEST_LOCAL, OF_TOPIC, TIERED

from ottla.client.descriptions import NewTopic
from ottla.common.topic_partition import TopicPartition
from ottla.testing.cluster import Cluster

COUNT = 6_000
SIZE = 2_000
LIVES = 3
TOPIC = "history"


def offset(cluster: Cluster, timestamp: int) -> int:
    partition = TopicPartition(TOPIC, 0)
    with cluster.admin() as admin:
        return admin.list_offsets({partition: timestamp})[partition].offset


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_every_leader_serves_what_the_ones_before_it_have_put_into_the_store(
    tmp_path: Path,
) -> None:
    """A leader is killed when its records are remote; another one goes on, and knows of them."""
    settings = {**QUICK, **TIERED, "ottla.remote.store.url": (tmp_path / "store").as_uri()}
    with Cluster(3, config=settings) as cluster:
        with cluster.admin() as admin:
            topic = NewTopic(TOPIC, 1, 3, configs={**OF_TOPIC, "min.insync.replicas": "2"})
            admin.create_topics([topic])
        cluster.wait_until_in_sync()
        written: list[Message] = []
        leaders: list[int] = []
        for _ in range(LIVES):
            now = int(time.time() * 1000)
            first = len(written)
            messages = [
                Message(b"%d" % number * 10 + bytes(SIZE), b"%d" % number, (), now + number)
                for number in range(first, first + COUNT)
            ]
            CLIENTS[0].produce(cluster.bootstrap_servers, TOPIC, messages)
            written.extend(messages)
            cluster.wait_until(
                lambda: offset(cluster, EARLIEST_LOCAL) >= len(written) - COUNT // 5,
                120,
                "the records to be remote",
            )
            leaders.append(cluster.leader(TOPIC))
            cluster.kill(leaders[-1])
            cluster.wait_until(
                lambda: cluster.leader(TOPIC) not in (-1, leaders[-1]), 60, "another leader"
            )
            assert offset(cluster, EARLIEST) == 0
            received = CLIENTS[0].consume(cluster.bootstrap_servers, TOPIC, len(written))
            assert [each.offset for each in received] == list(range(len(written)))
            assert [each.message for each in received] == written
            cluster.start(leaders[-1])
            cluster.wait_until_in_sync()
        assert len(set(leaders)) > 1
