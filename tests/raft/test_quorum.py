"""Scenarios of a quorum of several: elections, replication, snapshots, voters that come and go."""

from typing import ClassVar

import pytest
from tests.raft.cluster import Cluster, Node, key_of, voter

from ottla.common.errors import ErrorCode
from ottla.common.identifiers import uuid_text
from ottla.common.promise import Promise
from ottla.protocol.message import Message
from ottla.raft.driver import RaftDriver
from ottla.raft.effects import RaftEffect
from ottla.raft.events import Resign, SnapshotRefused
from ottla.raft.log import read_batches
from ottla.raft.node import RaftNode
from ottla.raft.roles import Follower, Leader
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT
from ottla.raft.voters import ReplicaKey, VoterSet
from ottla.records.control import ControlType, read_control_type


def settled(cluster: Cluster, answer: Promise[Message] | None) -> tuple[int, str | None]:
    assert answer is not None
    assert cluster.run_until(lambda: answer.done, 10)
    response = answer.result()
    return response.error_code, response.error_message  # type: ignore[attr-defined]


def others(cluster: Cluster, leader: Node) -> list[Node]:
    return [node for node in cluster.nodes.values() if node is not leader]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("voters", [2, 3, 5])
def test_a_quorum_elects_a_leader_and_all_follow_it(voters: int, dynamic: bool) -> None:
    cluster = Cluster(voters, voters, observers=1, dynamic=dynamic)
    cluster.elect()
    for _ in range(10):
        cluster.append()
    cluster.converge()
    assert len({node.listener.count for node in cluster.nodes.values()}) == 1
    leader = cluster.leader
    assert leader is not None
    assert leader.driver.kraft_version == dynamic
    for node in others(cluster, leader):
        assert isinstance(node.driver.node.role, Follower)


def test_a_write_is_committed_within_a_round_trip_not_a_fetch_wait() -> None:
    cluster = Cluster(1, 3)
    leader = cluster.elect()
    cluster.run_for(2.0)
    began = cluster.scheduler.now
    leader.append(b"value")
    end = leader.driver.end_offset
    assert cluster.run_until(lambda: leader.driver.high_watermark >= end, 10)
    assert cluster.scheduler.now - began < 0.1


def test_followers_hear_of_a_commit_without_waiting_for_the_next_write() -> None:
    cluster = Cluster(2, 3)
    cluster.has_older_versions = False  # in which a replica cannot say what it knows
    leader = cluster.elect()
    cluster.run_for(2.0)
    leader.append(b"value")
    end = leader.driver.end_offset
    began = cluster.scheduler.now
    nodes = cluster.nodes.values()
    assert cluster.run_until(lambda: all(n.driver.high_watermark >= end for n in nodes), 10)
    assert cluster.scheduler.now - began < 0.15


def test_who_has_much_to_replay_has_caught_up_at_its_end() -> None:
    """The checker looks whether a node says so too early."""
    cluster = Cluster(1)
    leader = cluster.elect()
    slow = next(node for node in others(cluster, leader) if node.driver.settings.replay_bytes < 200)
    for _ in range(50):
        cluster.append()
        cluster.run_for(0.1)
    cluster.crash(slow.node_id, power=False)
    cluster.start(slow.node_id)
    again = cluster.nodes[slow.node_id].driver
    assert cluster.run_until(again.has_caught_up, 10.0)


def test_a_leader_that_stops_hands_over_soon() -> None:
    cluster = Cluster(3, 3)
    leader = cluster.elect()
    cluster.run_for(2.0)
    leader.driver.stop()
    began = cluster.scheduler.now
    assert cluster.run_until(
        lambda: cluster.leader is not None and cluster.leader is not leader, 10
    )
    assert cluster.scheduler.now - began < 1.0, "nobody waits for the fetch timeout"


def test_a_leader_that_dies_is_replaced_after_the_fetch_timeout() -> None:
    cluster = Cluster(4, 3)
    leader = cluster.elect()
    cluster.run_for(2.0)
    cluster.crash(leader.node_id)
    assert cluster.leader is None
    cluster.elect(10.0)
    cluster.converge()


def test_a_leader_that_is_cut_off_gives_up() -> None:
    cluster = Cluster(5, 3)
    leader = cluster.elect()
    cluster.run_for(1.0)
    cluster.partition({leader.node_id})
    leader.append(b"lost")
    assert cluster.run_until(lambda: not leader.driver.is_leader, 3.1)
    assert cluster.run_until(lambda: cluster.leader not in (None, leader), 10)
    for _ in range(3):
        cluster.append()
    cluster.converge()


class _NoPreVote(RaftNode):
    def become_prospective(self, now: float, effects: list[RaftEffect]) -> None:
        self.become_candidate(now, effects)


class NoPreVote(RaftDriver):
    NODE: ClassVar[type[RaftNode]] = _NoPreVote


