"""Offsets whose time is over, and groups that have nothing left, go.

All are looked at every ``offsets.retention.check.interval.ms``.
"""

from collections.abc import Iterator

from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.group.group import Group
from ottla.coordinator.group.offsets import GroupOffsets
from ottla.coordinator.group.records import GroupRecord
from ottla.coordinator.partition import Action
from ottla.coordinator.shard import Outcome
from ottla.coordinator.sweep import SLICE, Sweep
from ottla.coordinator.timeline import TimelineDict
from ottla.coordinator.timers import Timers

_Part = tuple[str, list[TopicPartition]]
"""A group and some of its offsets, or all of them."""


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
        self._interval_ms = interval_ms
        self._sweep = Sweep("expiry", timers, self._slices, self._expire)

    def schedule(self) -> None:
        self._sweep.every(self._interval_ms)

    def _slices(self) -> Iterator[list[_Part]]:
        gathered: list[_Part] = []
        work = 0
        for part in self._parts():
            gathered.append(part)
            work += 1 + len(part[1])
            if work >= SLICE:
                yield gathered
                gathered, work = [], 0
        if gathered:
            yield gathered

    def _parts(self) -> Iterator[_Part]:
        for group_id in self._groups:
            keys = self._offsets.of_group(group_id)
            for start in range(0, max(len(keys), 1), SLICE):
                yield group_id, keys[start : start + SLICE]

    def _expire(self, parts: list[_Part], now_ms: int) -> Outcome[GroupRecord, None]:
        records: list[GroupRecord] = []
        for group_id, keys in parts:
            group = self._groups.get(group_id)
            if group is None:
                continue
            all_gone = self._offsets.expire(group, keys, now_ms, records)
            if all_gone and group.is_empty:
                records += group.tombstones()
        return Outcome(records, None, atomic=False)
