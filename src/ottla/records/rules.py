"""What a topic's settings demand of an append, and where the append comes from."""

from enum import IntEnum
from typing import Final

from ottla.records.batch import CREATE_TIME
from ottla.records.compression import CODECS, DECOMPRESSED_MAX

UNBOUNDED_MS: Final = (1 << 63) - 1
_AFTER_MAX_MS: Final = 1 << 62
"""Later than this no timestamp is taken: with ``now`` added it still has to fit an int64."""
_DECOMPRESSED_PER_BYTE: Final = 16


class AppendOrigin(IntEnum):
    """Where an append comes from; clients are trusted least."""

    REPLICATION = 0
    COORDINATOR = 1
    CLIENT = 2
    RAFT_LEADER = 3


class AppendRules:
    """Made once per change of a topic's configuration.

    ``codec`` is the one that batches must have, None to leave the producer's. A compressed batch
    may unpack to ``decompressed_max``, which a client could reach only with records that shrink to
    less than a sixteenth; it is told MESSAGE_TOO_LARGE then, upon which producers send smaller
    batches.
    """

    __slots__ = (
        "codec",
        "compacted",
        "decompressed_max",
        "level",
        "max_message_bytes",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
        "timestamp_type",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1048588,
        compression_type: str = "producer",
        gzip_level: int = -1,
        lz4_level: int = 9,
        zstd_level: int = 3,
        timestamp_type: int = CREATE_TIME,
        timestamp_before_max_ms: int = UNBOUNDED_MS,
        timestamp_after_max_ms: int = 3600000,
        compacted: bool = False,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.codec = _codec_of(compression_type)
        levels = {"gzip": gzip_level, "lz4": lz4_level, "zstd": zstd_level}
        self.level = levels.get(compression_type)
        self.timestamp_type = timestamp_type
        self.timestamp_before_max_ms = timestamp_before_max_ms
        self.timestamp_after_max_ms = min(timestamp_after_max_ms, _AFTER_MAX_MS)
        self.compacted = compacted
        self.decompressed_max = max(DECOMPRESSED_MAX, _DECOMPRESSED_PER_BYTE * max_message_bytes)


def _codec_of(compression_type: str) -> int | None:
    if compression_type == "producer":
        return None
    return 0 if compression_type == "uncompressed" else CODECS[compression_type]
