"""Records into batches: as few as there may be, each within the limits of the log."""

from collections.abc import Iterator
from typing import Final

from ottla.common.errors import PolicyViolation
from ottla.controller.result import RECORDS_MAX
from ottla.metadata.records import MetadataRecord, encode_record
from ottla.raft.log import BATCH_BYTES_MAX

RECORD_OVERHEAD_MAX: Final = 32
"""More than a record of the log takes beside its value."""
_BYTES_MAX: Final = BATCH_BYTES_MAX - 1024


def split_into_batches(
    records: list[MetadataRecord], metadata_version: int, *, atomic: bool
) -> Iterator[tuple[list[MetadataRecord], list[bytes]]]:
    """Batches of records and their values; PolicyViolation when one must do and does not."""
    batch: list[MetadataRecord] = []
    values: list[bytes] = []
    size = 0
    for record in records:
        value = encode_record(record, metadata_version)
        cost = len(value) + RECORD_OVERHEAD_MAX
        if batch and (len(batch) >= RECORDS_MAX or size + cost > _BYTES_MAX):
            if atomic:
                raise PolicyViolation("Unable to perform excessively large batch operation.")
            yield batch, values
            batch, values, size = [], [], 0
        batch.append(record)
        values.append(value)
        size += cost
    yield batch, values
