"""A group changes its kind while it has members (KIP-848, ``group.consumer.migration.policy``).

*Up*: a member that speaks the consumer protocol comes to a classic group of consumers. The group
goes on from its generation with the assignment it has; its old members stay classic, and each is
told to join again at its next heartbeat (see ``classic_members``).

*Down*: the last member that speaks the consumer protocol goes. The classic ones that are left make
a classic group, whose generation is the group's epoch, and rebalance.

Both are one write: tombstones of the one kind, then the records of the other.
"""

from typing import TypeVar

from ottla.common.errors import ApiError, ErrorCode, GroupIdNotFound, ProtocolViolation
from ottla.coordinator.group.classic.group import CONSUMER_PROTOCOL_TYPE, ClassicGroup, ClassicState
from ottla.coordinator.group.classic.joining import join_refused
from ottla.coordinator.group.classic.member import ClassicMember
from ottla.coordinator.group.classic.rebalance import ClassicRebalance
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.embedded import (
    CustomAssignor,
    assignment_bytes,
    assignment_version,
    read_assignment,
    read_subscription,
)
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ClassicClient, ConsumerMember
from ottla.coordinator.group.consumer.records import (
    assignment_record,
    epoch_record,
    member_record,
    target_epoch_record,
    target_record,
)
from ottla.coordinator.group.records import GroupRecord, group_record, group_tombstone
from ottla.coordinator.shard import Outcome, Stored
from ottla.protocol.generated.sync_group import SyncGroupResponse

T = TypeVar("T")


