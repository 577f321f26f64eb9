"""The loops over rows that are to become records, compiled by numba.

As in ``kernels``, everything is an array that the caller has made and checked: where the bytes of
a row begin and how many they are (below 0 for null), and room for a whole batch of each target. A
target is a partition of a topic, numbered without gaps. A kernel writes a record only where its
largest possible size fits, so it never writes beyond its room.
"""

from typing import Any, Final

import numpy as np

from ottla.spark.codec.kernels import Bytes, Ints, Longs, compiled, copy, inlined

# Columns of what is known of the open batch of a target.
USED: Final = 0
"""Bytes of its room that are taken, the header's among them."""
COUNT: Final = 1
BASE_TIMESTAMP: Final = 2
MAX_TIMESTAMP: Final = 3
OPEN: Final = 4

# Columns of what is known of a topic.
FIRST_TARGET: Final = 0
PARTITIONS: Final = 1
FIRST_LED: Final = 2
"""Where the partitions that have a leader begin in their list, and how many they are."""
LED: Final = 3
STICKY: Final = 4
"""The partition that records without a key go to for now; below 0 for none."""
STICKY_BYTES: Final = 5
TOPIC: Final = 6

ROUTED: Final = -1
NO_PARTITION: Final = -1
RECORD_REST_MAX: Final = 21
"""Length, attributes and the two deltas at their longest."""

_SEED: Final = np.uint64(0x9747B28C)
_MULTIPLIER: Final = np.uint64(0x5BD1E995)
_MASK: Final = np.uint64(0xFFFFFFFF)


@inlined
def _varint_size(value: int) -> Any:
    rest = np.uint64((value << 1) ^ (value >> 63)) >> np.uint64(7)
    size = 1
    while rest:
        rest >>= np.uint64(7)
        size += 1
    return size


