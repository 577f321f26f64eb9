"""The small files of a log directory and of a partition, as Kafka writes them.

Checkpoints: a line with the version 0, a line with the number of entries, a line for each.
``partition.metadata`` says which topic a directory belongs to, ``meta.properties`` to which node
and cluster a log directory, ``.kafka_cleanshutdown`` that everything was flushed and closed.
"""

import json
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from ottla.common.checksum import crc32c
from ottla.common.identifiers import ZERO_UUID, uuid_from_text, uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.storage.files import Filesystem, Mutex
from ottla.storage.leader_epochs import EpochEntry

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

MENDED_MAX: Final = 16 * 1024
"""Trying every bit of a file takes the square of its size."""

Offsets: TypeAlias = dict[TopicPartition, int]

_VERSION: Final = 0


class CorruptCheckpoint(Exception):
    """The file is not what it should be."""


def _lines(data: bytes) -> list[str]:
    """The entries of a checkpoint."""
    try:
        lines = data.decode().split("\n")
        version, count = int(lines[0]), int(lines[1])
    except (ValueError, IndexError) as error:
        raise CorruptCheckpoint("no version and number of entries") from error
    entries = lines[2:-1] if lines[-1] == "" else lines[2:]
    if version != _VERSION:
        raise CorruptCheckpoint(f"unknown version {version}")
    if len(entries) != count:
        raise CorruptCheckpoint(f"{len(entries)} entries where there should be {count}")
    return entries


def _checkpoint(entries: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in (str(_VERSION), str(len(entries)), *entries)).encode()


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _checkpoint([f"{tp.topic} {tp.partition} {offset}" for tp, offset in offsets.items()])


def decode_offsets(data: bytes) -> Offsets:
    offsets = {}
    for line in _lines(data):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError as error:
            raise CorruptCheckpoint(f"not an offset of a partition: {line!r}") from error
    return offsets


def read_offsets(filesystem: Filesystem, path: str) -> Offsets:
    """Empty when there is no such file, or an empty one."""
    data = filesystem.read(path) if filesystem.exists(path) else b""
    return decode_offsets(data) if data else {}


def encode_epochs(entries: list[EpochEntry]) -> bytes:
    return _checkpoint([f"{entry.epoch} {entry.start_offset}" for entry in entries])


def read_epochs(filesystem: Filesystem, path: str) -> list[EpochEntry]:
    """Empty when there is no such file, or an empty one."""
    data = filesystem.read(path) if filesystem.exists(path) else b""
    return decode_epochs(data) if data else []


def decode_epochs(data: bytes) -> list[EpochEntry]:
    entries = []
    for line in _lines(data):
        try:
            epoch, start_offset = line.split(" ")
            entries.append(EpochEntry(int(epoch), int(start_offset)))
        except ValueError as error:
            raise CorruptCheckpoint(f"not an epoch and its start offset: {line!r}") from error
    for before, after in pairwise(entries):
        if before.epoch >= after.epoch or before.start_offset >= after.start_offset:
            raise CorruptCheckpoint(f"epochs or their start offsets go back: {after}")
    if any(entry.epoch < 0 or entry.start_offset < 0 for entry in entries):
        raise CorruptCheckpoint("an epoch or a start offset is negative")
    return entries


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {uuid_text(topic_id)}".encode()


def decode_partition_metadata(data: bytes) -> bytes:
    """The topic id."""
    values = _pairs(data, ":")
    try:
        if int(values["version"]) != 0:
            raise CorruptCheckpoint(f"unknown version {values['version']}")
        topic_id = uuid_from_text(values["topic_id"])
    except (KeyError, ValueError) as error:
        raise CorruptCheckpoint("no version and topic id") from error
    if topic_id == ZERO_UUID:
        raise CorruptCheckpoint("the topic id is zero")
    return topic_id


