"""Topics and partitions: their images, and the change that records make of them.

Values are shared between images and never changed: what did not change is not copied either, be it
the topics beside one that did, or the partitions of a large topic (``layered_map``).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.common.identifiers import MIGRATING_DIRECTORY
from ottla.metadata.layered_map import changed_map
from ottla.protocol.generated.metadata_records import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
NO_RECOVERY_CHANGE: Final = -1


@dataclass(slots=True)
class PartitionImage:
    """A partition as the metadata log has it. Shared by images: not to be changed."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[bytes, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED

    def directory_of(self, replica: int) -> bytes:
        return self.directories[self.replicas.index(replica)]

    @property
    def is_reassigning(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0]


@dataclass(slots=True)
class TopicImage:
    """A topic. Shared by images: not to be changed."""

    name: str
    topic_id: bytes
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class TopicsImage:
    by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    by_id: Mapping[bytes, TopicImage] = field(default_factory=dict)

    def __iter__(self) -> Iterator[TopicImage]:
        return iter(self.by_name.values())

    def __len__(self) -> int:
        return len(self.by_name)

    def partition(self, topic_id: bytes, partition: int) -> PartitionImage | None:
        topic = self.by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)


def partition_from_record(record: PartitionRecord, shared: dict[bytes, bytes]) -> PartitionImage:
    """``shared`` has the ids of directories that are known: a million partitions name the same."""
    replicas = tuple(record.replicas)
    directories = [shared.setdefault(each, each) for each in record.directories]
    return PartitionImage(
        replicas=replicas,
        isr=_replicas_or(record.isr, replicas),
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        directories=tuple(directories) or (MIGRATING_DIRECTORY,) * len(replicas),
        removing_replicas=tuple(record.removing_replicas),
        adding_replicas=tuple(record.adding_replicas),
        elr=tuple(record.eligible_leader_replicas or ()),
        last_known_elr=tuple(record.last_known_elr or ()),
        leader_recovery_state=record.leader_recovery_state,
    )


def partition_to_record(
    topic_id: bytes, partition_id: int, image: PartitionImage, *, version: int
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=list(image.replicas),
        isr=list(image.isr),
        removing_replicas=list(image.removing_replicas),
        adding_replicas=list(image.adding_replicas),
        leader=image.leader,
        leader_recovery_state=image.leader_recovery_state,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        directories=list(image.directories) if version >= 1 else [],
        eligible_leader_replicas=list(image.elr) if version >= 2 and image.elr else None,
        last_known_elr=(
            list(image.last_known_elr) if version >= 2 and image.last_known_elr else None
        ),
    )


def changed_partition(old: PartitionImage, record: PartitionChangeRecord) -> PartitionImage:
    """``old`` with what ``record`` sets; the leader epoch grows when it names a leader."""
    if record.directories:
        directories = tuple(record.directories)
    elif record.replicas is not None:
        directories = (MIGRATING_DIRECTORY,) * len(record.replicas)
    else:
        directories = old.directories
    names_leader = record.leader != NO_LEADER_CHANGE
    replicas = _changed(old.replicas, record.replicas)
    return PartitionImage(
        replicas=replicas,
        isr=old.isr if record.isr is None else _replicas_or(record.isr, replicas),
        leader=record.leader if names_leader else old.leader,
        leader_epoch=old.leader_epoch + names_leader,
        partition_epoch=old.partition_epoch + 1,
        directories=directories,
        removing_replicas=_changed(old.removing_replicas, record.removing_replicas),
        adding_replicas=_changed(old.adding_replicas, record.adding_replicas),
        elr=_changed(old.elr, record.eligible_leader_replicas),
        last_known_elr=_changed(old.last_known_elr, record.last_known_elr),
        leader_recovery_state=(
            old.leader_recovery_state
            if record.leader_recovery_state == NO_RECOVERY_CHANGE
            else record.leader_recovery_state
        ),
    )


def _replicas_or(isr: list[int], replicas: tuple[int, ...]) -> tuple[int, ...]:
    """The ISR, which most of the time is all replicas: then it is the same object."""
    found = tuple(isr)
    return replicas if found == replicas else found


def _changed(old: tuple[int, ...], new: list[int] | None) -> tuple[int, ...]:
    return old if new is None else tuple(new)


