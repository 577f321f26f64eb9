"""Batches and records written by hand, so that every field can be wrong."""

from fastcrc.crc32 import iscsi

from ottla.records.batch import HEADER, HEADER_SIZE, BatchHeader
from ottla.records.varint import write_varint

NOW = 1_750_000_000_000
ANY = object()


def varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def raw_record(
    *,
    timestamp_delta: int = 0,
    offset_delta: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    headers: bytes = b"\x00",
    attributes: int = 0,
    key_size: bytes | None = None,
    value_size: bytes | None = None,
    size: bytes | None = None,
) -> bytes:
    """A record; ``key_size``, ``value_size`` and ``size`` stand in place of the right ones."""
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta)
    body += (varint(-1 if key is None else len(key)) if key_size is None else key_size) + (
        key or b""
    )
    body += (varint(-1 if value is None else len(value)) if value_size is None else value_size) + (
        value or b""
    )
    body += headers
    return (varint(len(body)) if size is None else size) + body


def records(count: int) -> bytes:
    return b"".join(raw_record(offset_delta=index) for index in range(count))


def raw_batch(payload: bytes | bytearray, count: int, **fields: int) -> bytes:
    """A sound batch around ``payload``, except for the ``fields`` that are given."""
    size = HEADER_SIZE + len(payload)
    header = BatchHeader(
        base_offset=0,
        length=size - 12,
        partition_leader_epoch=-1,
        magic=2,
        crc=0,
        attributes=0,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return changed(HEADER.pack(*header) + payload, **fields)


def changed(batch: bytes, **fields: int) -> bytes:
    """``batch`` with other header fields and the checksum that they ask for, unless it is given."""
    header = BatchHeader._make(HEADER.unpack_from(batch))._replace(**fields)
    body = HEADER.pack(*header)[21:] + batch[HEADER_SIZE:]
    crc = fields.get("crc", iscsi(body))
    return HEADER.pack(*header._replace(crc=crc))[:21] + body


GOOD = raw_batch(raw_record(), 1)
