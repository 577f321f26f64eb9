"""What counts as a problem of a cluster."""

from ottla.client.descriptions import PartitionDescription, TopicDescription
from ottla.client.health import partition_problems, quorum_problems
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