class TopicDelta:
    """A topic that is new or has changed partitions."""

    __slots__ = ("base", "changed", "name", "topic_id")

    def __init__(self, name: str, topic_id: bytes, base: TopicImage | None) -> None:
        self.name = name
        self.topic_id = topic_id
        self.base = base
        """The topic before; None when it is new."""
        self.changed: dict[int, PartitionImage] = {}

    def partition(self, partition_id: int) -> PartitionImage | None:
        found = self.changed.get(partition_id)
        if found is None and self.base is not None:
            found = self.base.partitions.get(partition_id)
        return found

    def before(self, partition_id: int) -> PartitionImage | None:
        return None if self.base is None else self.base.partitions.get(partition_id)

    def apply(self) -> TopicImage:
        if self.base is None:
            return TopicImage(self.name, self.topic_id, self.changed)
        partitions = changed_map(self.base.partitions, self.changed)
        return TopicImage(self.name, self.topic_id, partitions)

    def clear_elr(self) -> None:
        partitions = self.changed if self.base is None else {**self.base.partitions, **self.changed}
        for partition_id, partition in partitions.items():
            if partition.elr or partition.last_known_elr:
                record = PartitionChangeRecord(
                    partition_id=partition_id,
                    topic_id=self.topic_id,
                    eligible_leader_replicas=[],
                    last_known_elr=[],
                )
                self.changed[partition_id] = changed_partition(partition, record)


class TopicsDelta:
    """What records have made of the topics of an image."""

    __slots__ = ("_directories", "base", "changed", "deleted")

    def __init__(self, base: TopicsImage) -> None:
        self.base = base
        self._directories: dict[bytes, bytes] = {}
        self.changed: dict[bytes, TopicDelta] = {}
        self.deleted: dict[bytes, TopicImage] = {}
        """Topics of ``base`` that are gone; one that came and went in between is in neither."""

    def __bool__(self) -> bool:
        return bool(self.changed or self.deleted)

    def replay_topic(self, record: TopicRecord) -> None:
        self.changed[record.topic_id] = TopicDelta(record.name, record.topic_id, None)

    def replay_partition(self, record: PartitionRecord) -> None:
        delta = self._delta(record.topic_id)
        delta.changed[record.partition_id] = partition_from_record(record, self._directories)

    def replay_partition_change(self, record: PartitionChangeRecord) -> None:
        delta = self._delta(record.topic_id)
        old = delta.partition(record.partition_id)
        if old is None:
            raise ValueError(f"change of a partition that does not exist: {record!r}")
        delta.changed[record.partition_id] = changed_partition(old, record)

    def replay_remove_topic(self, record: RemoveTopicRecord) -> str:
        """Forget the topic; return its name, for its configs go with it."""
        name = self._delta(record.topic_id).name
        del self.changed[record.topic_id]
        old = self.base.by_id.get(record.topic_id)
        if old is not None:
            self.deleted[record.topic_id] = old
        return name

    def replay_clear_elr(self, record: ClearElrRecord) -> None:
        if record.topic_name:
            topic_id = self._id_of(record.topic_name)
            if topic_id is None:
                raise ValueError(f"ELR of a topic that does not exist: {record.topic_name}")
            self._delta(topic_id).clear_elr()
            return
        for topic_id, topic in self.base.by_id.items():
            if topic_id not in self.deleted and _has_elr(topic):
                self._delta(topic_id)
        for delta in self.changed.values():
            delta.clear_elr()

    def _delta(self, topic_id: bytes) -> TopicDelta:
        delta = self.changed.get(topic_id)
        if delta is None:
            base = self.base.by_id.get(topic_id)
            if base is None or topic_id in self.deleted:
                raise ValueError(f"record of a topic that does not exist: {topic_id.hex()}")
            delta = self.changed[topic_id] = TopicDelta(base.name, topic_id, base)
        return delta

    def _id_of(self, name: str) -> bytes | None:
        for topic_id, delta in self.changed.items():
            if delta.name == name:
                return topic_id
        topic = self.base.by_name.get(name)
        return None if topic is None or topic.topic_id in self.deleted else topic.topic_id

    def apply(self) -> TopicsImage:
        if not self:
            return self.base
        changed = {topic_id: delta.apply() for topic_id, delta in self.changed.items()}
        by_name = {topic.name: topic for topic in changed.values()}
        gone = {topic.name: None for topic in self.deleted.values()}
        return TopicsImage(
            changed_map(self.base.by_name, by_name, gone),
            changed_map(self.base.by_id, changed, self.deleted),
        )


def _has_elr(topic: TopicImage) -> bool:
    return any(p.elr or p.last_known_elr for p in topic.partitions.values())
