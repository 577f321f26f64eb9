"""Log directories: what they are called inside, whose they are, and what becomes of them.

A log directory holds a directory for each partition, ``topic-0``. One that is to be deleted, that
the cluster does not know, or that is being filled to replace another bears a random part and a
suffix: ``topic-0.<32 hex digits>-delete``, ``-stray``, ``-future``.
"""

from collections.abc import Mapping
from enum import Enum
from typing import ClassVar, Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.checksum import crc32c
from ottla.common.errors import KafkaStorageError
from ottla.common.topic_partition import TopicPartition
from ottla.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CleanShutdown,
    CorruptCheckpoint,
    MetaProperties,
    OffsetCheckpoint,
    mended,
)
from ottla.storage.files import Filesystem, Lock

NAME_MAX: Final = 255


class Retired(OSError):
    """Why a log refuses everything although its disk is well: it was deleted or replaced."""


class LogDirFailed(KafkaStorageError):
    """The disk under ``directory`` gave an error: all its partitions are offline.

    Nothing is tried again: after a failed write or sync nobody knows what the disk has.
    """

    WHAT: ClassVar[str] = "log directory {} failed: {}"

    def __init__(self, directory: str, error: OSError) -> None:
        super().__init__(self.WHAT.format(directory, error))
        self.directory = directory
        self.error = error


class LogUnavailable(LogDirFailed):
    """The disk is well, and nothing was done: this operation alone is refused.

    The process has no descriptor or memory left for it, or the log is :class:`Retired`.
    """

    WHAT = "{1}"


class DirectoryKind(Enum):
    """What a partition's directory is there for, by the end of its name."""

    CURRENT = ""
    DELETE = "-delete"
    STRAY = "-stray"
    FUTURE = "-future"


class DirectoryName(NamedTuple):
    topic_partition: TopicPartition
    kind: DirectoryKind


def parse_directory_name(name: str) -> DirectoryName | None:
    """What a directory is by its name; None for other people's directories."""
    kind = DirectoryKind.CURRENT
    for other in (DirectoryKind.DELETE, DirectoryKind.STRAY, DirectoryKind.FUTURE):
        if name.endswith(other.value):
            kind = other
            name, separator, unique = name.removesuffix(other.value).rpartition(".")
            if not separator or len(unique) != 32:
                return None
    topic, separator, partition = name.rpartition("-")
    if not separator or not topic or not partition.isascii() or not partition.isdigit():
        return None
    return DirectoryName(TopicPartition(topic, int(partition)), kind)


def directory_name(
    topic_partition: TopicPartition,
    kind: DirectoryKind = DirectoryKind.CURRENT,
    chance: Chance | None = None,
) -> str:
    """The name for a partition's directory; all but the current one need ``chance``."""
    if kind is DirectoryKind.CURRENT:
        return str(topic_partition)
    assert chance is not None
    ending = f"-{topic_partition.partition}.{chance.bytes(16).hex()}{kind.value}"
    return topic_partition.topic[: NAME_MAX - len(ending)] + ending


