"""The record that takes a partition from what it is to what it should be.

Every change of a partition (an ISR that a leader proposes, a broker that goes or comes, a
reassignment, an election) states the targets; leader, leader recovery state and eligible leader
replicas follow from them here, by one set of rules.

1. A reassignment is complete when all replicas that are being added are in the ISR; and if it makes
   the replicas fewer, when all that stay are.
2. Below the minimum ISR, a replica that leaves it becomes an eligible leader, unless it stopped
   uncleanly; at the minimum, all of them are forgotten.
3. An unclean leader is the whole ISR, and recovering.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.metadata import versions
from ottla.metadata.election import Candidates, Election, elect
from ottla.metadata.topics import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    NO_RECOVERY_CHANGE,
    RECOVERING,
    PartitionImage,
)
from ottla.protocol.generated.metadata_records import PartitionChangeRecord


@dataclass(frozen=True, slots=True)
class PartitionRules:
    """What holds for the partition besides its own state."""

    is_acceptable: Callable[[int], bool]
    min_isr: int
    """The effective one: not above the number of replicas."""
    elr_enabled: bool
    metadata_version: int
    default_directory: Callable[[int], bytes]
    election: Election = Election.ONLINE


@dataclass(slots=True)
class PartitionTargets:
    """What the partition should become; None leaves a field to follow from the others."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing_replicas: Sequence[int] | None = None
    adding_replicas: Sequence[int] | None = None
    leader_recovery_state: int | None = None
    directories: Mapping[int, bytes] | None = None
    """Directories by broker that are to change."""
    unclean_shutdown: frozenset[int] = frozenset()


class _Assignment(NamedTuple):
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...]
    adding: tuple[int, ...]


def partition_change(
    topic_id: bytes,
    partition_id: int,
    old: PartitionImage,
    targets: PartitionTargets,
    rules: PartitionRules,
) -> PartitionChangeRecord | None:
    """The record, or None when nothing changes."""
    record = PartitionChangeRecord(topic_id=topic_id, partition_id=partition_id)
    assignment = _assignment(old, targets)
    isr = assignment.isr
    elr = _eligible_leader_replicas(old, assignment, targets, rules)
    elected = elect(
        Candidates(
            replicas=assignment.replicas,
            isr=isr,
            elr=elr,
            last_known_elr=old.last_known_elr,
            leader=old.leader,
            is_acceptable=rules.is_acceptable,
            elr_enabled=rules.elr_enabled,
        ),
        rules.election,
    )
    if elected.leader != old.leader:
        record.leader = elected.leader
        if elected.unclean:
            isr, elr = (elected.leader,), ()
            if old.leader_recovery_state != RECOVERING:
                record.leader_recovery_state = RECOVERING
        elif elected.leader in elr and elected.leader not in isr:
            isr = (elected.leader,)
            elr = tuple(replica for replica in elr if replica != elected.leader)
    if record.leader == NO_LEADER_CHANGE and not set(old.replicas) <= set(assignment.replicas):
        record.leader = old.leader  # followers that are gone must be fenced by a new epoch
    if not rules.elr_enabled:
        elr = ()
    if elr != old.elr:
        record.eligible_leader_replicas = list(elr)
    if isr != old.isr and (isr or rules.elr_enabled):
        record.isr = list(isr)
        _bump_epoch_on_shrink(record, old, rules)
    if rules.elr_enabled:
        _set_last_known_elr(record, old)
    _set_assignment(record, old, assignment, targets, rules)
    recovery_state = targets.leader_recovery_state
    if recovery_state is not None and recovery_state != old.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    return None if _is_empty(record) else record


def _assignment(old: PartitionImage, targets: PartitionTargets) -> _Assignment:
    replicas = _target(targets.replicas, old.replicas)
    isr = _target(targets.isr, old.isr)
    removing = _target(targets.removing_replicas, old.removing_replicas)
    adding = _target(targets.adding_replicas, old.adding_replicas)
    if not removing and not adding:
        return _Assignment(replicas, isr, (), ())
    isr_after = tuple(replica for replica in isr if replica not in removing)
    replicas_after = tuple(replica for replica in replicas if replica not in removing)
    awaited = set(adding)
    if len(adding) < len(removing):
        awaited |= set(replicas_after)
    if isr_after and replicas_after and awaited <= set(isr_after):
        return _Assignment(replicas_after, isr_after, (), ())
    return _Assignment(replicas, isr, removing, adding)


def _target(wanted: Sequence[int] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if wanted is None else tuple(wanted)


def _eligible_leader_replicas(
    old: PartitionImage,
    assignment: _Assignment,
    targets: PartitionTargets,
    rules: PartitionRules,
) -> tuple[int, ...]:
    if not rules.elr_enabled:
        return old.elr  # its replicas may still lead; then it is forgotten
    if len(assignment.isr) >= rules.min_isr:
        return ()
    candidates = {*old.elr, *old.isr} & set(assignment.replicas)
    return tuple(sorted(candidates - set(assignment.isr) - targets.unclean_shutdown))


def _bump_epoch_on_shrink(
    record: PartitionChangeRecord, old: PartitionImage, rules: PartitionRules
) -> None:
    if (
        record.leader == NO_LEADER_CHANGE
        and versions.leader_epoch_grows_on_isr_shrink(rules.metadata_version)
        and not set(old.isr) <= set(record.isr or ())
    ):
        record.leader = old.leader


def _set_last_known_elr(record: PartitionChangeRecord, old: PartitionImage) -> None:
    """Remember who led last when there is no leader any more; forget it when there is one."""
    if record.leader == NO_LEADER != old.leader and not old.last_known_elr:
        record.last_known_elr = [old.leader]
    elif record.leader >= 0 and old.last_known_elr:
        record.last_known_elr = []


def _set_assignment(
    record: PartitionChangeRecord,
    old: PartitionImage,
    assignment: _Assignment,
    targets: PartitionTargets,
    rules: PartitionRules,
) -> None:
    if versions.directory_assignment_supported(rules.metadata_version):
        known = dict(zip(old.replicas, old.directories, strict=True))
        known.update(targets.directories or {})
        directories = tuple(
            known[replica] if replica in known else rules.default_directory(replica)
            for replica in assignment.replicas
        )
        if directories != old.directories:
            record.directories = list(directories)
    if assignment.replicas != old.replicas:
        record.replicas = list(assignment.replicas)
    if assignment.removing != old.removing_replicas:
        record.removing_replicas = list(assignment.removing)
    if assignment.adding != old.adding_replicas:
        record.adding_replicas = list(assignment.adding)


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state == NO_RECOVERY_CHANGE
        and record.isr is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
    )
