"""The clocks of members, and how a member goes when one of them has run out, or of itself.

A member that speaks the consumer protocol has a session, which every heartbeat renews, and, while
it gives up partitions, its rebalance timeout. One that speaks the classic protocol has its session
and must come with JoinGroup, and then with SyncGroup, within its rebalance timeout.

When the last member that speaks the consumer protocol goes and classic ones are left, the group
becomes a classic one again (see ``migration``).
"""

from typing import TypeVar

from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.member import ConsumerMember
from ottla.coordinator.group.consumer.migration import Migration
from ottla.coordinator.group.consumer.records import epoch_record, regex_tombstone, removed_member
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.shard import Outcome
from ottla.observability.logging import logger

log = logger(__name__)

_REASONS = {
    "session": "session expired",
    "rebalance": "partitions not given up in time",
    "join": "no JoinGroup in time",
    "sync": "no SyncGroup in time",
}
T = TypeVar("T")


class Sessions:
    def __init__(self, context: ConsumerContext, migration: Migration) -> None:
        self._context = context
        self._migration = migration
        self._timers = context.timers

    def begin(self, group_id: str, member_id: str, timeout_ms: int | None = None) -> None:
        """Count the session from now on."""
        if timeout_ms is None:
            timeout_ms = self._context.configs.of(group_id).session_timeout_ms
        self._schedule("session", group_id, member_id, timeout_ms)

    def expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """The member must leave its epoch within its rebalance timeout."""
        epoch, member_id = member.epoch, member.member_id

        def time_is_up(_now_ms: int) -> Outcome[GroupRecord, None]:
            group = self._context.find(group_id)
            current = None if group is None else group.members.get(member_id)
            if group is None or current is None or current.epoch != epoch:
                return Outcome([], None)
            _tell_of_fenced("rebalance", group_id, member_id)
            return self.fence(group, [current], None)

        key = ("rebalance", group_id, member_id)
        self._timers.schedule(key, member.rebalance_timeout_ms, time_is_up)

    def revoked(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("rebalance", group_id, member_id))

    def expect_join(self, group_id: str, member: ConsumerMember) -> None:
        if ("join", group_id, member.member_id) not in self._timers:
            self._schedule("join", group_id, member.member_id, member.rebalance_timeout_ms)

    def joined(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("join", group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, timeout_ms: int) -> None:
        self._schedule("sync", group_id, member_id, timeout_ms)

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(("sync", group_id, member_id))

    def end(self, group_id: str, member_id: str) -> None:
        for kind in ("session", "rebalance", "join", "sync"):
            self._timers.cancel((kind, group_id, member_id))

    def load(self, group: ConsumerGroup) -> None:
        """A coordinator begins: everybody is given the time of a fresh start."""
        for member in group.members.values():
            timeout_ms = None if member.classic is None else member.classic.session_timeout_ms
            self.begin(group.group_id, member.member_id, timeout_ms)
            if member.revoking and not member.is_classic:
                self.expect_revocation(group.group_id, member)

    def _schedule(self, kind: str, group_id: str, member_id: str, timeout_ms: int) -> None:
        def time_is_up(_now_ms: int) -> Outcome[GroupRecord, None]:
            group = self._context.find(group_id)
            member = None if group is None else group.members.get(member_id)
            if group is None or member is None:
                return Outcome([], None)
            _tell_of_fenced(kind, group_id, member_id)
            return self.fence(group, [member], None)

        self._timers.schedule((kind, group_id, member_id), timeout_ms, time_is_up)

    # Members that go

    def fence(
        self, group: ConsumerGroup, gone: list[ConsumerMember], answer: T
    ) -> Outcome[GroupRecord, T]:
        """Remove members; the others take over what they had in the next epoch."""
        if not gone:
            return Outcome([], answer)
        if self._migration.may_downgrade(group, gone):
            for member in gone:
                self.end(group.group_id, member.member_id)
            return self._migration.downgrade(group, gone, answer)
        records: list[GroupRecord] = []
        for member in gone:
            records += removed_member(group.group_id, member.member_id)
        for expression in sorted({member.subscribed_regex for member in gone} - {""}):
            leaving = sum(member.subscribed_regex == expression for member in gone)
            if group.regex_count(expression) == leaving:
                records.append(regex_tombstone(group.group_id, expression))
        metadata_hash = self._context.metadata_hash(group.topics_without(gone))
        records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        for member in gone:
            self.end(group.group_id, member.member_id)
        return Outcome(records, answer)


def _tell_of_fenced(timer: str, group_id: str, member_id: str) -> None:
    log.info("member fenced", member=member_id, group=group_id, reason=_REASONS[timer])