class LogDirectory:
    """One of ``log.dirs``: its lock, its identity and its checkpoints."""

    __slots__ = (
        "_checksums",
        "_filesystem",
        "_lock",
        "cleaner_offsets",
        "failure",
        "high_watermarks",
        "log_start_offsets",
        "meta",
        "path",
        "previous_broker_epoch",
        "recovery_points",
        "recovery_points_known",
        "was_clean",
    )

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self._lock: Lock | None = None
        self.path = path
        self.failure: OSError | None = None
        self.meta: MetaProperties | None = None
        self.was_clean = False
        """Whether the last incarnation ended with a clean stop."""
        self._checksums: Mapping[str, int] = {}
        """Of the checkpoints, by their names, as the clean stop left them."""
        self.previous_broker_epoch = -1
        """The broker epoch of that incarnation; -1 unless it ended cleanly."""
        self.recovery_points = OffsetCheckpoint(filesystem, f"{path}/{RECOVERY_POINTS}")
        self.log_start_offsets = OffsetCheckpoint(filesystem, f"{path}/{LOG_START_OFFSETS}")
        self.cleaner_offsets = OffsetCheckpoint(filesystem, f"{path}/{CLEANER_OFFSETS}")
        self.recovery_points_known = True
        """Whether a log that is not in the checkpoint was never flushed, or merely lost there."""
        self.high_watermarks = OffsetCheckpoint(filesystem, f"{path}/{HIGH_WATERMARKS}")

    @property
    def directory_id(self) -> bytes | None:
        return None if self.meta is None else self.meta.directory_id

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def space(self) -> tuple[int, int]:
        """Bytes of the disk in all, and those that are left."""
        return self._filesystem.space(self.path)

    def open(self) -> None:
        """Lock it and take note of how it was left; it counts as left uncleanly from now on."""
        filesystem = self._filesystem
        if not filesystem.is_directory(self.path):
            filesystem.make_directory(self.path)
            filesystem.sync_directory(self.path.rpartition("/")[0] or "/")
        self._lock = filesystem.lock(f"{self.path}/{LOCK}")
        meta_path = f"{self.path}/{META_PROPERTIES}"
        if filesystem.exists(meta_path):
            self.meta = MetaProperties.decode(filesystem.read(meta_path))
        marker = f"{self.path}/{CLEAN_SHUTDOWN}"
        if filesystem.exists(marker):
            self.was_clean = True
            left = CleanShutdown.decode(filesystem.read(marker))
            self.previous_broker_epoch = left.broker_epoch
            self._checksums = left.checksums
            filesystem.remove(marker)
            # Were the marker to come back after a crash, nothing would be recovered then.
            filesystem.sync_directory(self.path)
        cleaner_offsets = f"{self.path}/{CLEANER_OFFSETS}"
        if not filesystem.exists(cleaner_offsets):
            filesystem.open(cleaner_offsets, create=True).close()

    def read_checkpoints(self) -> None:
        """Damaged ones count as empty: everything is recovered, nothing was deleted."""
        filesystem = self._filesystem
        path = self.recovery_points.path
        if not filesystem.exists(path) or filesystem.size(path) == 0:
            self.recovery_points_known = not self._has_partitions()
            self.recovery_points.write({})
        for checkpoint in self._checkpoints:
            try:
                self._mend(checkpoint.path)
                checkpoint.read()
            except CorruptCheckpoint:
                checkpoint.write({})
                self.recovery_points_known &= checkpoint is not self.recovery_points

    @property
    def _checkpoints(self) -> list[OffsetCheckpoint]:
        return [
            self.recovery_points,
            self.log_start_offsets,
            self.high_watermarks,
            self.cleaner_offsets,
        ]

    def _mend(self, path: str) -> None:
        """A checkpoint that is not what the clean stop left is put right, or counts for nothing."""
        checksum = self._checksums.get(path.rpartition("/")[2])
        if checksum is None or not self._filesystem.exists(path):
            return
        data = self._filesystem.read(path)
        right = mended(data, checksum)
        if right is None:
            raise CorruptCheckpoint(f"{path} has another checksum than at the last stop")
        if right != data:
            self._filesystem.write_atomically(path, right)

    def _has_partitions(self) -> bool:
        return any(map(parse_directory_name, self._filesystem.list_directory(self.path)))

    def close_cleanly(self, broker_epoch: int) -> None:
        """Everything is on disk: say so."""
        checksums = {
            checkpoint.path.rpartition("/")[2]: crc32c(self._filesystem.read(checkpoint.path))
            for checkpoint in self._checkpoints
            if self._filesystem.exists(checkpoint.path)
        }
        data = CleanShutdown(broker_epoch, checksums).encode()
        self._filesystem.write_atomically(f"{self.path}/{CLEAN_SHUTDOWN}", data)

    def fail(self, error: OSError) -> None:
        if self.failure is None:
            self.failure = error
        self.unlock()

    def unlock(self) -> None:
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
