"""Snapshots: an image as records, and the container that both snapshots and bootstrap files are.

A container is a row of record batches: a control batch with SNAPSHOT_HEADER (and KRAFT_VERSION and
KRAFT_VOTERS in a dynamic quorum), batches of metadata records, a control batch with
SNAPSHOT_FOOTER. A file without its footer was never finished and is worth nothing. Offsets inside
begin at 0 and have nothing to do with the log's.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.metadata import versions
from ottla.metadata.acls import acls_to_records
from ottla.metadata.brokers import broker_to_record, controller_to_record
from ottla.metadata.client_quotas import client_quotas_to_records
from ottla.metadata.configs import configs_to_records
from ottla.metadata.delegation_tokens import delegation_tokens_to_records
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.features import features_to_records
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord, decode_record
from ottla.metadata.scram import scram_to_records
from ottla.metadata.topics import partition_to_record
from ottla.protocol.generated.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.generated.metadata_records import (
    ProducerIdsRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from ottla.protocol.generated.snapshot_footer_record import SnapshotFooterRecord
from ottla.protocol.generated.snapshot_header_record import SnapshotHeaderRecord
from ottla.protocol.generated.voters_record import VotersRecord
from ottla.protocol.message import from_bytes, to_bytes
from ottla.records.batch import batches, read_header
from ottla.records.builder import BatchBuilder
from ottla.records.control import ControlType, control_batch, read_control_type
from ottla.records.record import iterate

BATCH_BYTES_MAX: Final = 8 * 1024 * 1024 - 1024
"""A batch is as large as one of the log may be; most snapshots are a single one."""


def image_to_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Records that make ``image`` of nothing, in the order in which Kafka writes them."""
    metadata_version = image.features.metadata_version
    yield from features_to_records(image.features)
    if image.features.zk_migration_state:
        yield ZkMigrationStateRecord(zk_migration_state=image.features.zk_migration_state)
    version = versions.register_broker_record_version(metadata_version)
    for broker in image.brokers.values():
        yield broker_to_record(broker, version=version)
    if versions.controller_registration_supported(metadata_version):
        for controller in image.controllers.values():
            yield controller_to_record(controller)
    version = versions.partition_record_version(metadata_version)
    for topic in image.topics:
        yield TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition_id, partition in topic.partitions.items():
            yield partition_to_record(topic.topic_id, partition_id, partition, version=version)
    yield from configs_to_records(image.configs)
    yield from client_quotas_to_records(image.client_quotas)
    if image.next_producer_id > 0:
        yield ProducerIdsRecord(
            broker_id=-1, broker_epoch=-1, next_producer_id=image.next_producer_id
        )
    yield from acls_to_records(image.acls)
    yield from scram_to_records(image.scram)
    yield from delegation_tokens_to_records(image.delegation_tokens)


def container(
    values: Iterable[bytes],
    *,
    epoch: int,
    now_ms: int,
    last_contained_log_timestamp: int,
    voters: VotersRecord | None = None,
    kraft_version: int = 0,
) -> Iterator[bytes | bytearray]:
    """The bytes of a snapshot, batch by batch; ``values`` are framed metadata records."""
    header = SnapshotHeaderRecord(
        version=0, last_contained_log_timestamp=last_contained_log_timestamp
    )
    opening = [(ControlType.SNAPSHOT_HEADER, to_bytes(header, 0))]
    if kraft_version > 0:
        assert voters is not None
        version = KRaftVersionRecord(version=0, k_raft_version=kraft_version)
        opening.append((ControlType.KRAFT_VERSION, to_bytes(version, 0)))
        opening.append((ControlType.KRAFT_VOTERS, to_bytes(voters, 0)))
    yield control_batch(opening, timestamp=now_ms, leader_epoch=epoch)
    offset = len(opening)
    builder = BatchBuilder()
    for value in values:
        if builder.count and builder.size + len(value) > BATCH_BYTES_MAX:
            yield builder.build(base_offset=offset, leader_epoch=epoch)
            offset += builder.count
            builder = BatchBuilder()
        builder.append(now_ms, None, value)
    if builder.count:
        yield builder.build(base_offset=offset, leader_epoch=epoch)
        offset += builder.count
    footer = to_bytes(SnapshotFooterRecord(version=0), 0)
    yield control_batch(
        [(ControlType.SNAPSHOT_FOOTER, footer)],
        timestamp=now_ms,
        base_offset=offset,
        leader_epoch=epoch,
    )


@dataclass(slots=True)
class SnapshotContent:
    """What a container holds; of its records, only what they make of nothing."""

    last_contained_log_timestamp: int = 0
    kraft_version: int | None = None
    voters: VotersRecord | None = None
    delta: MetadataDelta = field(default_factory=lambda: MetadataDelta(EMPTY_IMAGE))

    def image(self, end_offset: int, epoch: int) -> MetadataImage:
        """The image that the snapshot with this id was written of."""
        return self.delta.apply(end_offset - 1, epoch, self.last_contained_log_timestamp)


def read_container(data: bytes) -> SnapshotContent:
    """The content of a finished container; CorruptMessage when it is cut or damaged.

    Each record is replayed as soon as it is read: all of a large cluster would take many times the
    memory of its image.
    """
    content = SnapshotContent()
    _read(data, content, content.delta.replay)
    return content


def read_records(data: bytes) -> list[MetadataRecord]:
    """The records of a small container, as formatting leaves it."""
    records: list[MetadataRecord] = []
    _read(data, SnapshotContent(), records.append)
    return records


def _read(data: bytes, content: SnapshotContent, take: Callable[[MetadataRecord], object]) -> None:
    finished = False
    for position, _size in batches(data):
        if finished:
            raise CorruptMessage("a batch follows the footer of a snapshot")
        is_control = read_header(data, position).is_control
        for record in iterate(data, position):
            value = record.value or b""
            if is_control:
                finished = _read_control(content, read_control_type(record.key), value)
            else:
                take(decode_record(value))
    if not finished:
        raise CorruptMessage("a snapshot has no footer: it was never finished")


def _read_control(content: SnapshotContent, control_type: ControlType, value: bytes) -> bool:
    """Take over a control record; return whether it is the footer."""
    if control_type is ControlType.SNAPSHOT_HEADER:
        header = from_bytes(SnapshotHeaderRecord, value, 0)
        content.last_contained_log_timestamp = header.last_contained_log_timestamp
    elif control_type is ControlType.KRAFT_VERSION:
        content.kraft_version = from_bytes(KRaftVersionRecord, value, 0).k_raft_version
    elif control_type is ControlType.KRAFT_VOTERS:
        content.voters = from_bytes(VotersRecord, value, 0)
    return control_type is ControlType.SNAPSHOT_FOOTER


def read_header_timestamp(head: bytes) -> int:
    """The last contained log timestamp, from the first batch of a container."""
    opening = iterate(head)[0]
    return from_bytes(SnapshotHeaderRecord, opening.value or b"", 0).last_contained_log_timestamp
