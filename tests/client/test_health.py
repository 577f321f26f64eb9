"""What counts as a problem of a cluster."""

from ottla.client.descriptions import PartitionDescription, TopicDescription
from ottla.client.health import partition_problems, quorum_problems, stranger_problems
from ottla.client.quorum import QuorumDescription, QuorumReplica
from ottla.common.identifiers import ZERO_UUID


def partition(at: int, leader: int, isr: list[int]) -> PartitionDescription:
    return PartitionDescription(at, leader, 1, [1, 2, 3], isr, [], [], [])


def test_the_worst_of_each_partition_is_told() -> None:
    partitions = [
        partition(0, 1, [1, 2, 3]),
        partition(1, 1, [1, 2]),
        partition(2, 1, [1]),
        partition(3, -1, [1]),
    ]
    topics = {"t": TopicDescription("t", ZERO_UUID, False, partitions)}
    found = [(each.kind, each.subject) for each in partition_problems(topics, {"t": 2})]
    assert found == [
        ("under-replicated", "t-1"),
        ("under-min-isr", "t-2"),
        ("offline-partition", "t-3"),
    ]


def test_what_is_said_of_a_partition_is_a_sentence() -> None:
    partitions = [partition(0, 1, [1, 2, 3]), partition(1, 1, [1, 2]), partition(2, 1, [1])]
    topics = {"t": TopicDescription("t", ZERO_UUID, False, partitions)}
    assert [each.message for each in partition_problems(topics, {"t": 4})] == [
        "3 of 3 in sync; acks=all needs 4",
        "2 of 3 in sync, without 3; acks=all needs 4",
        "1 of 3 in sync, without 2, 3; acks=all needs 4",
    ]
    assert [each.message for each in partition_problems(topics, {"t": 1})] == [
        "2 of 3 in sync, without 3",
        "1 of 3 in sync, without 2, 3",
    ]


def test_a_node_that_lives_and_belongs_to_nothing_is_told() -> None:
    voters = [replica(1, 10, 100_000)]
    observers = [replica(2, 10, 99_500), replica(3, 10, 99_500), replica(4, 10, 50_000)]
    quorum = QuorumDescription(1, 1, 10, voters, observers, {})
    (problem,) = stranger_problems(quorum, 1000, {2})
    assert (problem.kind, problem.subject) == ("unregistered-node", "node 3")
    assert list(stranger_problems(quorum, 1000, {2, 3})) == []


def replica(node_id: int, end: int, caught_up_ms: int) -> QuorumReplica:
    return QuorumReplica(node_id, ZERO_UUID, end, caught_up_ms, caught_up_ms)


def quorum(*replicas: QuorumReplica) -> QuorumDescription:
    return QuorumDescription(1, 5, 100, list(replicas[:3]), list(replicas[3:]), {})


def test_a_voter_may_be_a_little_behind_and_not_for_long() -> None:
    now = 1_000_000
    leader = replica(1, 100, now)
    fine = quorum(leader, replica(2, 90, now - 900), replica(3, 100, now - 500))
    assert list(quorum_problems(fine, 1000)) == []
    bad = quorum(leader, replica(2, 90, now - 1001), replica(3, 100, now), replica(4, -1, -1))
    found = [(each.kind, each.subject) for each in quorum_problems(bad, 1000)]
    assert found == [("lagging-voter", "voter 2"), ("lagging-observer", "observer 4")]


def test_who_never_caught_up_is_behind_without_a_time() -> None:
    bad = quorum(replica(1, 100, 1_000_000), replica(2, 3, -1))
    (problem,) = quorum_problems(bad, 1000)
    assert problem.message == "97 records behind"
