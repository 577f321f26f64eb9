"""What a batch must be before a leader appends it.

The order of the checks, and which error answers which fault, are Kafka's: clients act on the codes.
Clients and coordinators append one batch at a time; a follower and the quorum may append several,
which have their offsets already.
A sound batch is changed in place where the topic says so (append time, a wrong largest timestamp);
only another codec, or offset deltas that are not 0, 1, 2 ..., make a new one. Base offset and
leader epoch are the log's to set.

The common case, one plain batch of a client, takes one unpack, one checksum and one walk.
"""

from typing import Final, NoReturn

from ottla.common.checksum import crc32c
from ottla.common.errors import (
    ApiError,
    CorruptMessage,
    ErrorCode,
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
)
from ottla.records.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_SIZE,
    LEGACY_LENGTH_MIN,
    LENGTH_POSITION,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_EPOCH,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    MutableBuffer,
    batches,
    is_intact,
    read_header,
    set_max_timestamp,
)
from ottla.records.builder import BatchBuilder
from ottla.records.compression import ZSTD, DecompressedTooLarge, decompress
from ottla.records.record import Record, decode_records
from ottla.records.rules import AppendOrigin, AppendRules
from ottla.records.walk import walk

ZSTD_FROM_PRODUCE_VERSION: Final = 7
_RECORDS: Final = HEADER_SIZE - ATTRIBUTES_POSITION
"""Where the records begin in what the checksum covers."""
_SHOWN_ERRORS: Final = 3
_CLIENT: Final = AppendOrigin.CLIENT
_COORDINATOR: Final = AppendOrigin.COORDINATOR
_NO_HEADER: Final = (0,) * 13
_SEQUENCE_MAX: Final = 0x7FFFFFFF


