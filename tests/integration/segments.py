"""What lies on disk: batch headers read straight from a partition's segment files.

Only the fixed fields of the format are read here, with nothing of ours, so that it can be said of
any broker's files.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}


class Batch(NamedTuple):
    base_offset: int
    codec: str
    attributes: int
    records: int
    size: int
    producer_id: int


def batches(log_directory: Path, topic: str, partition: int = 0) -> list[Batch]:
    """The batches of a partition in the order of their offsets."""
    found: list[Batch] = []
    for segment in sorted((log_directory / f"{topic}-{partition}").glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + HEADER.size <= len(data):
            fields = HEADER.unpack_from(data, position)
            base_offset, length, attributes = fields[0], fields[1], fields[5]
            if length == 0:  # a preallocated tail
                break
            codec = CODECS[attributes & 7]
            found.append(Batch(base_offset, codec, attributes, fields[12], length + 12, fields[9]))
            position += length + 12
    return found