@inlined
def _put_varint(into: Bytes, at: int, value: int) -> Any:
    """Write a zigzag varint and answer the position behind it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        into[at] = np.uint8(rest & np.uint64(0x7F)) | np.uint8(0x80)
        rest >>= np.uint64(7)
        at += 1
    into[at] = np.uint8(rest)
    return at + 1


@inlined
def _put_bytes(into: Bytes, at: int, data: Bytes, start: int, size: int) -> Any:
    at = _put_varint(into, at, max(size, -1))
    if size > 0:
        copy(into, at, data, start, size)
        at += size
    return at


@compiled
def murmur2(data: Bytes, start: int, size: int) -> Any:
    """As ``ottla.common.murmur`` has it."""
    hashed = _SEED ^ np.uint64(size)
    whole = size & ~3
    for pos in range(start, start + whole, 4):
        word = (
            np.uint64(data[pos])
            | np.uint64(data[pos + 1]) << np.uint64(8)
            | np.uint64(data[pos + 2]) << np.uint64(16)
            | np.uint64(data[pos + 3]) << np.uint64(24)
        )
        word = word * _MULTIPLIER & _MASK
        word = (word ^ word >> np.uint64(24)) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if size > whole:
        for i in range(size - whole):
            hashed ^= np.uint64(data[start + whole + i]) << np.uint64(8 * i)
        hashed = hashed * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> np.uint64(13)) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> np.uint64(15)


@compiled
def measure(
    keys: Longs, values: Longs, header_ends: Longs, names: Longs, contents: Longs, sizes: Longs
) -> None:
    """What key, value and headers of each row take in a record, by their sizes."""
    for row in range(keys.shape[0]):
        size = _varint_size(keys[row]) + max(keys[row], 0)
        size += _varint_size(values[row]) + max(values[row], 0)
        first, last = header_ends[row], header_ends[row + 1]
        size += _varint_size(last - first)
        for header in range(first, last):
            size += _varint_size(names[header]) + names[header]
            size += _varint_size(contents[header]) + max(contents[header], 0)
        sizes[row] = size


@inlined
def _draw(chance: Any, below: int) -> Any:
    """A number by lot (xorshift); ``chance`` is the state, never 0."""
    state = chance[0]
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    state ^= state << np.uint64(17)
    chance[0] = state
    return np.int64((state >> np.uint64(11)) % np.uint64(below))


@compiled
def route(
    rows_topic: Ints,
    wanted: Ints,
    data: Bytes,
    key_starts: Longs,
    key_sizes: Longs,
    sizes: Longs,
    topics: Longs,
    led: Longs,
    sticky_bytes: int,
    chance: Any,
    targets: Longs,
) -> int:
    """Choose the target of each row; answer the first row that wants a partition there is not.

    The partition that is wanted, else by the key's hash, else one by lot that is kept until it got
    ``sticky_bytes``.
    """
    for row in range(rows_topic.shape[0]):
        topic = topics[rows_topic[row]]
        partition = np.int64(wanted[row])
        if partition != NO_PARTITION:
            if partition < 0 or partition >= topic[PARTITIONS]:
                return row
        elif key_sizes[row] >= 0:
            hashed = murmur2(data, key_starts[row], key_sizes[row])
            partition = np.int64(hashed & np.uint64(0x7FFFFFFF)) % topic[PARTITIONS]
        else:
            if topic[STICKY] < 0 or topic[STICKY_BYTES] >= sticky_bytes:
                topic[STICKY] = led[topic[FIRST_LED] + _draw(chance, topic[LED])]
                topic[STICKY_BYTES] = 0
            topic[STICKY_BYTES] += sizes[row]
            partition = topic[STICKY]
        targets[row] = topic[FIRST_TARGET] + partition
    return ROUTED


@compiled
def append(
    first: int,
    last: int,
    targets: Longs,
    sizes: Longs,
    stamps: Longs,
    keys: Bytes,
    key_starts: Longs,
    key_sizes: Longs,
    values: Bytes,
    value_starts: Longs,
    value_sizes: Longs,
    header_ends: Longs,
    names: Bytes,
    name_starts: Longs,
    name_sizes: Longs,
    contents: Bytes,
    content_starts: Longs,
    content_sizes: Longs,
    opened: Longs,
    room: Any,
) -> int:
    """Write rows to the open batches of their targets, until one does not fit; answer that row."""
    capacity = room.shape[1]
    for row in range(first, last):
        target = targets[row]
        batch = opened[target]
        if batch[USED] + sizes[row] + RECORD_REST_MAX > capacity:
            return row
        into = room[target]
        stamp = stamps[row]
        if batch[COUNT] == 0:
            batch[BASE_TIMESTAMP] = batch[MAX_TIMESTAMP] = stamp
        batch[MAX_TIMESTAMP] = max(batch[MAX_TIMESTAMP], stamp)
        delta = stamp - batch[BASE_TIMESTAMP]
        size = 1 + _varint_size(delta) + _varint_size(batch[COUNT]) + sizes[row]
        at = _put_varint(into, batch[USED], size)
        into[at] = 0
        at = _put_varint(into, at + 1, delta)
        at = _put_varint(into, at, batch[COUNT])
        at = _put_bytes(into, at, keys, key_starts[row], key_sizes[row])
        at = _put_bytes(into, at, values, value_starts[row], value_sizes[row])
        begin, end = header_ends[row], header_ends[row + 1]
        at = _put_varint(into, at, end - begin)
        for header in range(begin, end):
            at = _put_bytes(into, at, names, name_starts[header], name_sizes[header])
            at = _put_bytes(into, at, contents, content_starts[header], content_sizes[header])
        batch[USED] = at
        batch[COUNT] += 1
    return last


@compiled
def fingerprint(
    keys: Bytes,
    key_starts: Longs,
    key_sizes: Longs,
    values: Bytes,
    value_starts: Longs,
    value_sizes: Longs,
) -> Any:
    """Add up a hash of key and value of each row: the same sum for the same rows in any order."""
    total = np.uint64(0)
    for row in range(key_sizes.shape[0]):
        hashed = np.uint64(0)
        if key_sizes[row] >= 0:
            hashed = murmur2(keys, key_starts[row], key_sizes[row]) + np.uint64(1)
        hashed *= np.uint64(0x9E3779B97F4A7C15)
        if value_sizes[row] >= 0:
            hashed ^= murmur2(values, value_starts[row], value_sizes[row]) + np.uint64(1)
        hashed *= np.uint64(0xD6E8FEB86659FD93)
        total += hashed ^ hashed >> np.uint64(32)
    return total
