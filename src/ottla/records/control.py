"""Control records: what brokers and controllers tell each other inside a log.

The key says of which type a record is (int16 version 0, int16 type). The value of a transaction
marker is fixed; those of the quorum are messages of the protocol, passed in and out as bytes.
"""

from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from ottla.common.errors import InvalidRecord
from ottla.records.batch import NO_LEADER_EPOCH, NO_SEQUENCE
from ottla.records.builder import BatchBuilder
from ottla.records.record import Record

_KEY: Final = Struct(">hh")
_MARKER: Final = Struct(">hi")


class ControlType(IntEnum):
    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class TransactionMarker(NamedTuple):
    control_type: ControlType
    coordinator_epoch: int


def control_key(control_type: ControlType) -> bytes:
    return _KEY.pack(0, control_type)


def read_control_type(key: bytes | None) -> ControlType:
    """Which type a control record is of; UNKNOWN for one that later versions may have added."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecord("a control record's key has at least 4 bytes")
    version, code = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecord(f"invalid version {version} of a control record's key")
    try:
        return ControlType(code)
    except ValueError:
        return ControlType.UNKNOWN


def read_transaction_marker(record: Record) -> TransactionMarker:
    control_type = read_control_type(record.key)
    if control_type not in (ControlType.ABORT, ControlType.COMMIT):
        raise InvalidRecord(f"{control_type.name} is no transaction marker")
    if record.value is None or len(record.value) < _MARKER.size:
        raise InvalidRecord("a transaction marker has at least 6 bytes")
    version, coordinator_epoch = _MARKER.unpack_from(record.value)
    if version < 0:
        raise InvalidRecord(f"invalid version {version} of a transaction marker")
    return TransactionMarker(control_type, coordinator_epoch)


def transaction_marker_batch(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """The batch that ends a transaction on one partition."""
    builder = BatchBuilder()
    control_type = ControlType.COMMIT if commit else ControlType.ABORT
    builder.append(timestamp, control_key(control_type), _MARKER.pack(0, coordinator_epoch))
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        leader_epoch=leader_epoch,
        transactional=True,
        control=True,
    )


def control_batch(
    records: Sequence[tuple[ControlType, bytes]],
    *,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = NO_LEADER_EPOCH,
) -> bytearray:
    """A batch of the quorum's control records; each value is an encoded message."""
    builder = BatchBuilder()
    for control_type, value in records:
        builder.append(timestamp, control_key(control_type), value)
    return builder.build(base_offset=base_offset, leader_epoch=leader_epoch, control=True)
