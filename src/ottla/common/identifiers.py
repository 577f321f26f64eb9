"""Kafka's UUIDs: 16 bytes in memory, 22 characters of base64url in text."""

import base64
import binascii

from ottla.common.chance import Chance

ZERO_UUID = bytes(16)
METADATA_TOPIC = "__cluster_metadata"
METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The topic id of ``__cluster_metadata``."""
UNASSIGNED_DIRECTORY = bytes(15) + b"\x01"
LOST_DIRECTORY = bytes(15) + b"\x02"
MIGRATING_DIRECTORY = bytes(16)

_RESERVED = 100
_DAMAGED_BITS_MAX = 12


def uuid_text(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode("ascii")


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes that ``text`` stands for; ValueError when it is none of Kafka's UUIDs."""
    try:
        value = base64.b64decode(text + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if len(value) != 16:
        raise ValueError(f"not a UUID of 22 base64url characters: {text!r}")
    return value


def is_damaged_copy(value: bytes, original: bytes) -> bool:
    """Whether ``value`` is ``original`` with a few bits changed, not another UUID.

    A bit of the text is up to six of the value; those drawn by lot differ in about sixty.
    """
    difference = int.from_bytes(value, "big") ^ int.from_bytes(original, "big")
    return 0 < difference.bit_count() <= _DAMAGED_BITS_MAX


def random_uuid(chance: Chance) -> bytes:
    """A version 4 UUID whose text does not begin with a dash, which command lines would eat."""
    while True:
        raw = bytearray(chance.bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40
        raw[8] = raw[8] & 0x3F | 0x80
        value = bytes(raw)
        if int.from_bytes(value, "big") >= _RESERVED and not uuid_text(value).startswith("-"):
            return value
