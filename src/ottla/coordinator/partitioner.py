"""Which partition of a coordinator's topic an id belongs to: by the hash that Kafka uses."""

from functools import lru_cache
from typing import Final

_HASHES_KEPT: Final = 4096


def partition_of(key: str, count: int) -> int:
    """Which partition of a coordinator's topic a group or a transactional id belongs to."""
    return _java_hash(key) % count


@lru_cache(maxsize=_HASHES_KEPT)
def _java_hash(key: str) -> int:
    """The hash of Java's strings, without its sign."""
    value = 0
    units = key.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    if value == 1 << 31:
        return 0  # which has no positive twin
    return value if value < 1 << 31 else (1 << 32) - value