def epochs_after_a_lonely_night(driver_class: type[RaftDriver]) -> int:
    """How many epochs begin because a follower was cut off for a while."""
    cluster = Cluster(6, 3, driver_class=driver_class)
    leader = cluster.elect()
    cluster.run_for(2.0)
    before = leader.driver.epoch
    cluster.partition({others(cluster, leader)[0].node_id})
    cluster.run_for(20.0)
    cluster.heal()
    cluster.run_for(10.0)
    return max(node.driver.epoch for node in cluster.nodes.values()) - before


def test_a_follower_that_was_cut_off_disturbs_nobody_when_it_returns() -> None:
    assert epochs_after_a_lonely_night(RaftDriver) == 0
    assert epochs_after_a_lonely_night(NoPreVote) > 0, "without the pre-vote it does"


# Snapshots


def test_who_is_too_far_behind_downloads_a_snapshot() -> None:
    cluster = Cluster(7, 3)
    leader = cluster.elect()
    behind = others(cluster, leader)[0].node_id
    cluster.crash(behind)
    for number in range(60):
        cluster.append()
        cluster.run_for(0.05)
        if number % 20 == 19:
            leader.take_snapshot()
            cluster.run_for(0.5)
    assert leader.driver.log.start_offset > 0, "the log does not reach back any more"
    cluster.start(behind)
    cluster.converge()
    latest = cluster.nodes[behind].driver.snapshots.latest()
    assert latest not in (None, BOOTSTRAP_SNAPSHOT)
    cluster.crash(behind)
    cluster.start(behind)
    cluster.converge()


def test_a_damaged_download_is_refused_and_fetched_again() -> None:
    cluster = Cluster(8, 3, observers=1)
    cluster.crash(4)
    leader = cluster.elect()
    for _ in range(10):
        cluster.append()
        cluster.run_for(0.1)
    leader.take_snapshot()
    cluster.run_for(1.0)
    damaged = 0

    def damage(operation: str, path: str) -> None:
        nonlocal damaged
        if operation == "write" and "-download" in path and not damaged:
            damaged += 1
            file = cluster.disks[4].open(path)
            file.write_at(30, bytes([file.read_at(30, 1)[0] ^ 1]))
            file.close()

    cluster.disks[4].after = damage
    cluster.start(4)
    cluster.converge()
    assert damaged == 1
    assert cluster.nodes[4].driver.snapshots.latest() is not None
    assert any(isinstance(event, SnapshotRefused) for event in cluster.nodes[4].driver.events.last)


# Voters that come and go


def test_an_observer_becomes_a_voter_and_ceases_to_be_one() -> None:
    cluster = Cluster(9, 1, observers=2)
    leader = cluster.elect()
    cluster.run_for(30.0)
    assert settled(cluster, cluster.add_voter(2)) == (0, None)
    cluster.run_for(30.0)
    assert settled(cluster, cluster.add_voter(3)) == (0, None)
    assert leader.driver.voters.ids == [1, 2, 3]
    assert leader.driver.is_leader
    assert leader.driver.epoch == 1, "a new voter is given the time to be heard"
    cluster.crash(1)
    cluster.elect()
    cluster.converge()
    assert settled(cluster, cluster.remove_voter(1)) == (0, None)
    cluster.converge()
    for node in cluster.nodes.values():
        assert node.driver.voters.ids == [2, 3]


def test_a_leader_that_removes_itself_resigns_when_that_is_committed() -> None:
    cluster = Cluster(10, 3)
    leader = cluster.elect()
    cluster.run_for(1.0)
    assert settled(cluster, cluster.remove_voter(leader.node_id)) == (0, None)
    assert cluster.run_until(lambda: cluster.leader not in (None, leader), 10)
    cluster.converge()


