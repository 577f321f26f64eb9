"""How long a client waits, by its own word: not at all, less than nothing, a moment, for ever.

What a moment is enough for depends on the machine: it is compared only where Kafka does not look at
the timeout.
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest
from tests.differential.history import batch
from tests.differential.pair import Pair, partition_data
from tests.differential.test_cluster import update
from tests.differential.test_topics import topic
from tests.differential.wire import ZERO_UUID_TEXT

Json = Any
FOR_EVER = 2**31 - 1
TIMEOUTS = (0, -1, -(2**31), FOR_EVER)
_numbers: Iterator[int] = count()


def new_name() -> str:
    return f"timed-{next(_numbers)}"


def within(pair: Pair, timeout: int, api: str, what: str, **fields: Json) -> None:
    pair.ask(api, f"{what} within {timeout} ms", timeout_ms=timeout, **fields)


@pytest.mark.parametrize("timeout", [*TIMEOUTS, 1])
def test_requests_whose_timeout_the_controller_does_not_look_at(timeout: int, pair: Pair) -> None:
    api = "ListPartitionReassignments"
    within(pair, timeout, api, "all", topics=None)
    within(pair, timeout, api, "one", topics=[{"name": "plain", "partition_indexes": [0]}])
    within(pair, timeout, api, "none", topics=[])
    same = [update("metadata.version", 30)]
    within(pair, timeout, "UpdateFeatures", "what is already so", feature_updates=same)
    within(pair, timeout, "AddRaftVoter", "of another cluster", cluster_id="another", voter_id=7)


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_topics_made_grown_and_deleted(timeout: int, pair: Pair) -> None:
    within(pair, timeout, "CreateTopics", "one", topics=[topic(new_name() + "-v{v}")])
    seen = [topic(new_name())]
    within(pair, timeout, "CreateTopics", "only to see", topics=seen, validate_only=True)
    within(pair, timeout, "CreateTopics", "a bad one", topics=[topic("a/b")])
    within(pair, timeout, "CreateTopics", "nothing", topics=[])
    name = new_name()
    pair.create(name)
    nowhere = [{"name": "nowhere", "count": 2}]
    more = [{"name": name, "count": 2}]
    within(pair, timeout, "CreatePartitions", "one more", topics=more, versions=[3])
    within(pair, timeout, "CreatePartitions", "unknown", topics=nowhere)
    within(pair, timeout, "CreatePartitions", "nothing", topics=[])
    for what, gone in (("unknown", "nowhere"), ("one", name)):
        by_either = {"topic_names": [gone], "topics": [{"name": gone, "topic_id": ZERO_UUID_TEXT}]}
        within(pair, timeout, "DeleteTopics", what, versions=[5, 6], **by_either)
    within(pair, timeout, "DeleteTopics", "nothing")


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_partitions_moved_and_led(timeout: int, pair: Pair) -> None:
    moved = [{"name": "plain", "partitions": [{"partition_index": 0, "replicas": [1]}]}]
    within(pair, timeout, "AlterPartitionReassignments", "where it is", topics=moved)
    within(pair, timeout, "AlterPartitionReassignments", "nothing", topics=[])
    led = [{"topic": "plain", "partitions": [0]}]
    within(pair, timeout, "ElectLeaders", "one", topic_partitions=led)
    within(pair, timeout, "ElectLeaders", "nothing", topic_partitions=[])


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_records_written_found_and_deleted(timeout: int, pair: Pair) -> None:
    name = new_name()
    pair.create(name)
    for acks in (1, -1):
        data = [partition_data(name, 0, batch())]
        within(pair, timeout, "Produce", f"acks {acks}", acks=acks, topic_data=data)
    of_time = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": 1000}]}]
    within(
        pair, timeout, "ListOffsets", "by time", replica_id=-1, topics=of_time, versions=[10, 11]
    )
    upto = [{"name": name, "partitions": [{"partition_index": 0, "offset": 1}]}]
    within(pair, timeout, "DeleteRecords", "one", topics=upto)


@pytest.mark.parametrize("timeout", TIMEOUTS)
def test_timeouts_of_members_and_transactions(timeout: int, pair: Pair) -> None:
    what = f"within {timeout} ms"
    for transactional_id in (None, new_name()):
        pair.ask("InitProducerId", what, transactional_id=transactional_id,
                 transaction_timeout_ms=timeout)  # fmt: skip
    pair.ask(
        "JoinGroup", what, session_timeout_ms=timeout, rebalance_timeout_ms=10_000,
        group_id=new_name(), member_id="", protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b""}],
    )  # fmt: skip
    pair.ask(
        "ConsumerGroupHeartbeat", what, rebalance_timeout_ms=timeout, group_id=new_name(),
        member_id="m", member_epoch=0, subscribed_topic_names=["plain"], topic_partitions=[],
    )  # fmt: skip
