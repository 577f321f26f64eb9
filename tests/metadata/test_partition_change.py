"""What changes of a partition's ISR, replicas and brokers lead to.

The expected records of one-replica partitions are those that Apache Kafka 4.3.1 wrote when its only
broker stopped, was killed, and came back.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.election import Election
from ottla.metadata.partition_change import (
    PartitionRules,
    PartitionTargets,
    partition_change,
)
from ottla.metadata.topics import (
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    PartitionImage,
    changed_partition,
)
from ottla.protocol.generated.metadata_records import PartitionChangeRecord

TOPIC_ID = b"0123456789abcdef"
DIRECTORY = b"d" * 16
NEW_DIRECTORY = b"n" * 16


def image(replicas: tuple[int, ...] = (1,), **fields: Any) -> PartitionImage:
    values: dict[str, Any] = {"isr": replicas, "leader": replicas[0] if replicas else NO_LEADER}
    values |= {"leader_epoch": 3, "partition_epoch": 5}
    values |= {"directories": (DIRECTORY,) * len(replicas)} | fields
    return PartitionImage(replicas, **values)


def change(
    old: PartitionImage,
    alive: set[int],
    targets: PartitionTargets | None = None,
    *,
    min_isr: int = 1,
    elr: bool = True,
    election: Election = Election.ONLINE,
    metadata_version: int = 30,
) -> PartitionChangeRecord | None:
    rules = PartitionRules(
        alive.__contains__, min_isr, elr, metadata_version, lambda _: NEW_DIRECTORY, election
    )
    return partition_change(TOPIC_ID, 4, old, targets or PartitionTargets(), rules)


def record(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=4, **fields)


def test_nothing_to_change_is_no_record() -> None:
    assert change(image(), {1}) is None


def test_the_only_replica_stops_and_becomes_eligible() -> None:
    stopped = change(image(), set(), PartitionTargets(isr=[]))
    assert stopped == record(isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1])


def test_the_only_replica_comes_back_from_a_clean_stop() -> None:
    old = image(isr=(), leader=NO_LEADER, elr=(1,), last_known_elr=(1,))
    assert change(old, {1}) == record(
        isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
    )


def test_an_unclean_stop_makes_a_replica_ineligible() -> None:
    old = image(isr=(), leader=NO_LEADER, elr=(1,), last_known_elr=(1,))
    targets = PartitionTargets(isr=[], unclean_shutdown=frozenset({1}))
    assert change(old, set(), targets) == record(eligible_leader_replicas=[])


def test_the_last_known_leader_comes_back_recovering() -> None:
    old = image(isr=(), leader=NO_LEADER, last_known_elr=(1,))
    assert change(old, {1}) == record(
        isr=[1], leader=1, leader_recovery_state=RECOVERING, last_known_elr=[]
    )


def test_a_leader_that_recovers_again_is_not_told_twice() -> None:
    old = image(isr=(), leader=NO_LEADER, last_known_elr=(1,), leader_recovery_state=RECOVERING)
    assert change(old, {1}) == record(isr=[1], leader=1, last_known_elr=[])


def test_without_elr_the_last_replica_stays_in_the_isr() -> None:
    assert change(image(), set(), PartitionTargets(isr=[]), elr=False) == record(leader=-1)


def test_who_leaves_an_isr_above_the_minimum_is_forgotten() -> None:
    old = image((1, 2, 3))
    assert change(old, {1, 2, 3}, PartitionTargets(isr=[1, 2]), min_isr=2) == record(isr=[1, 2])


def test_who_leaves_an_isr_below_the_minimum_is_eligible() -> None:
    old = image((1, 2, 3), isr=(1, 2))
    assert change(old, {1, 2, 3}, PartitionTargets(isr=[1]), min_isr=2) == record(
        isr=[1], eligible_leader_replicas=[2]
    )


def test_at_the_minimum_all_eligible_replicas_are_forgotten() -> None:
    old = image((1, 2, 3), isr=(1,), elr=(2, 3), last_known_elr=(1,))
    assert change(old, {1, 2, 3}, PartitionTargets(isr=[1, 2]), min_isr=2) == record(
        isr=[1, 2], eligible_leader_replicas=[]
    )


def test_an_eligible_replica_that_is_elected_is_the_whole_isr() -> None:
    old = image((1, 2, 3), isr=(), leader=NO_LEADER, elr=(2, 3), last_known_elr=(1,))
    assert change(old, {3}, min_isr=2) == record(
        isr=[3], leader=3, eligible_leader_replicas=[2], last_known_elr=[]
    )


def test_an_unclean_leader_is_the_whole_isr_and_recovers() -> None:
    old = image((1, 2), isr=(1,), elr=(), leader=1)
    assert change(old, {2}, PartitionTargets(isr=[]), election=Election.UNCLEAN) == record(
        isr=[2], leader=2, leader_recovery_state=RECOVERING
    )


def test_a_leader_may_say_that_it_has_recovered() -> None:
    old = image((1, 2), isr=(1,), leader_recovery_state=RECOVERING)
    targets = PartitionTargets(isr=[1], leader_recovery_state=RECOVERED)
    assert change(old, {1, 2}, targets) == record(leader_recovery_state=RECOVERED)


def test_a_reassignment_goes_on_until_all_new_replicas_are_in_sync() -> None:
    old = image((1, 2))
    begun = change(
        old,
        {1, 2, 3},
        PartitionTargets(replicas=[3, 1, 2], removing_replicas=[1, 2], adding_replicas=[3]),
    )
    assert begun == record(
        replicas=[3, 1, 2],
        removing_replicas=[1, 2],
        adding_replicas=[3],
        directories=[NEW_DIRECTORY, DIRECTORY, DIRECTORY],
    )
    moving = changed_partition(old, begun)
    done = change(moving, {1, 2, 3}, PartitionTargets(isr=[1, 2, 3]))
    assert done == record(
        replicas=[3],
        isr=[3],
        leader=3,
        removing_replicas=[],
        adding_replicas=[],
        directories=[NEW_DIRECTORY],
    )


def test_followers_that_are_taken_away_are_fenced_by_a_new_leader_epoch() -> None:
    old = image((1, 2), isr=(1, 2))
    taken = change(old, {1, 2}, PartitionTargets(replicas=[1, 2], removing_replicas=[2]))
    assert taken is not None
    assert (taken.replicas, taken.isr, taken.leader) == ([1], [1], 1)


def test_old_metadata_versions_raise_the_leader_epoch_when_the_isr_shrinks() -> None:
    old = image((1, 2))
    targets = PartitionTargets(isr=[1])
    shrunk = change(old, {1, 2}, targets, elr=False, metadata_version=11)
    assert shrunk == record(isr=[1], leader=1)
    assert change(old, {1, 2}, targets, elr=False, metadata_version=12) == record(isr=[1])


def test_a_replica_that_moves_to_another_directory_changes_nothing_else() -> None:
    old = image((1, 2))
    targets = PartitionTargets(directories={2: NEW_DIRECTORY})
    assert change(old, {1, 2}, targets) == record(directories=[DIRECTORY, NEW_DIRECTORY])


REPLICAS = (1, 2, 3, 4)
subsets = st.sets(st.sampled_from(REPLICAS))


@given(st.data())
def test_whatever_happens_a_leader_is_in_sync_and_the_sets_are_apart(data: st.DataObject) -> None:
    partition = image(REPLICAS)
    for _ in range(data.draw(st.integers(1, 12))):
        alive = data.draw(subsets)
        gone = data.draw(subsets)
        isr = [r for r in partition.isr if r not in gone]
        if partition.leader in isr:
            isr += sorted(data.draw(subsets) - set(isr))
        unclean = frozenset(data.draw(subsets) & gone)
        made = change(
            partition,
            alive - gone,
            PartitionTargets(isr=isr, unclean_shutdown=unclean),
            min_isr=data.draw(st.integers(1, 4)),
            election=data.draw(st.sampled_from(Election)),
        )
        if made is None:
            continue
        before = partition
        partition = changed_partition(partition, made)
        assert set(partition.isr) <= set(partition.replicas)
        assert not set(partition.isr) & set(partition.elr)
        assert partition.leader == NO_LEADER or partition.leader in partition.isr
        assert partition.leader == before.leader or partition.leader_epoch > before.leader_epoch
        assert len(partition.last_known_elr) <= 1