def test_a_removal_that_only_the_removed_leader_has_does_not_end_the_quorum() -> None:
    cluster = Cluster(11, 2)
    leader = cluster.elect()
    cluster.run_for(1.0)
    cluster.partition({leader.node_id})
    leader.scheduler.turn.run(cluster.remove_voter, leader.node_id)
    assert leader.driver.voters.ids == [others(cluster, leader)[0].node_id]
    cluster.run_for(0.5)
    cluster.crash(leader.node_id, power=False)
    cluster.start(leader.node_id)
    cluster.converge()


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda cluster: cluster.add_voter(1), ErrorCode.DUPLICATE_VOTER),
        (lambda cluster: cluster.remove_voter(4), ErrorCode.VOTER_NOT_FOUND),
        (lambda cluster: cluster.add_voter(9), ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(change: object, error: ErrorCode) -> None:
    assert callable(change)
    cluster = Cluster(12, 3, observers=1)
    cluster.elect()
    cluster.run_for(1.0)
    code, message = settled(cluster, change(cluster))
    assert code == error
    if error is not ErrorCode.REQUEST_TIMED_OUT:
        assert message is not None
        node_id = 1 if error is ErrorCode.DUPLICATE_VOTER else 4
        named = str(ReplicaKey(node_id, key_of(node_id).directory_id))
        voters = ", ".join(str(key_of(each)) for each in (1, 2, 3))
        assert named in message
        assert f"the set of voters [{voters}]" in message
        assert named == f"ReplicaKey(id={node_id}, directoryId={uuid_text(key_of(node_id)[1])})"


def test_one_change_at_a_time() -> None:
    cluster = Cluster(13, 3, observers=1)
    leader = cluster.elect()
    cluster.run_for(1.0)
    cluster.partition({leader.node_id})
    first = cluster.remove_voter(others(cluster, leader)[0].node_id)
    code, message = settled(cluster, cluster.add_voter(4))
    assert code == ErrorCode.REQUEST_TIMED_OUT
    assert message is not None
    assert "previous voter change" in message
    assert first is not None
    assert settled(cluster, first)[0] == ErrorCode.REQUEST_TIMED_OUT, "it is not committed"


def test_a_fixed_quorum_cannot_be_changed() -> None:
    cluster = Cluster(14, 3, observers=1, dynamic=False)
    cluster.elect()
    cluster.run_for(1.0)
    assert settled(cluster, cluster.add_voter(4))[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_may_join_by_itself() -> None:
    cluster = Cluster(15, 1, observers=1, auto_join=True)
    cluster.elect()
    assert cluster.run_until(lambda: cluster.nodes[1].driver.voters.ids == [1, 2], 20)
    cluster.converge()
    assert cluster.nodes[1].driver.voters.keys == [key_of(1), key_of(2)]


def test_a_voter_with_another_address_tells_the_leader() -> None:
    cluster = Cluster(16, 3)
    leader = cluster.elect()
    node = others(cluster, leader)[0]
    cluster.crash(node.node_id)
    cluster.hosts[node.node_id] = "elsewhere"
    cluster.start(node.node_id)
    assert cluster.run_until(
        lambda: leader.driver.voters.endpoints_of(node.node_id)[0].host == "elsewhere", 20
    )
    cluster.converge()


def static_voters_heard(cluster: Cluster) -> Node:
    """A leader to which every voter of a static quorum has told its directory and endpoints."""
    cluster.elect()
    assert cluster.run_until(lambda: cluster.upgrade(validate_only=True) is None, 30)
    leader = cluster.leader
    assert leader is not None
    return leader


def test_a_static_quorum_becomes_a_dynamic_one() -> None:
    cluster = Cluster(31, 3, observers=1, dynamic=False)
    leader = static_voters_heard(cluster)
    assert leader.driver.kraft_version == 0, "it was only asked"
    end = leader.driver.end_offset
    assert cluster.upgrade() is None
    assert leader.driver.end_offset == end + 2
    (batch,) = [each for each in read_batches(leader.driver.log, end, end + 2) if each.is_control]
    assert [read_control_type(each.key) for each in batch.records()] == [
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ], "in one batch"
    cluster.converge()
    for node in cluster.nodes.values():
        assert node.driver.kraft_version == 1
        assert node.driver.voters == VoterSet(voter(node_id) for node_id in (1, 2, 3))
    assert cluster.upgrade() is None, "it is there already"
    leader = cluster.elect()
    role = leader.driver.node.role
    assert isinstance(role, Leader)
    assert [key.node_id for key in role.observers(leader.driver.voters, leader.driver.now)] == [4]


def test_an_upgraded_quorum_takes_and_loses_voters_and_survives_a_restart() -> None:
    cluster = Cluster(32, 3, observers=1, dynamic=False)
    static_voters_heard(cluster)
    cluster.upgrade()
    cluster.converge()
    assert settled(cluster, cluster.add_voter(4)) == (0, None)
    cluster.converge()
    assert settled(cluster, cluster.remove_voter(1)) == (0, None)
    cluster.converge()
    for node_id in cluster.ids:
        cluster.crash(node_id)
    cluster.converge()
    for node in cluster.nodes.values():
        assert (node.driver.kraft_version, node.driver.voters.ids) == (1, [2, 3, 4])


def test_the_upgrade_waits_until_every_voter_was_heard_in_this_epoch() -> None:
    cluster = Cluster(33, 3, dynamic=False)
    leader = static_voters_heard(cluster)
    away = others(cluster, leader)[0]
    cluster.crash(away.node_id)
    leader.driver.step(Resign(cluster.scheduler.now))
    cluster.run_for(10.0)
    refused = "Invalid upgrade of kraft.version to KRAFT_VERSION_1 because not all of the voters"
    assert cluster.upgrade() == f"{refused} support it"
    assert cluster.elect().driver.kraft_version == 0
    cluster.start(away.node_id)
    static_voters_heard(cluster)


def test_an_upgrade_that_is_not_committed_is_truncated_with_the_rest() -> None:
    cluster = Cluster(34, 3, dynamic=False)
    leader = static_voters_heard(cluster)
    cluster.partition({leader.node_id})
    leader.changes.upgrade(1, validate_only=False)
    assert leader.driver.kraft_version == 1
    assert cluster.run_until(lambda: cluster.leader not in (None, leader), 30)
    cluster.converge()
    assert [node.driver.kraft_version for node in cluster.nodes.values()] == [0, 0, 0]
    static_voters_heard(cluster)
    assert cluster.upgrade() is None
    cluster.converge()
    assert [node.driver.kraft_version for node in cluster.nodes.values()] == [1, 1, 1]
