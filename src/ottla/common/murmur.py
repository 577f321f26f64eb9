"""MurmurHash2 as Kafka uses it, to spread keys over partitions."""

from typing import Final

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """MurmurHash2 of 32 bits with the seed of Kafka, not negative when its top bit is cleared."""
    size = len(data)
    hashed = _SEED ^ size
    whole = size & ~3
    for pos in range(0, whole, 4):
        word = int.from_bytes(data[pos : pos + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = hashed * _MULTIPLIER & _MASK ^ word
    if size > whole:
        hashed ^= int.from_bytes(data[whole:], "little")
        hashed = hashed * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15
