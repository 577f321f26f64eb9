"""Consumer groups: heartbeats that are good and bad, epochs, expressions, descriptions, commits."""

import time
from functools import partial
from typing import Any

import pytest
from tests.differential.pair import Id, Pair
from tests.differential.wire import ask
from tests.waiting import eventually

Json = Any

FIRST: Json = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 60_000,
    "subscribed_topic_names": ["plain"],
    "topic_partitions": [],
}


@pytest.fixture(autouse=True)
def _coordinators_are_there(pair: Pair) -> None:
    def is_ready(port: int) -> bool:
        found = ask(port, "FindCoordinator", 4, key_type=0, coordinator_keys=["differential"])
        if found["coordinators"][0]["errorCode"]:
            return False
        answer = ask(port, "ConsumerGroupDescribe", 1, group_ids=["differential"])
        return bool(answer["groups"][0]["errorCode"] == 69)

    for side in (pair.ours, pair.theirs):
        eventually(partial(is_ready, side.port), "the coordinator is there")


def beat(pair: Pair, scenario: str, *, versions: Json = (1,), **fields: Json) -> None:
    given = {"group_id": "beats", "member_id": "member", **fields}
    pair.ask("ConsumerGroupHeartbeat", scenario, versions=versions, **given)


def test_requests_that_no_group_could_answer(pair: Pair) -> None:
    both = (0, 1)
    beat(pair, "no group id", versions=both, **{**FIRST, "group_id": ""})
    beat(pair, "no member id", **{**FIRST, "member_id": ""})
    beat(pair, "no member id to leave", versions=both, member_epoch=-1, member_id="")
    beat(pair, "an empty instance", versions=both, **FIRST, instance_id="")
    beat(pair, "an empty rack", versions=both, **FIRST, rack_id="")
    beat(pair, "no rebalance timeout", versions=both, **{**FIRST, "rebalance_timeout_ms": -1})
    beat(pair, "no partitions said", versions=both, **{**FIRST, "topic_partitions": None})
    owned = [{"topic_id": Id("plain"), "partitions": [0]}]
    beat(pair, "partitions at first", versions=both, **{**FIRST, "topic_partitions": owned})
    beat(pair, "no subscription", versions=both, **{**FIRST, "subscribed_topic_names": None})
    beat(pair, "an unknown assignor", versions=both, **FIRST, server_assignor="mine")
    beat(pair, "an epoch below all", versions=both, member_epoch=-3)
    beat(pair, "a static leave without an instance", versions=both, member_epoch=-2)
    for expression in (
        "(",
        "a)",
        "[",
        "[z-a]",
        "*",
        "a**",
        r"\1",
        "(?=a)",
        "x{1001}",
        r"\pX",
        "\\",
    ):
        names = {**FIRST, "subscribed_topic_names": None}
        beat(pair, f"the expression {expression}", **names, subscribed_topic_regex=expression)


def test_groups_and_members_that_are_not_there(pair: Pair) -> None:
    beat(pair, "an unknown group", member_epoch=2, group_id="nowhere")
    beat(pair, "leaving an unknown group", member_epoch=-1, group_id="nowhere")
    beat(pair, "static leaving of an unknown group", member_epoch=-2, group_id="nowhere",
         instance_id="i")  # fmt: skip
    pair.ask("ConsumerGroupDescribe", "unknown", group_ids=["nowhere"])
    pair.ask("ConsumerGroupDescribe", "without a name", group_ids=[""])
    pair.ask("ConsumerGroupDescribe", "none", group_ids=[])


def test_the_life_of_one_member(pair: Pair) -> None:
    group = {"group_id": "life"}
    beat(pair, "join", **FIRST, **group)
    owned = {"topic_partitions": [{"topic_id": Id("plain"), "partitions": [0, 1, 2, 3]}]}
    beat(pair, "a heartbeat", member_epoch=2, **group)
    beat(pair, "a heartbeat that says what it has", member_epoch=2, **owned, **group)
    beat(pair, "a whole one", **{**FIRST, "member_epoch": 2, **group, **owned})
    beat(pair, "an epoch too high", member_epoch=3, **group)
    beat(pair, "another member", member_epoch=2, **{**group, "member_id": "other"})
    beat(pair, "an unknown instance", member_epoch=2, instance_id="i", **group)
    pair.ask("ConsumerGroupDescribe", "one member", group_ids=["life"])
    pair.ask("ConsumerGroupDescribe", "with operations", group_ids=["life"],
             include_authorized_operations=True)  # fmt: skip
    pair.ask("DescribeGroups", "a consumer group", groups=["life"], versions=(5, 6))
    pair.ask("DeleteGroups", "one with a member", groups_names=["life"], versions=(2,))
    for epoch, member in ((2, "member"), (3, "member"), (1, "member"), (2, "other"), (-1, "")):
        partition = {"partition_index": 0, "committed_offset": 2, "committed_metadata": "m"}
        pair.ask(
            "OffsetCommit", f"epoch {epoch} of {member}", versions=(8, 9, 10), group_id="life",
            member_id=member, generation_id_or_member_epoch=epoch,
            topics=[{"name": "plain", "topic_id": Id("plain"), "partitions": [partition]}],
        )  # fmt: skip
        asked = {"name": "plain", "topic_id": Id("plain"), "partition_indexes": [0]}
        for stable in (False, True):
            pair.ask(
                "OffsetFetch", f"epoch {epoch} of {member}", versions=(9, 10),
                require_stable=stable,
                groups=[{"group_id": "life", "member_id": member or None, "member_epoch": epoch,
                         "topics": [asked]}],
            )  # fmt: skip
    topics = [{"name": "plain", "partitions": [{"partition_index": 0}]}]
    pair.ask("OffsetDelete", "what is subscribed to", group_id="life", topics=topics)
    for api, more in (
        ("Heartbeat", {"generation_id": 2}),
        ("SyncGroup", {"generation_id": 2, "assignments": []}),
    ):
        pair.ask(api, "of a member that is not classic", versions=(3,), group_id="life",
                 member_id="member", **more)  # fmt: skip
    beat(pair, "leave", member_epoch=-1, **group)
    beat(pair, "join again", **FIRST, **group)
    pair.ask("LeaveGroup", "by the classic protocol", versions=(4, 5), group_id="life",
             members=[{"member_id": "member"}, {"member_id": "other"}])  # fmt: skip
    pair.ask("ConsumerGroupDescribe", "nobody", group_ids=["life"])
    pair.ask("OffsetDelete", "of an empty group", group_id="life", topics=topics)
    pair.ask("DeleteGroups", "an empty one", groups_names=["life"], versions=(2,))
    pair.ask("ConsumerGroupDescribe", "a deleted one", group_ids=["life"])


