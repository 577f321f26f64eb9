"""The newest offset of each key that a cleaning has seen, in a fixed amount of memory.

A key is kept as its MD5 hash, 16 bytes, beside the offset: 24 bytes for each, as in Kafka, so the
same ``log.cleaner.dedupe.buffer.size`` holds the same number of keys. Two keys of one hash would be
taken for one; that is why the hash has 128 bits. An open hash table in one array of machine
integers, three for a slot; nothing is ever removed.

Compiled by mypyc: this and ``compaction`` run once per record.

Counterpart: ``SkimpyOffsetMap``.
"""

from __future__ import annotations

import hashlib
from array import array
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # machine integers and arrays of them once compiled, nothing while interpreted
    from librt.strings import read_i64_le
    from librt.vecs import vec
    from mypy_extensions import i64

try:
    from _md5 import md5 as _builtin_md5  # type: ignore[import-not-found]
except ImportError:
    _builtin_md5 = None

SLOT_BYTES: Final = 24
_MASK: Final = (1 << 63) - 1
_INTERPRETED: Final = __file__.endswith(".py")


def _openssl_md5(key: bytes) -> Any:
    return hashlib.md5(key, usedforsecurity=False)


# For keys of some bytes OpenSSL spends most of its time on finding out which algorithm is meant.
_md5: Final[Any] = _openssl_md5 if _builtin_md5 is None else _builtin_md5


class OffsetMap:
    """At most ``slots`` keys; it gets slow when it is nearly full, so callers stop before that."""

    __slots__ = ("_words", "latest_offset", "size", "slots")

    def __init__(self, slots: int) -> None:
        assert slots > 0
        self._words: vec[i64] = _zeros(3 * slots)
        self.slots: i64 = slots
        self.size: i64 = 0
        """Different keys so far."""
        self.latest_offset: i64 = -1
        """Up to here every record is in the map."""

    def put(self, key: bytes, offset: i64) -> None:
        """Take note of a record that is newer than all before."""
        digest: bytes = _md5(key).digest()
        first: i64 = _word(digest, 0)
        second: i64 = _word(digest, 8)
        words = self._words
        at = self._find(first, second)
        if words[at + 2] == 0:
            assert self.size < self.slots
            self.size += 1
            words[at] = first
            words[at + 1] = second
        words[at + 2] = offset + 1
        self.latest_offset = offset

    def get(self, key: bytes) -> i64:
        """The offset of a key; -1 when it is not there."""
        digest: bytes = _md5(key).digest()
        at = self._find(_word(digest, 0), _word(digest, 8))
        return self._words[at + 2] - 1

    def _find(self, first: i64, second: i64) -> i64:
        """Where a hash stands, or the free slot where it would stand."""
        words = self._words
        end = 3 * self.slots
        at = (first & _MASK) % self.slots * 3
        while words[at + 2] != 0 and (words[at] != first or words[at + 1] != second):
            at += 3
            if at == end:
                at = 0
        return at

    @property
    def utilization(self) -> float:
        return float(self.size) / float(self.slots)


def _zeros(count: int) -> vec[i64]:
    if _INTERPRETED:
        return array("q", [0]) * count  # type: ignore[return-value]  # indexed the same way
    return vec[i64]([0] * count)


def _word(digest: bytes, at: i64) -> i64:
    """Eight bytes of a hash as a signed integer."""
    if _INTERPRETED:
        return int.from_bytes(digest[at : at + 8], "little", signed=True)
    return read_i64_le(digest, at)
