"""XXH3, 64 bits, without a seed: the hash that tells whether the topics of a group have changed.

It is stored with the group's epoch (KIP-1101), so it must be the very one that Apache Kafka takes.
A hash is made when a topic has changed, never for a record; plain Python is fast enough.

Short inputs (up to 16, 128 and 240 bytes) are mixed with parts of the secret; longer ones go
through eight accumulators, a stripe of 64 bytes at a time, scrambled after each block of stripes.
"""

from struct import Struct, unpack_from
from typing import Final

_MASK: Final = (1 << 64) - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_AVALANCHE: Final = 0x165667919E3779F9
_RRMXMX: Final = 0x9FB21C651E98DF25

_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_U32: Final = Struct("<I")
_U64: Final = Struct("<Q")
_LANES: Final = Struct("<8Q")

_STRIPE: Final = 64
_SECRET_STEP: Final = 8
_STRIPES_IN_BLOCK: Final = (len(_SECRET) - _STRIPE) // _SECRET_STEP


def xxh3_64(data: bytes) -> int:
    """The hash as a signed number, as Java has it."""
    size = len(data)
    if size <= 16:
        value = _upto_16(data, size)
    elif size <= 128:
        value = _upto_128(data, size)
    elif size <= 240:
        value = _upto_240(data, size)
    else:
        value = _long(data, size)
    return value - (1 << 64) if value >> 63 else value


def _u32(data: bytes, position: int) -> int:
    return int(_U32.unpack_from(data, position)[0])


def _u64(data: bytes, position: int) -> int:
    return int(_U64.unpack_from(data, position)[0])


def _fold(left: int, right: int) -> int:
    """The product of two numbers of 64 bits, its halves laid over each other."""
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value ^= value >> 37
    value = value * _AVALANCHE & _MASK
    return value ^ value >> 32


def _xxh64_avalanche(value: int) -> int:
    value ^= value >> 33
    value = value * _PRIME64_2 & _MASK
    value ^= value >> 29
    value = value * _PRIME64_3 & _MASK
    return value ^ value >> 32


def _rotate(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _upto_16(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        value = (_u32(data, size - 4) + (_u32(data, 0) << 32)) & _MASK
        value ^= _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        value ^= _rotate(value, 49) ^ _rotate(value, 24)
        value = value * _RRMXMX & _MASK
        value ^= (value >> 35) + size
        value = value * _RRMXMX & _MASK
        return value ^ value >> 28
    if size:
        combined = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        return _xxh64_avalanche(combined ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    return _xxh64_avalanche(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _mix_16(data: bytes, position: int, secret: int) -> int:
    return _fold(
        _u64(data, position) ^ _u64(_SECRET, secret),
        _u64(data, position + 8) ^ _u64(_SECRET, secret + 8),
    )


def _upto_128(data: bytes, size: int) -> int:
    value = size * _PRIME64_1
    for index in range((size - 1) // 32, -1, -1):
        value += _mix_16(data, 16 * index, 32 * index)
        value += _mix_16(data, size - 16 * (index + 1), 32 * index + 16)
    return _avalanche(value & _MASK)


def _upto_240(data: bytes, size: int) -> int:
    value = size * _PRIME64_1
    for index in range(8):
        value += _mix_16(data, 16 * index, 16 * index)
    value = _avalanche(value & _MASK)
    for index in range(8, size // 16):
        value += _mix_16(data, 16 * index, 16 * (index - 8) + 3)
    value += _mix_16(data, size - 16, 136 - 17)
    return _avalanche(value & _MASK)


def _long(data: bytes, size: int) -> int:
    lanes = [
        *(_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3),
        *(_PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1),
    ]
    stripes, scramble = (size - 1) // _STRIPE, len(_SECRET) - _STRIPE
    for stripe in range(stripes):
        place = stripe % _STRIPES_IN_BLOCK
        _accumulate(lanes, data, _STRIPE * stripe, _SECRET_STEP * place)
        if place == _STRIPES_IN_BLOCK - 1:
            for lane, key in enumerate(unpack_from("<8Q", _SECRET, scramble)):
                value = lanes[lane]
                lanes[lane] = (value ^ value >> 47 ^ key) * _PRIME32_1 & _MASK
    _accumulate(lanes, data, size - _STRIPE, scramble - 7)
    value = size * _PRIME64_1
    for pair in range(4):
        left = lanes[2 * pair] ^ _u64(_SECRET, 11 + 16 * pair)
        right = lanes[2 * pair + 1] ^ _u64(_SECRET, 19 + 16 * pair)
        value += _fold(left, right)
    return _avalanche(value & _MASK)


def _accumulate(lanes: list[int], data: bytes, position: int, secret: int) -> None:
    values = _LANES.unpack_from(data, position)
    keys = _LANES.unpack_from(_SECRET, secret)
    for lane in range(8):
        value = values[lane]
        key = value ^ keys[lane]
        lanes[lane ^ 1] = (lanes[lane ^ 1] + value) & _MASK
        lanes[lane] = (lanes[lane] + (key & 0xFFFFFFFF) * (key >> 32)) & _MASK
