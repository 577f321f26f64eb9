"""Which offset of a copy a record of the original has: written beside the copy, batch by batch.

A value is JSON, so that anybody can read it::

    {"source_partition": 0, "source_offset": 17, "deltas": [1, 2], "partition": 3, "offset": 40}

Records 17, 18 and 20 of partition 0 of the source are records 40, 41 and 42 of partition 3. Batches
of one source partition come in the order of its offsets.

From it follows where a consumer group goes on in the copy when it has read the original up to some
offset of each partition: in each partition of the copy at the first record that it has not read.
What it has read of *other* source partitions behind that record comes again: the partitions of the
copy have one order, and a group has one offset in each of them.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ottla.common.errors import CorruptMessage

Longs = np.ndarray[Any, np.dtype[np.int64]]


class Placed(NamedTuple):
    """One batch: its records stand one behind the other."""

    source_partition: int
    source_offsets: Longs
    """Rising, at least one."""
    partition: int
    offset: int
    """Of the first."""

    @property
    def end_offset(self) -> int:
        return self.offset + len(self.source_offsets)

    def encode(self) -> bytes:
        fields = {
            "source_partition": self.source_partition,
            "source_offset": int(self.source_offsets[0]),
            "deltas": np.diff(self.source_offsets).tolist(),
            "partition": self.partition,
            "offset": self.offset,
        }
        return json.dumps(fields, separators=(",", ":")).encode()

    @staticmethod
    def decode(value: bytes) -> "Placed":
        try:
            fields = json.loads(value)
            deltas = np.array([0, *fields["deltas"]], np.int64)
            return Placed(
                int(fields["source_partition"]),
                int(fields["source_offset"]) + np.cumsum(deltas),
                int(fields["partition"]),
                int(fields["offset"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptMessage(f"no mapping of offsets: {error!r}") from error


class Reach(NamedTuple):
    """What a group finds in one partition of the copy."""

    first: int | None
    """The first record that it has not read; None if it has read all."""
    end: int
    """Behind the last record of the copy."""


def reach(placed: Iterable[Placed], committed: int) -> dict[int, Reach]:
    """By partition of the copy, for a group that has read one source partition so far."""
    found: dict[int, Reach] = {}
    for each in placed:
        known = found.get(each.partition, Reach(None, 0))
        first = known.first
        read = int(np.searchsorted(each.source_offsets, committed))
        if first is None and read < len(each.source_offsets):
            first = each.offset + read
        found[each.partition] = Reach(first, max(known.end, each.end_offset))
    return found


def cut_over(reached: Iterable[Mapping[int, Reach]], partitions: int) -> dict[int, int]:
    """Where a group goes on in each partition, by its reach from all source partitions.

    Where all was read that is behind the last record of the copy, so that nothing is missed of what
    others write there from then on; in a partition without any, at its beginning.
    """
    ends = dict.fromkeys(range(partitions), 0)
    firsts: dict[int, int] = {}
    for one in reached:
        for partition, (first, end) in one.items():
            ends[partition] = max(ends[partition], end)
            if first is not None:
                firsts[partition] = min(first, firsts.get(partition, first))
    return ends | firsts


def read_again(
    placed: Iterable[Placed], committed: int, starts: Mapping[int, int]
) -> dict[int, int]:
    """How many records a group has read already and gets once more, by partition of the copy."""
    again: dict[int, int] = {}
    for each in placed:
        read = int(np.searchsorted(each.source_offsets, committed))
        below = max(starts[each.partition] - each.offset, 0)
        again[each.partition] = again.get(each.partition, 0) + max(read - below, 0)
    return again