def test_static_members(pair: Pair) -> None:
    group = {"group_id": "static", "instance_id": "i"}
    beat(pair, "join", **FIRST, **group)
    beat(pair, "another with the instance", **FIRST, **{**group, "member_id": "other"})
    beat(pair, "a stranger with the instance", member_epoch=2, **{**group, "member_id": "other"})
    beat(pair, "leave for a while", member_epoch=-2, **group)
    pair.ask("ConsumerGroupDescribe", "away", group_ids=["static"])
    beat(pair, "its heartbeat while away", member_epoch=2, **group)
    beat(pair, "come back", **FIRST, **{**group, "member_id": "other"})
    beat(pair, "the former one", member_epoch=2, **group)
    pair.ask("ConsumerGroupDescribe", "back", group_ids=["static"])
    beat(pair, "leave for good", member_epoch=-1, **{**group, "member_id": "other"})


def test_two_members_share_and_revocation_comes_first(pair: Pair) -> None:
    group = {"group_id": "two", "server_assignor": "range"}
    a, b = {**group, "member_id": "a"}, {**group, "member_id": "b"}
    whole = [{"topic_id": Id("plain"), "partitions": [0, 1, 2, 3]}]
    half = [{"topic_id": Id("plain"), "partitions": [0, 1]}]
    beat(pair, "a joins", **FIRST, **a)
    time.sleep(1.1)  # the assignment interval
    beat(pair, "b joins", **FIRST, **b)
    beat(pair, "a must give up", member_epoch=2, topic_partitions=whole, **a)
    described = [ask(side.port, "ConsumerGroupDescribe", 1, group_ids=["two"])
                 for side in (pair.ours, pair.theirs)]  # fmt: skip
    for answer in described:
        answer["groups"][0]["members"].sort(key=lambda member: member["memberId"])
    pair.compare("ConsumerGroupDescribe", 1, "reconciling", *described)
    beat(pair, "b waits", member_epoch=3, topic_partitions=[], **b)
    beat(pair, "a has not yet", member_epoch=2, topic_partitions=whole, **a)
    beat(pair, "a has", member_epoch=2, topic_partitions=half, **a)
    beat(pair, "a's answer was lost", member_epoch=2, topic_partitions=half, **a)
    beat(pair, "b has its share", member_epoch=3, topic_partitions=[], **b)
    beat(pair, "a of an older epoch", member_epoch=2, topic_partitions=whole, **a)
    beat(pair, "a unsubscribes", member_epoch=3, subscribed_topic_names=[],
         topic_partitions=half, **a)  # fmt: skip
    beat(pair, "a leaves", member_epoch=-1, **a)
    beat(pair, "b leaves", member_epoch=-1, **b)


def test_a_regular_expression(pair: Pair) -> None:
    group = {"group_id": "regex", "subscribed_topic_regex": "pla.*|trim.*"}
    names = {**FIRST, "subscribed_topic_names": ["plain"]}
    beat(pair, "join by both", **names, **group)
    for side in (pair.ours, pair.theirs):

        def resolved(port: int = side.port) -> bool:
            answer = ask(
                port, "ConsumerGroupHeartbeat", 1, group_id="regex", member_id="member",
                member_epoch=ask(port, "ConsumerGroupDescribe", 1, group_ids=["regex"])["groups"][
                    0]["members"][0]["memberEpoch"],
            )  # fmt: skip
            return bool(answer["memberEpoch"] >= 3)

        eventually(resolved, "the expression is resolved")
    pair.ask("ConsumerGroupDescribe", "resolved", group_ids=["regex"])
    beat(pair, "leave", member_epoch=-1, group_id="regex")