def _unescaped(text: str) -> str:
    """A value as Java's Properties have written it: with a backslash before some characters."""

    def meant(found: re.Match[str]) -> str:
        escaped = found[1]
        if len(escaped) > 1:
            return chr(int(escaped[1:], 16))
        return {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(escaped, escaped)

    return re.sub(r"\\(u[0-9a-fA-F]{4}|.)", meant, text)


def _escaped(text: str) -> str:
    escaped = re.sub(r"([\\:=#!])", r"\\\1", text)
    return "".join(each if " " <= each <= "~" else f"\\u{ord(each):04X}" for each in escaped)


def _pairs(data: bytes, separator: str) -> dict[str, str]:
    pairs = {}
    for line in data.decode(errors="replace").splitlines():
        name, found, value = line.partition(separator)
        if found and not line.startswith("#"):
            pairs[name.strip()] = value.strip()
    return pairs


class MetaProperties(NamedTuple):
    """Whose directory this is; a directory of ZooKeeper's time may lack its own id."""

    cluster_id: str
    node_id: int
    directory_id: bytes | None = None

    def encode(self) -> bytes:
        lines = [
            "#",
            f"cluster.id={_escaped(self.cluster_id)}",
            "version=1",
            f"node.id={self.node_id}",
        ]
        if self.directory_id is not None:
            lines.insert(2, f"directory.id={uuid_text(self.directory_id)}")
        return "".join(f"{line}\n" for line in lines).encode()

    @staticmethod
    def decode(data: bytes) -> "MetaProperties":
        values = _pairs(data, "=")
        try:
            version = int(values["version"])
            node_id = int(values["node.id" if version == 1 else "broker.id"])
            directory_id = values.get("directory.id")
            return MetaProperties(
                _unescaped(values["cluster.id"]),
                node_id,
                None if directory_id is None else uuid_from_text(directory_id),
            )
        except (KeyError, ValueError) as error:
            raise CorruptCheckpoint(f"not a whole {META_PROPERTIES}: {error}") from error


class CleanShutdown(NamedTuple):
    """What a clean stop leaves: its broker epoch, or -1, and the checksums of the checkpoints.

    The checksums are ours; Kafka overlooks them, and writes none.
    """

    broker_epoch: int
    checksums: Mapping[str, int]

    def encode(self) -> bytes:
        content = {
            "version": 0,
            "brokerEpoch": self.broker_epoch,
            "checksums": dict(self.checksums),
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @staticmethod
    def decode(data: bytes) -> "CleanShutdown":
        try:
            content = json.loads(data)
            broker_epoch = int(content["brokerEpoch"])
        except (ValueError, KeyError, TypeError):
            return CleanShutdown(-1, {})
        checksums = content.get("checksums")
        if not isinstance(checksums, dict):
            return CleanShutdown(broker_epoch, {})
        return CleanShutdown(
            broker_epoch, {str(k): v for k, v in checksums.items() if isinstance(v, int)}
        )


def mended(data: bytes, checksum: int) -> bytes | None:
    """``data`` with the one bit put right that keeps it from its checksum; None if none does."""
    if crc32c(data) == checksum:
        return data
    if len(data) > MENDED_MAX:
        return None
    candidate = bytearray(data)
    for position in range(len(data)):
        for bit in range(8):
            candidate[position] ^= 1 << bit
            if crc32c(bytes(candidate)) == checksum:
                return bytes(candidate)
            candidate[position] ^= 1 << bit
    return None


class Claims(NamedTuple):
    """The most that the checkpoints of a directory may say of a log; of a new one nothing."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0


class OffsetCheckpoint:
    """A file of offsets by partition that may be written in the background.

    A caller that must not let the disk claim more than a log has asks :meth:`claim`, which counts
    what is being written too. Writes of older content are never finished after those of newer
    content.
    """

    __slots__ = ("_filesystem", "_generation", "_mutex", "_pending", "_written", "path")

    def __init__(self, filesystem: Filesystem, path: str) -> None:
        self._filesystem = filesystem
        self._mutex = Mutex()
        self._generation = 0
        self._written: Offsets = {}
        self._pending: Offsets = {}
        self.path = path

    def read(self) -> Offsets:
        self._written = read_offsets(self._filesystem, self.path)
        return dict(self._written)

    def offsets(self) -> Offsets:
        """What the disk has, as far as is known here."""
        return {**self._written, **self._pending}

    def claim(self, topic_partition: TopicPartition) -> int:
        """The largest offset that the disk has, or may have any moment."""
        return max(self._written.get(topic_partition, 0), self._pending.get(topic_partition, 0))

    def says(self, offsets: Offsets) -> bool:
        """Whether the disk has just that."""
        return not self._pending and self._written == offsets

    def write(self, offsets: Offsets) -> None:
        self.written(self.prepare(offsets)())

    def prepare(self, offsets: Offsets) -> Callable[[], int]:
        """The work of writing ``offsets``, for any thread; its answer goes to :meth:`written`."""
        for topic_partition, offset in self._pending.items():
            # Superseded while it is being written: it may reach the disk or not.
            self._written[topic_partition] = max(offset, self._written.get(topic_partition, 0))
        self._generation += 1
        self._pending = offsets
        generation, data = self._generation, encode_offsets(offsets)

        def run() -> int:
            with self._mutex:
                if generation == self._generation:
                    self._filesystem.write_atomically(self.path, data)
            return generation

        return run

    def written(self, generation: int) -> None:
        if generation == self._generation:
            self._written, self._pending = self._pending, {}
