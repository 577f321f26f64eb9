"""Ranges of offsets, each the work of one task, and how partitions are split into them.

By records as spark-sql-kafka does it; by bytes too where sizes are known, because a partition of
few large records is as much work as one of many small ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """``start <= offset < end`` of a partition, fetched from its leader."""

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int
    record_bytes: float = 0.0
    """Of each offset on the average; 0 when it is not known."""

    @property
    def records(self) -> int:
        """At most: offsets may be without a record."""
        return self.end - self.start

    @property
    def bytes(self) -> float:
        return self.records * self.record_bytes


def plan(
    ranges: Iterable[OffsetRange],
    *,
    parts_min: int | None = None,
    records_max: int | None = None,
    bytes_max: int | None = None,
) -> list[OffsetRange]:
    """Split what is too large, then as far as ``parts_min`` asks for; empty ranges are left out.

    ``parts_min`` is nearly kept: parts are whole, and none is made without records.
    """
    planned: list[OffsetRange] = []
    for each in ranges:
        if each.records <= 0:
            continue
        parts = 1
        if records_max is not None:
            parts = ceil(each.records / records_max)
        if bytes_max is not None:
            parts = max(parts, ceil(each.bytes / bytes_max))
        planned += split(each, parts)
    if parts_min is None or len(planned) > parts_min:
        return planned
    return _split_evenly(planned, parts_min)


def _split_evenly(ranges: Sequence[OffsetRange], parts_min: int) -> list[OffsetRange]:
    """More parts for the larger; those that stay whole do not count for the others."""
    sized = all(each.record_bytes for each in ranges)
    weights = [each.bytes if sized else float(each.records) for each in ranges]
    total = sum(weights)
    whole = [_share(weight, total, parts_min) == 1 for weight in weights]
    left = sum(weight for weight, stays in zip(weights, whole, strict=True) if not stays)
    parts_left = max(parts_min - sum(whole), 1)
    planned: list[OffsetRange] = []
    for each, weight, stays in zip(ranges, weights, whole, strict=True):
        planned += [each] if stays else split(each, _share(weight, left, parts_left))
    return planned


def _share(weight: float, total: float, parts: int) -> int:
    return max(int(weight / total * parts + 0.5), 1)


def split(wanted: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into ``parts`` of equal length, or fewer when there are fewer offsets."""
    parts = min(parts, wanted.records)
    if parts <= 1:
        return [wanted]
    borders = [wanted.start + wanted.records * at // parts for at in range(parts + 1)]
    return [replace(wanted, start=start, end=end) for start, end in pairwise(borders)]
