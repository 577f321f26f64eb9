"""Offsets whose time is over, and groups that have nothing left, go.

All are looked at every ``offsets.retention.check.interval.ms``, slice by slice, a turn of the loop
each: there may be hundreds of thousands. A walk that takes longer than the interval is not begun
anew before its end. What a slice could not write is left for the next check.
"""

from collections.abc import Iterator
from typing import Final

from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import GroupOffsets
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.timeline import TimelineDict
from ottla.coordinator.timers import Timers

_NEXT_SLICE: Final = "expiry, next slice"
SLICE: Final = 1_000
"""Groups and offsets that are looked at in one turn."""


class Expiry:
    def __init__(
        self,
        groups: TimelineDict[str, Group],
        offsets: GroupOffsets,
        timers: Timers[Action],
        interval_ms: int,
    ) -> None:
        self._groups = groups
        self._offsets = offsets
        self._timers = timers
        self._interval_ms = interval_ms
        self._left: Iterator[tuple[str, list[TopicPartition]]] = iter(())

    def schedule(self) -> None:
        self._timers.schedule("expiry", self._interval_ms, self.check)

    def check(self, now_ms: int) -> Outcome[GroupRecord, None]:
        """Begin to look at everything, unless the last walk still goes on."""
        self.schedule()
        if _NEXT_SLICE in self._timers:
            return Outcome([], None)
        self._left = self._parts()
        return self._go_on(now_ms)

    def _parts(self) -> Iterator[tuple[str, list[TopicPartition]]]:
        for group_id in self._groups:
            keys = self._offsets.of_group(group_id)
            for start in range(0, max(len(keys), 1), SLICE):
                yield group_id, keys[start : start + SLICE]

    def _go_on(self, now_ms: int) -> Outcome[GroupRecord, None]:
        records: list[GroupRecord] = []
        work = 0
        for group_id, keys in self._left:
            group = self._groups.get(group_id)
            if group is None:
                continue
            all_gone = self._offsets.expire(group, keys, now_ms, records)
            if all_gone and group.is_empty:
                records += group.tombstones()
            work += 1 + len(keys)
            if work >= SLICE:
                self._timers.schedule(_NEXT_SLICE, 0, self._go_on)
                break
        return Outcome(records, None, atomic=False)
