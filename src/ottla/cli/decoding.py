"""Records whose values are messages, by the names of their fields: metadata and control records."""

from struct import unpack_from
from typing import Final

from ottla.cli.values import shown
from ottla.common.errors import ProtocolViolation
from ottla.metadata.records import UnknownMetadataRecord, decode_record
from ottla.protocol.describe import to_json
from ottla.protocol.message import from_bytes
from ottla.protocol.schemas import message_class
from ottla.records.control import ControlType, read_transaction_marker
from ottla.records.record import Record

_MESSAGES: Final = {
    ControlType.LEADER_CHANGE: "LeaderChangeMessage",
    ControlType.SNAPSHOT_HEADER: "SnapshotHeaderRecord",
    ControlType.SNAPSHOT_FOOTER: "SnapshotFooterRecord",
    ControlType.KRAFT_VERSION: "KRaftVersionRecord",
    ControlType.KRAFT_VOTERS: "VotersRecord",
}


def metadata_value(value: bytes) -> object:
    """A record of the metadata log; as it is when we do not know it."""
    try:
        message = decode_record(value)
    except (ProtocolViolation, UnknownMetadataRecord):
        return shown(value)
    return {type(message).__name__: to_json(message, message.HIGHEST_VERSION)}


def control_value(kind: ControlType, record: Record) -> object:
    """The value of a control record; as it is when we do not know it."""
    value = record.value
    if value is None:
        return None
    if kind in {ControlType.COMMIT, ControlType.ABORT}:
        return {"coordinatorEpoch": read_transaction_marker(record).coordinator_epoch}
    name = _MESSAGES.get(kind)
    if name is None or len(value) < 2:
        return shown(value)
    # Each of these messages begins with its own version.
    (version,) = unpack_from(">h", value)
    try:
        return to_json(from_bytes(message_class(name), value, version), version)
    except (ProtocolViolation, ValueError):
        return shown(value)
