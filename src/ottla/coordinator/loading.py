"""From the log back into a shard: what a broker does when it begins to lead a partition.

Records of open transactions are replayed with their producer id, and it is for the shard to keep
them apart until the marker comes. Control records of other kinds say nothing to a coordinator.
"""

from typing import Any, NamedTuple

from ottla.coordinator.shard import RecordFormat, Shard
from ottla.records.batch import BatchHeader, batches, read_header
from ottla.records.control import ControlType, read_control_type
from ottla.records.record import iterate


class Replayed(NamedTuple):
    next_offset: int
    records: int


def replay(
    data: bytes, position: int, stop: int, shard: Shard[Any], record_format: RecordFormat[Any]
) -> Replayed:
    """Replay the batches of ``data`` that begin below ``stop``.

    Where a batch begins at ``stop`` or above, nothing is left below: compaction makes gaps.
    """
    records = 0
    for start, _ in batches(data, 0, len(data)):
        header = read_header(data, start)
        if header.base_offset >= stop:
            return Replayed(max(position, stop), records)
        if header.last_offset < position:
            continue
        if header.is_control:
            _replay_marker(data, start, header, shard)
        else:
            for record in iterate(data, start):
                if record.offset < position or record.key is None:
                    continue
                decoded = record_format.decode(record.key, record.value)
                if decoded is not None:
                    shard.replay(record.offset, header.producer_id, decoded)
                    records += 1
        position = header.last_offset + 1
    return Replayed(position, records)


def _replay_marker(data: bytes, start: int, header: BatchHeader, shard: Shard[Any]) -> None:
    for record in iterate(data, start):
        control_type = read_control_type(record.key)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            committed = control_type is ControlType.COMMIT
            shard.replay_end_transaction(header.producer_id, committed=committed)
