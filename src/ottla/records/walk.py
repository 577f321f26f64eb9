"""The walk over the records of a batch that decides whether they are what the header says.

No record is made: lengths are followed from one to the next, and what an append must know is
gathered on the way. Run once per produced record, so this module is compiled by mypyc, and the
one- and two-byte forms of each varint, which is what records have, stand inline.

Every advance is either compared with the end of the record or followed by a read, and reading
beyond the end raises IndexError: no length can lead outside the data.
"""

from typing import Final

from ottla.common.errors import InvalidRecord
from ottla.records.varint import read_varint, read_varlong

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1


def walk(data: bytes, pos: int, count: int, base_timestamp: int) -> tuple[int, int, int, int, bool]:
    """Follow ``count`` records from ``pos`` to the end of ``data``, which they must fill exactly.

    Returns the largest timestamp, the index of the first record that has it, the smallest
    timestamp, how many records have no key, and whether the offset deltas are 0, 1, 2 ...
    InvalidRecord for anything that is no record.
    """
    try:
        return _walk(data, pos, count, base_timestamp)
    except IndexError:
        raise InvalidRecord("a record reaches beyond the end of its batch") from None


def _walk(
    data: bytes, pos: int, count: int, base_timestamp: int
) -> tuple[int, int, int, int, bool]:
    end = len(data)
    smallest = INT64_MAX
    largest = INT64_MIN
    index_of_largest = 0
    without_key = 0
    in_sequence = True
    for index in range(count):
        size = data[pos]
        if size < 0x80:
            pos += 1
        else:
            second = data[pos + 1]
            if second < 0x80:
                size += (second << 7) - 0x80
                pos += 2
            else:
                size, pos = read_varint(data, pos)
                size <<= 1
        if size & 1:
            raise InvalidRecord(f"record {index} has a negative length")
        record_end = pos + (size >> 1)
        if record_end > end or record_end == pos:
            raise InvalidRecord(
                f"record {index} of {size >> 1} bytes does not fit the {end - pos} that remain"
            )
        delta = data[pos + 1]
        if delta < 0x80:
            delta = (delta >> 1) ^ -(delta & 1)
            pos += 2
        else:
            delta, pos = read_varlong(data, pos + 1)
        if delta > largest:
            largest = delta
            index_of_largest = index
        smallest = min(smallest, delta)

        offset = data[pos]
        if offset < 0x80:
            offset = (offset >> 1) ^ -(offset & 1)
            pos += 1
        else:
            offset, pos = read_varint(data, pos)
        if offset != index:
            in_sequence = False

        key_size = data[pos]
        pos += 1
        if key_size == 1:
            without_key += 1
        elif key_size < 0x80:
            if key_size & 1:
                without_key += 1
            else:
                pos += key_size >> 1
        else:
            key_size, pos = read_varint(data, pos - 1)
            if key_size < 0:
                without_key += 1
            else:
                pos += key_size

        value_size = data[pos]
        if value_size < 0x80:
            pos += 1 if value_size & 1 else 1 + (value_size >> 1)
        else:
            second = data[pos + 1]
            if second < 0x80:
                value_size += (second << 7) - 0x80
                pos += 2 if value_size & 1 else 2 + (value_size >> 1)
            else:
                value_size, pos = read_varint(data, pos)
                if value_size > 0:
                    pos += value_size

        if data[pos] == 0:
            pos += 1
        else:
            pos = _walk_headers(data, pos, record_end)
        if pos != record_end:
            raise InvalidRecord(
                f"record {index} ends {abs(record_end - pos)} bytes "
                f"{'before' if pos < record_end else 'behind'} its declared length"
            )
    if pos != end:
        raise InvalidRecord(f"{end - pos} bytes remain behind the last record")
    if count == 0:
        return base_timestamp, 0, base_timestamp, 0, True
    return (
        base_timestamp + largest,
        index_of_largest,
        base_timestamp + smallest,
        without_key,
        in_sequence,
    )


def _walk_headers(data: bytes, pos: int, record_end: int) -> int:
    """Follow the record headers from their count at ``pos``; the position behind them."""
    count, pos = read_varint(data, pos)
    if count < 0 or count > record_end - pos:
        raise InvalidRecord(f"invalid number of record headers: {count}")
    for _ in range(count):
        size, pos = read_varint(data, pos)
        if size < 0:
            raise InvalidRecord(f"invalid size of a record header's key: {size}")
        pos += size
        size, pos = read_varint(data, pos)
        if size > 0:
            pos += size
    return pos
