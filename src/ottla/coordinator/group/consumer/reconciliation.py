"""How one member comes from what it has to what it is to have: one step for each heartbeat.

A pure function. First the member gives up what is not in its target, and stays in its epoch until
it says that it has (UNREVOKED_PARTITIONS). Then it moves to the epoch of the target and is given
what nobody owns; what somebody still owns comes later (UNRELEASED_PARTITIONS).
"""

from collections.abc import Callable
from dataclasses import replace

from ottla.common.errors import FencedMemberEpoch
from ottla.coordinator.group.assignors.specification import Partitions
from ottla.coordinator.group.consumer.member import NOTHING, ConsumerMember, MemberState, Owned

IsOwned = Callable[[bytes, int], bool]


class Reconciliation:
    """What is known when a heartbeat comes."""

    __slots__ = ("_is_owned", "_reported", "_subscribed", "_target", "_target_epoch")

    def __init__(
        self,
        *,
        target: Partitions,
        target_epoch: int,
        subscribed: frozenset[bytes],
        is_owned: IsOwned,
        reported: Partitions | None,
    ) -> None:
        self._target = target
        self._target_epoch = target_epoch
        self._subscribed = subscribed
        """The ids of the topics that the member is subscribed to."""
        self._is_owned = is_owned
        self._reported = reported
        """What the member says that it has; None when it does not say."""

    def step(self, member: ConsumerMember, *, subscription_changed: bool) -> ConsumerMember:
        match member.state:
            case MemberState.STABLE if member.epoch == self._target_epoch:
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNREVOKED_PARTITIONS if self._has_any_of(member.revoking):
                return self._drop_unsubscribed(member) if subscription_changed else member
            case MemberState.UNKNOWN:
                if self._reported is None or self._reported:
                    raise FencedMemberEpoch(
                        "The consumer group member is in a unknown state. The member must abandon "
                        "all its partitions and rejoin."
                    )
                return self._next(member, self._target_epoch)
            case _:
                return self._next(member, member.epoch)

    def _has_any_of(self, revoking: Owned) -> bool:
        """Whether the member still has what it must give up, as far as we know."""
        if self._reported is None:
            return True
        return any(
            partition in revoking.get(topic_id, {})
            for topic_id, partitions in self._reported.items()
            for partition in partitions
        )

    def _drop_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """A topic that the member does not want any more goes at once, whatever its target."""
        kept: dict[bytes, dict[int, int]] = {}
        revoking = {topic_id: dict(partitions) for topic_id, partitions in member.revoking.items()}
        for topic_id, partitions in member.assigned.items():
            if topic_id in self._subscribed:
                kept[topic_id] = dict(partitions)
            else:
                revoking.setdefault(topic_id, {}).update(partitions)
        if len(kept) == len(member.assigned):
            return member
        moved = replace(member, previous_epoch=member.epoch, assigned=kept)
        if self._has_any_of(revoking):
            return replace(moved, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
        return moved

    def _next(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        kept: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        given: list[tuple[bytes, int]] = []
        waits = False
        for topic_id in sorted({*self._target, *member.assigned}):
            target = self._target.get(topic_id, frozenset())
            if topic_id not in self._subscribed:
                target = frozenset()
            assigned = member.assigned.get(topic_id, {})
            for partition, since in assigned.items():
                place = kept if partition in target else revoking
                place.setdefault(topic_id, {})[partition] = since
            for partition in sorted(target - assigned.keys()):
                if self._is_free(member, topic_id, partition):
                    given.append((topic_id, partition))
                else:
                    waits = True
        if revoking and self._has_any_of(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        for topic_id, partition in given:
            kept.setdefault(topic_id, {})[partition] = self._target_epoch
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
            epoch=self._target_epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=NOTHING,
        )

    def _is_free(self, member: ConsumerMember, topic_id: bytes, partition: int) -> bool:
        """What the member itself is giving up, and is to have again, is nobody else's."""
        if not self._is_owned(topic_id, partition):
            return True
        return partition in member.revoking.get(topic_id, {})
