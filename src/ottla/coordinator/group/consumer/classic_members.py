"""Members that speak the classic protocol in a consumer group, while it is being upgraded.

To such a member the group looks like a classic one: its epoch is the generation, it never leads,
and what it is assigned is made here. REBALANCE_IN_PROGRESS at a heartbeat means: join again. It
joins with what it owns, which is how it says that it has given up the rest, and so goes through
the very same reconciliation as the others.
"""

from dataclasses import replace

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    FencedInstanceId,
    IllegalGeneration,
    InconsistentGroupProtocol,
    ProtocolViolation,
    UnknownMemberId,
)
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.common.promise import Promise
from ottla.coordinator.group.classic.join import KNOWN_MEMBER_ID_FROM
from ottla.coordinator.group.classic.joining import UNKNOWN_MEMBER, Joined, Joining, refuse
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.embedded import (
    assignment_bytes,
    assignment_version,
    owned_partitions,
    read_subscription,
)
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import ConsumerHeartbeat, static_member
from ottla.coordinator.group.consumer.member import ClassicClient, ConsumerMember, MemberState
from ottla.coordinator.group.consumer.migration import Migration
from ottla.coordinator.group.consumer.sessions import Sessions
from ottla.coordinator.group.consumer.target import Target, update_target
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.shard import Outcome
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse


class ClassicMembers:
    def __init__(
        self,
        context: ConsumerContext,
        sessions: Sessions,
        migration: Migration,
        beats: ConsumerHeartbeat,
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._migration = migration
        self._beats = beats

    # JoinGroup

    def join(self, group: ConsumerGroup, joining: Joining) -> Joined:
        request = joining.request
        try:
            return self._join(group, joining)
        except ApiError as error:
            return refuse(error.code, request.member_id)

    def _join(self, group: ConsumerGroup, joining: Joining) -> Joined:
        request, instance_id = joining.request, joining.request.group_instance_id
        member_id = request.member_id or uuid_text(random_uuid(self._context.chance))
        self._beats.check_room(group, request.member_id)
        if not group.supports_classic(request.protocol_type, joining.protocols):
            raise InconsistentGroupProtocol(f"Member {member_id}'s protocols are not supported.")
        is_new = request.member_id == UNKNOWN_MEMBER
        if is_new and instance_id is None and joining.caller.version >= KNOWN_MEMBER_ID_FROM:
            return refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        records: list[GroupRecord] = []
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerMember(member_id)
        elif is_new:
            member = self._beats.join_static(
                group, member_id, instance_id, records, is_classic=True
            )
        else:
            member = static_member(group, member_id, instance_id)
        former = group.static_member(instance_id)
        goes_down = former is not None and self._may_go_down(group, former)
        subscription = self._subscription(joining)
        updated = _updated(member, joining, subscription)
        epoch, changed = self._beats.update_member(
            group, member, updated, joining.caller, joining.now_ms, records
        )
        owned = owned_partitions(subscription, self._context.image.topics)
        if goes_down:
            assert former is not None
            target = Target(group.assignment_epoch, group.target_of(updated))
        else:
            target = update_target(self._context, group, epoch, updated, joining.now_ms, records)
        reconciled = self._beats.reconcile(group, updated, target, owned, records, changed=changed)
        response = _joined(reconciled)
        if goes_down and former is not None:
            return self._migration.downgrade(
                group, [former], response, reconciled, rebalance=changed
            )
        self._sessions.joined(group.group_id, member_id)
        self._sessions.begin(group.group_id, member_id, request.session_timeout_ms)
        self._sessions.expect_sync(group.group_id, member_id, request.rebalance_timeout_ms)
        return Outcome(records, response)

    def _may_go_down(self, group: ConsumerGroup, former: ConsumerMember) -> bool:
        settings = self._context.settings
        return (
            settings.may_downgrade
            and len(group.members) <= settings.size_max
            and group.all_classic_but([former])
        )

    def _subscription(self, joining: Joining) -> ConsumerProtocolSubscription:
        try:
            return read_subscription(next(iter(joining.protocols.values())))
        except ProtocolViolation:
            raise InconsistentGroupProtocol from None

    # SyncGroup and Heartbeat

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest
    ) -> Outcome[GroupRecord, SyncGroupResponse | Promise[SyncGroupResponse]]:
        member, classic = self._check(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        _check_protocol(request, classic)
        unrevoked = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.epoch > member.epoch and not unrevoked:
            self._sessions.expect_join(group.group_id, member)
            return Outcome([], SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        self._sessions.synced(group.group_id, member.member_id)
        self._sessions.begin(group.group_id, member.member_id, classic.session_timeout_ms)
        partitions = {topic_id: frozenset(each) for topic_id, each in member.assigned.items()}
        version = assignment_version(classic.protocols[0][1])
        response = SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(partitions, self._context.image.topics, version),
        )
        return Outcome([], response)

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest
    ) -> Outcome[GroupRecord, HeartbeatResponse]:
        member, classic = self._check(
            group, request.member_id, request.group_instance_id, request.generation_id
        )
        self._sessions.begin(group.group_id, member.member_id, classic.session_timeout_ms)
        must_join = (
            member.epoch < group.epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (
                member.state is MemberState.UNRELEASED_PARTITIONS
                and not group.waits_for_others(member)
            )
        )
        if not must_join:
            return Outcome([], HeartbeatResponse())
        self._sessions.expect_join(group.group_id, member)
        return Outcome([], HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))

    def _check(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerMember, ClassicClient]:
        if instance_id is None:
            member = group.member(member_id)
        else:
            member = static_member(group, member_id, instance_id)
        classic = _classic(member)
        if generation_id != member.epoch:
            raise IllegalGeneration(
                f"The request generation id {generation_id} is not equal to the member epoch "
                f"{member.epoch} of member {member.member_id}."
            )
        return member, classic

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest
    ) -> Outcome[GroupRecord, LeaveGroupResponse]:
        """An administrator may have any member leave so, whatever it speaks."""
        gone: dict[str, ConsumerMember] = {}
        responses = [self._leave(group, identity, gone) for identity in request.members]
        return self._sessions.fence(
            group, list(gone.values()), LeaveGroupResponse(members=responses)
        )

    def _leave(
        self, group: ConsumerGroup, identity: MemberIdentity, gone: dict[str, ConsumerMember]
    ) -> MemberResponse:
        member_id, instance_id = identity.member_id, identity.group_instance_id
        response = MemberResponse(member_id=member_id, group_instance_id=instance_id)
        try:
            if instance_id is None:
                member = group.member(member_id)
            else:
                named = group.static_member(instance_id)
                if named is None:
                    raise UnknownMemberId
                if member_id not in (UNKNOWN_MEMBER, named.member_id):
                    raise FencedInstanceId
                member = named
        except ApiError as error:
            response.error_code = error.code
        else:
            response.member_id = member.member_id
            gone[member.member_id] = member
        return response


def _classic(member: ConsumerMember) -> ClassicClient:
    if member.classic is None:
        raise UnknownMemberId(f"Member {member.member_id} does not use the classic protocol.")
    return member.classic


def _check_protocol(request: SyncGroupRequest, classic: ClassicClient) -> None:
    if request.protocol_type not in (None, "consumer"):
        raise InconsistentGroupProtocol
    if request.protocol_name not in (None, classic.protocol_name):
        raise InconsistentGroupProtocol


def _updated(
    member: ConsumerMember, joining: Joining, subscription: ConsumerProtocolSubscription
) -> ConsumerMember:
    request = joining.request
    return replace(
        member,
        instance_id=request.group_instance_id or member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topics=frozenset(subscription.topics),
        subscribed_regex="",
        client_id=joining.caller.client_id,
        client_host=joining.caller.client_host,
        classic=ClassicClient(request.session_timeout_ms, tuple(joining.protocols.items())),
    )


def _joined(member: ConsumerMember) -> JoinGroupResponse:
    """The leader is nobody whom a member knows: nobody assigns but us."""
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.epoch,
        protocol_type="consumer",
        protocol_name=member.classic.protocol_name,
    )