class Migration:
    def __init__(self, context: ConsumerContext, rebalance: ClassicRebalance) -> None:
        self._context = context
        self._rebalance = rebalance

    # Up

    def upgrade(self, classic: ClassicGroup, records: list[GroupRecord]) -> ConsumerGroup:
        """The consumer group that ``records`` will make of ``classic``."""
        self._check_upgrade(classic)
        group = ConsumerGroup(classic.group_id, self._context.timeline)
        try:
            for member in classic.members.values():
                self._take_over(classic, member, group)
        except ProtocolViolation:
            raise self._not_upgraded(
                classic, "the embedded consumer protocol is malformed"
            ) from None
        except CustomAssignor:
            raise GroupIdNotFound(
                f"Cannot upgrade classic group {classic.group_id} to consumer group because an "
                "unsupported custom assignor is in use. Please refer to the documentation or "
                "switch to a default assignor before re-attempting the upgrade."
            ) from None
        group.set_epoch(
            classic.generation_id, self._context.metadata_hash(group.topics_without([]))
        )
        group.set_assignment_epoch(classic.generation_id, 0)
        records.append(group_tombstone(classic.group_id))
        records += creation(group)
        self._send_back(classic)
        return group

    def _check_upgrade(self, classic: ClassicGroup) -> None:
        settings = self._context.settings
        if not settings.may_upgrade:
            raise self._not_upgraded(classic, "online upgrade is disabled")
        if not classic.is_of_consumers:
            what = "the group does not use the consumer embedded protocol"
            raise self._not_upgraded(classic, what)
        if len(classic.members) > settings.consumer_size_max:
            what = "the group size exceeds the consumer group maximum size"
            raise self._not_upgraded(classic, what)

    def _not_upgraded(self, classic: ClassicGroup, why: str) -> GroupIdNotFound:
        return GroupIdNotFound(
            f"Cannot upgrade classic group {classic.group_id} to consumer group because {why}."
        )

    def _take_over(
        self, classic: ClassicGroup, member: ClassicMember, group: ConsumerGroup
    ) -> None:
        protocol = classic.protocol_name or next(iter(member.protocols))
        subscription = read_subscription(member.protocols[protocol])
        assigned = read_assignment(member.assignment, self._context.image.topics)
        group.targets[member.member_id] = assigned
        group.put(
            ConsumerMember(
                member_id=member.member_id,
                epoch=classic.generation_id,
                previous_epoch=classic.generation_id,
                instance_id=member.instance_id,
                rack_id=subscription.rack_id or None,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                subscribed_topics=frozenset(subscription.topics),
                classic=ClassicClient(member.session_timeout_ms, tuple(member.protocols.items())),
                assigned={
                    topic_id: dict.fromkeys(sorted(partitions), classic.generation_id)
                    for topic_id, partitions in assigned.items()
                },
            )
        )

    def _send_back(self, classic: ClassicGroup) -> None:
        """Members that wait for the rebalance that was under way must come again."""
        code = ErrorCode.REBALANCE_IN_PROGRESS
        for member in list(classic.members.values()):
            self._rebalance.answer_join(member, join_refused(code, member.member_id))
            self._rebalance.answer_sync(member, SyncGroupResponse(error_code=code))

    def upgraded(self, classic: ClassicGroup) -> Stored:
        """What is to be done when it is known whether the group has changed its kind."""

        def stored(error: ApiError | None, now_ms: int) -> None:
            if error is None:
                self._context.timers.cancel(("join", classic.group_id))
                self._context.timers.cancel(("sync", classic.group_id))
                return
            for member in classic.members.values():
                self._rebalance.begin_session(classic, member)
            self._rebalance.begin_again(classic, now_ms)

        return stored

    # Down

    def may_downgrade(self, group: ConsumerGroup, gone: list[ConsumerMember]) -> bool:
        left = len(group.members) - len(gone)
        settings = self._context.settings
        return (
            0 < left <= settings.size_max and settings.may_downgrade and group.all_classic_but(gone)
        )

    def downgrade(
        self,
        group: ConsumerGroup,
        gone: list[ConsumerMember],
        answer: T,
        joining: ConsumerMember | None = None,
        *,
        rebalance: bool = True,
    ) -> Outcome[GroupRecord, T]:
        """Make a classic group of the rest, and of ``joining``, which takes a static place."""
        group_id = group.group_id
        records = group.tombstones()
        classic = self._classic(group, {member.member_id for member in gone}, joining)
        assignments = {each.member_id: each.assignment for each in classic.members.values()}
        records.append(group_record(group_id, classic.to_record(assignments)))

        def stored(error: ApiError | None, now_ms: int) -> None:
            current = self._rebalance.find(group_id)
            if error is not None or current is None:
                return
            for member in current.members.values():
                self._rebalance.begin_session(current, member)
            if rebalance and current.state is ClassicState.STABLE:
                outcome = self._rebalance.prepare(current, now_ms)
                assert not outcome.records  # nobody has joined, so it waits

        return Outcome(records, answer, then=stored)

    def _classic(
        self, group: ConsumerGroup, gone: set[str], joining: ConsumerMember | None
    ) -> ClassicGroup:
        classic = ClassicGroup(group.group_id, 0)
        classic.state_since_ms = None
        classic.generation_id = group.epoch
        members = [each for each in group.members.values() if each.member_id not in gone]
        for member in [*members, *([] if joining is None else [joining])]:
            assert member.classic is not None
            classic.add(_classic_member(member, member.classic), CONSUMER_PROTOCOL_TYPE)
        classic.protocol_name = classic.select_protocol()
        topics = self._context.image.topics
        for each in [*members, *([] if joining is None else [joining])]:
            classic_member = classic.members[each.member_id]
            version = assignment_version(classic_member.protocols[classic.protocol_name])
            classic_member.assignment = assignment_bytes(group.target_of(each), topics, version)
        return classic


def _classic_member(member: ConsumerMember, classic: ClassicClient) -> ClassicMember:
    return ClassicMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=classic.session_timeout_ms,
        protocols=dict(classic.protocols),
    )


def creation(group: ConsumerGroup) -> list[GroupRecord]:
    """The records that make ``group`` as it is."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_record(group_id, member) for member in members),
        epoch_record(group_id, group.epoch, group.metadata_hash),
        *(target_record(group_id, member.member_id, group.target_of(member)) for member in members),
        target_epoch_record(group_id, group.assignment_epoch, group.assignment_timestamp_ms),
        *(assignment_record(group_id, member) for member in members),
    ]
