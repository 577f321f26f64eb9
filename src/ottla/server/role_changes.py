"""What a broker's partitions become, in its log: leader, follower; ISRs that shrink and expand.

All by images, so that each change is told once, whichever way the broker has heard of it.
"""

from collections.abc import Callable
from typing import TypeAlias

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage
from ottla.observability.logging import logger

log = logger(__name__)

_Fields: TypeAlias = dict[str, object]


class RoleChanges:
    """Those of broker ``node_id``; ``min_insync_replicas`` is asked by the name of a topic."""

    def __init__(self, node_id: int, min_insync_replicas: Callable[[str], int]) -> None:
        self._node_id = node_id
        self._min_insync_replicas = min_insync_replicas
        self._led: list[_Fields] = []
        self._followed: list[_Fields] = []
        self._shrunk: list[_Fields] = []
        self._expanded: list[_Fields] = []

    def loaded(self, image: MetadataImage) -> None:
        """Tell of what this broker begins with."""
        if not log.enabled_for_info():
            return
        for topic in image.topics:
            for index, state in topic.partitions.items():
                self._note(f"{topic.name}-{index}", topic.name, None, state)
        self._tell()

    def changed(self, delta: MetadataDelta) -> None:
        if not log.enabled_for_info():
            return
        for topic in delta.topics.changed.values():
            for index, state in topic.changed.items():
                self._note(f"{topic.name}-{index}", topic.name, topic.before(index), state)
        self._tell()

    def _note(
        self, name: str, topic: str, before: PartitionImage | None, now: PartitionImage
    ) -> None:
        if self._node_id not in now.replicas:
            return
        is_leader = now.leader == self._node_id
        if before is None or before.leader_epoch != now.leader_epoch:
            fields: _Fields = {"partition": name, "leader_epoch": now.leader_epoch}
            if is_leader:
                self._led.append({**fields, "isr": _listed(now.isr)})
            elif before is None or before.leader != now.leader:
                self._followed.append(
                    {**fields, "leader": now.leader if now.leader >= 0 else "none"}
                )
        if is_leader and before is not None:
            self._compare_isr(name, topic, before, now)

    def _compare_isr(
        self, name: str, topic: str, before: PartitionImage, now: PartitionImage
    ) -> None:
        lost, gained = set(before.isr) - set(now.isr), set(now.isr) - set(before.isr)
        minimum = min(self._min_insync_replicas(topic), len(now.replicas))
        fields: _Fields = {
            "partition": name,
            "before": _listed(before.isr),
            "isr": _listed(now.isr),
            "under_min_isr": len(now.isr) < minimum,
        }
        if lost:
            self._shrunk.append(fields)
        elif gained:
            self._expanded.append(fields)

    def _tell(self) -> None:
        log.changes("became leader", self._led)
        log.changes("became follower", self._followed)
        under = sum(bool(each["under_min_isr"]) for each in self._shrunk)
        log.changes("ISR shrunk", self._shrunk, under_min_isr=under)
        under = sum(bool(each["under_min_isr"]) for each in self._expanded)
        log.changes("ISR expanded", self._expanded, under_min_isr=under)
        for told in (self._led, self._followed, self._shrunk, self._expanded):
            told.clear()


def _listed(replicas: tuple[int, ...]) -> str:
    return ",".join(map(str, replicas))