class UndecodableBatch(ApiError):
    """The payload is none of its codec's, for which Kafka has no better code than this."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class ValidatedAppend:
    """What is to be written, and what the log must know of it.

    ``buffer[start:end]`` are whole batches. Producer fields are those of the first batch: only
    clients have producers, and they send one. ``offset_of_max_timestamp`` is relative to the first
    offset of the append; ``append_time`` is NO_TIMESTAMP unless the topic keeps append times.
    """

    __slots__ = (
        "append_time",
        "base_sequence",
        "batch_count",
        "buffer",
        "end",
        "is_control",
        "is_transactional",
        "last_offset_delta",
        "last_sequence",
        "max_timestamp",
        "offset_of_max_timestamp",
        "producer_epoch",
        "producer_id",
        "record_count",
        "start",
    )

    def __init__(
        self,
        buffer: memoryview,
        start: int,
        end: int,
        batch_count: int,
        record_count: int,
        last_offset_delta: int,
        max_timestamp: int,
        offset_of_max_timestamp: int,
        attributes: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        append_time: int,
    ) -> None:
        self.buffer = buffer
        self.start = start
        self.end = end
        self.batch_count = batch_count
        self.record_count = record_count
        self.last_offset_delta = last_offset_delta
        self.max_timestamp = max_timestamp
        self.offset_of_max_timestamp = offset_of_max_timestamp
        self.is_transactional = attributes & TRANSACTIONAL_BIT != 0
        self.is_control = attributes & CONTROL_BIT != 0
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.last_sequence = (
            base_sequence
            if base_sequence < 0
            else (base_sequence + last_offset_delta) & _SEQUENCE_MAX
        )
        self.append_time = append_time


def validate(
    buffer: MutableBuffer,
    start: int,
    end: int,
    rules: AppendRules,
    now_ms: int,
    origin: AppendOrigin = _CLIENT,
) -> ValidatedAppend:
    """Check ``buffer[start:end]`` and bring it into the form that the topic demands."""
    if not isinstance(buffer, memoryview):
        buffer = memoryview(buffer)
    if origin is not _CLIENT and origin is not _COORDINATOR:
        return check_batches(buffer, start, end)
    size = end - start
    header = HEADER.unpack_from(buffer, start) if size >= HEADER_SIZE else _NO_HEADER
    if header[1] != size - LOG_OVERHEAD or header[3] != MAGIC:
        end = start + _size_of_only_batch(buffer, start, end)
    return _validate_batch(buffer, start, end, header, rules, now_ms, origin is _CLIENT)


def refuse_zstd(buffer: MutableBuffer, start: int, end: int, produce_version: int) -> None:
    """Produce requests before version 7 come from clients that do not know zstd."""
    if produce_version < ZSTD_FROM_PRODUCE_VERSION and end - start >= HEADER_SIZE:
        attributes = buffer[start + ATTRIBUTES_POSITION + 1]
        if buffer[start + MAGIC_POSITION] == MAGIC and attributes & CODEC_MASK == ZSTD:
            raise UnsupportedCompressionType(
                f"Produce requests of version {produce_version} must not use zstd"
            )


def _size_of_only_batch(buffer: memoryview, start: int, end: int) -> int:
    """The size of the one batch at ``start``; bytes behind it that are no batch are cut off."""
    sizes = [size for _, size in batches(buffer, start, end)]
    if not sizes:
        _refuse_cut_batch(buffer, start, end)
    if buffer[start + MAGIC_POSITION] != MAGIC:
        raise InvalidRecord("only record batches of magic 2 may be produced")
    if len(sizes) > 1:
        raise InvalidRecord("a produce request may have only one record batch per partition")
    return sizes[0]


def _refuse_cut_batch(buffer: memoryview, start: int, end: int) -> NoReturn:
    if end - start >= LOG_OVERHEAD:
        length = int.from_bytes(
            buffer[start + LENGTH_POSITION : start + LOG_OVERHEAD], "big", signed=True
        )
        if length < LEGACY_LENGTH_MIN:
            raise CorruptMessage(f"batch length {length} is less than that of any message")
    raise InvalidRecord("a produce request must have a whole record batch per partition")


def _validate_batch(
    buffer: memoryview,
    start: int,
    end: int,
    header: tuple[int, ...],
    rules: AppendRules,
    now_ms: int,
    from_client: bool,
) -> ValidatedAppend:
    base_offset, _, _, _, crc, attributes, last_delta, base_timestamp, max_timestamp, \
        producer_id, producer_epoch, base_sequence, count = header  # fmt: skip
    if base_offset and from_client:
        raise InvalidRecord(f"the base offset of a produced batch is 0, not {base_offset}")
    if end - start > rules.max_message_bytes:
        raise _too_large(end - start, rules)
    body = buffer[start + ATTRIBUTES_POSITION : end].tobytes()
    if crc32c(body) != crc:
        raise CorruptMessage(f"the stored checksum {crc} is not that of the batch")
    if from_client and (last_delta != count - 1 or count <= 0 or attributes & CONTROL_BIT):
        raise _refused_header(last_delta, count)

    pos, codec = _RECORDS, attributes & CODEC_MASK
    if codec:
        body, pos = _decompress(codec, body[pos:], rules), 0
    largest, index, smallest, without_key, in_sequence = walk(body, pos, count)
    largest += base_timestamp
    if (
        largest > now_ms + rules.timestamp_after_max_ms
        or smallest + base_timestamp < now_ms - rules.timestamp_before_max_ms
        or (without_key and rules.compacted)
        or attributes & TIMESTAMP_TYPE_BIT
    ):
        largest = _check_each_record(body[pos:], header, rules, now_ms, largest)

    if (
        producer_id >= 0
        and from_client
        and (base_sequence < 0 or producer_epoch < NO_PRODUCER_EPOCH)
    ):
        raise _refused_producer(producer_id, producer_epoch, base_sequence)
    append_time = NO_TIMESTAMP
    if rules.timestamp_type == LOG_APPEND_TIME:
        largest, index, append_time = now_ms, 0, now_ms
    if not in_sequence or (rules.codec is not None and _has_other_codec(attributes, rules)):
        buffer = _rebuild(body[pos:], header, rules, append_time)
        start, end, last_delta = 0, len(buffer), count - 1
    elif largest != max_timestamp or attributes & TIMESTAMP_TYPE_BIT or append_time >= 0:
        set_max_timestamp(buffer, start, end - start, rules.timestamp_type, largest)
    return ValidatedAppend(
        buffer, start, end, 1, count, last_delta, largest, index,
        attributes, producer_id, producer_epoch, base_sequence, append_time,
    )  # fmt: skip


def _has_other_codec(attributes: int, rules: AppendRules) -> bool:
    """Control batches that came plain stay plain whatever the topic says."""
    codec = attributes & CODEC_MASK
    if rules.codec is None or codec == rules.codec:
        return False
    return codec != 0 or not attributes & CONTROL_BIT


def _too_large(size: int, rules: AppendRules) -> MessageTooLarge:
    return MessageTooLarge(
        f"a batch of {size} bytes exceeds the topic's limit of {rules.max_message_bytes}"
    )


def _refused_header(last_delta: int, count: int) -> InvalidRecord:
    if count <= 0:
        return InvalidRecord(f"a batch of {count} records")
    if last_delta != count - 1:
        return InvalidRecord(f"a batch of {count} records whose last offset delta is {last_delta}")
    return InvalidRecord("clients must not write control records")


def _refused_producer(producer_id: int, producer_epoch: int, base_sequence: int) -> ApiError:
    if producer_epoch < NO_PRODUCER_EPOCH:
        return InvalidProducerEpoch(f"producer {producer_id} has epoch {producer_epoch}")
    return InvalidRecord(f"producer {producer_id} has sequence {base_sequence}")


def _decompress(codec: int, payload: bytes, rules: AppendRules) -> bytes:
    try:
        return decompress(codec, payload, rules.decompressed_max)
    except DecompressedTooLarge as error:
        raise MessageTooLarge(error.message) from None
    except (CorruptMessage, UnsupportedCompressionType) as error:
        raise UndecodableBatch(error.message) from None


def _check_each_record(
    data: bytes, header: tuple[int, ...], rules: AppendRules, now_ms: int, largest: int
) -> int:
    """Name every record that the topic does not take; the largest timestamp if it takes them all.

    A producer that claims append time is believed on a topic of create time, as Kafka does, but
    then its one timestamp counts for all records.
    """
    claims_append_time = header[5] & TIMESTAMP_TYPE_BIT != 0
    max_timestamp = header[8]
    records = decode_records(
        data, header[12], header[0], header[7], max_timestamp if claims_append_time else None
    )
    keyless: list[tuple[int, str]] = []
    ill_timed: list[tuple[int, str]] = []
    for index, record in enumerate(records):
        if rules.compacted and record.key is None:
            keyless.append((index, "a compacted topic takes no record without a key"))
        else:
            fault = _fault_of_timestamp(record, rules, now_ms, claims_append_time)
            if fault is not None:
                ill_timed.append((index, fault))
    errors = sorted(keyless + ill_timed)
    if ill_timed:
        raise InvalidTimestamp(
            "One or more records have been rejected due to invalid timestamp", errors
        )
    if keyless:
        raise InvalidRecord(
            f"{len(errors)} records have been rejected, among them: "
            + "; ".join(f"record {index}: {text}" for index, text in errors[:_SHOWN_ERRORS]),
            errors,
        )
    return max_timestamp if claims_append_time else largest


def _fault_of_timestamp(
    record: Record, rules: AppendRules, now_ms: int, claims_append_time: bool
) -> str | None:
    timestamp = record.timestamp
    if rules.timestamp_type == LOG_APPEND_TIME or timestamp == NO_TIMESTAMP:
        if claims_append_time:
            return "a producer must not set the timestamp type to LogAppendTime"
        return None
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = now_ms + rules.timestamp_after_max_ms
    if earliest <= timestamp <= latest:
        return None
    return f"timestamp {timestamp} is out of the range [{earliest}, {latest}]"


def _rebuild(
    data: bytes, header: tuple[int, ...], rules: AppendRules, append_time: int
) -> memoryview:
    """The same records with the codec that the topic wants, at offset deltas 0, 1, 2 ..."""
    attributes, producer_id, producer_epoch, base_sequence = header[5], *header[9:12]
    codec = attributes & CODEC_MASK
    if rules.codec is not None and _has_other_codec(attributes, rules):
        codec = rules.codec
    elif codec:
        raise UndecodableBatch("the offset deltas of a compressed batch must be 0, 1, 2 ...")
    append_time_of_producer = header[8] if attributes & TIMESTAMP_TYPE_BIT else None
    builder = BatchBuilder()
    for record in decode_records(data, header[12], 0, header[7], append_time_of_producer):
        builder.append(record.timestamp, record.key, record.value, record.headers)
    rebuilt = builder.build(
        codec=codec,
        level=rules.level,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=attributes & TRANSACTIONAL_BIT != 0,
        control=attributes & CONTROL_BIT != 0,
        timestamp_type=rules.timestamp_type,
        append_time=append_time,
    )
    if len(rebuilt) > rules.max_message_bytes:
        raise _too_large(len(rebuilt), rules)
    return memoryview(rebuilt)


def numbered_batches(buffer: memoryview, start: int, end: int) -> list[tuple[int, BatchHeader]]:
    """Position and header of batches that have their offsets already.

    So they come from a leader, and a raft leader makes them. Only what carries them is checked:
    lengths, checksums, offsets that rise. Each batch was validated by the leader that gave it its
    offsets. A cut batch at the end is left out.
    """
    found: list[tuple[int, BatchHeader]] = []
    last_offset = -1
    for pos, size in batches(buffer, start, end):
        header = read_header(buffer, pos)
        if not is_intact(buffer, pos, size):
            raise CorruptMessage(f"the batch at offset {header.base_offset} is damaged")
        if header.last_offset_delta < 0 or (found and header.base_offset <= last_offset):
            raise InvalidRecord(f"offsets do not rise at offset {header.base_offset}")
        found.append((pos, header))
        last_offset = header.base_offset + header.last_offset_delta
    if not found:
        raise InvalidRecord("an append without a whole batch")
    return found


def check_batches(buffer: memoryview, start: int, end: int) -> ValidatedAppend:
    """What :func:`numbered_batches` finds, as one append; the quorum has no messages of old."""
    headers = [header for _, header in numbered_batches(buffer, start, end)]
    for header in headers:
        if header.magic != MAGIC:
            raise UnsupportedForMessageFormat(f"a batch of magic {header.magic}")
    newest = max(headers, key=lambda header: header.max_timestamp)
    first = headers[0]
    return ValidatedAppend(
        buffer=buffer,
        start=start,
        end=start + sum([header.size for header in headers]),
        batch_count=len(headers),
        record_count=sum([header.record_count for header in headers]),
        last_offset_delta=headers[-1].last_offset - first.base_offset,
        max_timestamp=newest.max_timestamp,
        offset_of_max_timestamp=newest.last_offset - first.base_offset,
        attributes=first.attributes,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        append_time=NO_TIMESTAMP,
    )
