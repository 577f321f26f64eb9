"""The records of ``__cluster_metadata``: their framing, and which version of each is written.

A record's value is a frame version (1), the record's type and its version, unsigned varints all,
and the message body; nothing may follow. The version that is written follows the finalized
``metadata.version``, so that every node of the cluster can read it; any version is read.
"""

from typing import Final, TypeAlias

from ottla.common.errors import ProtocolViolation
from ottla.metadata import versions
from ottla.protocol.generated.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from ottla.protocol.primitives import Writer

MetadataRecord: TypeAlias = (
    AbortTransactionRecord
    | AccessControlEntryRecord
    | BeginTransactionRecord
    | BrokerRegistrationChangeRecord
    | ClearElrRecord
    | ClientQuotaRecord
    | ConfigRecord
    | DelegationTokenRecord
    | EndTransactionRecord
    | FeatureLevelRecord
    | FenceBrokerRecord
    | NoOpRecord
    | PartitionChangeRecord
    | PartitionRecord
    | ProducerIdsRecord
    | RegisterBrokerRecord
    | RegisterControllerRecord
    | RemoveAccessControlEntryRecord
    | RemoveDelegationTokenRecord
    | RemoveTopicRecord
    | RemoveUserScramCredentialRecord
    | TopicRecord
    | UnfenceBrokerRecord
    | UnregisterBrokerRecord
    | UserScramCredentialRecord
    | ZkMigrationStateRecord
)

FRAME_VERSION: Final = 1
_VARINT_BYTES_MAX: Final = 5

_CLASSES: Final[dict[int, type[MetadataRecord]]] = {
    cls.API_KEY: cls
    for cls in (
        AbortTransactionRecord,
        AccessControlEntryRecord,
        BeginTransactionRecord,
        BrokerRegistrationChangeRecord,
        ClearElrRecord,
        ClientQuotaRecord,
        ConfigRecord,
        DelegationTokenRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
        FenceBrokerRecord,
        NoOpRecord,
        PartitionChangeRecord,
        PartitionRecord,
        ProducerIdsRecord,
        RegisterBrokerRecord,
        RegisterControllerRecord,
        RemoveAccessControlEntryRecord,
        RemoveDelegationTokenRecord,
        RemoveTopicRecord,
        RemoveUserScramCredentialRecord,
        TopicRecord,
        UnfenceBrokerRecord,
        UnregisterBrokerRecord,
        UserScramCredentialRecord,
        ZkMigrationStateRecord,
    )
}


class UnknownMetadataRecord(Exception):
    """The metadata log holds what this version does not know: going on would lose it."""


def record_version(record: MetadataRecord, metadata_version: int) -> int:
    """The version in which ``record`` is written at ``metadata_version``."""
    if isinstance(record, PartitionRecord | PartitionChangeRecord):
        return versions.partition_record_version(metadata_version)
    if isinstance(record, RegisterBrokerRecord):
        return versions.register_broker_record_version(metadata_version)
    if isinstance(record, BrokerRegistrationChangeRecord):
        return _registration_change_version(record)
    return 0


def _registration_change_version(record: BrokerRegistrationChangeRecord) -> int:
    """The lowest version that can carry what is set: older brokers may have to read it."""
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def encode_record(record: MetadataRecord, metadata_version: int) -> bytes:
    version = record_version(record, metadata_version)
    writer = Writer()
    record.encode(writer, version)
    return bytes((FRAME_VERSION, record.API_KEY, version)) + writer.getvalue()


def decode_record(value: bytes) -> MetadataRecord:
    """The record in ``value``; anything that is not known whole is an error, never skipped."""
    frame_version, pos = _unsigned_varint(value, 0)
    if frame_version != FRAME_VERSION:
        raise UnknownMetadataRecord(f"frame version {frame_version} of a metadata record")
    key, pos = _unsigned_varint(value, pos)
    version, pos = _unsigned_varint(value, pos)
    record_class = _CLASSES.get(key)
    if record_class is None:
        raise UnknownMetadataRecord(f"metadata record of unknown type {key}")
    if not record_class.LOWEST_VERSION <= version <= record_class.HIGHEST_VERSION:
        raise UnknownMetadataRecord(
            f"{record_class.__name__} of version {version}; "
            f"known are {record_class.LOWEST_VERSION} to {record_class.HIGHEST_VERSION}"
        )
    record, pos = record_class.decode(value, pos, version)
    if pos != len(value):
        raise ProtocolViolation(f"{len(value) - pos} bytes follow a {record_class.__name__}")
    return record


def _unsigned_varint(data: bytes, pos: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        if pos >= len(data):
            raise ProtocolViolation("a metadata record ends inside its frame header")
        byte = data[pos]
        pos += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, pos
    raise ProtocolViolation("a varint of a metadata record's frame is longer than 5 bytes")
