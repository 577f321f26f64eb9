"""What batches that a log has say of its producers and their transactions."""

from typing import Protocol

from ottla.records.batch import BatchHeader
from ottla.storage.producer_state import ProducerState
from ottla.storage.recent_batches import recall_batches
from ottla.storage.segments import Segments
from ottla.storage.sound_headers import headers_from
from ottla.storage.transaction_index import AbortedTransaction


class AbortedTransactions(Protocol):
    """Where aborted transactions are noted."""

    def append(self, transaction: AbortedTransaction) -> None: ...


def replay(
    state: ProducerState, header: BatchHeader, batch: bytes, index: AbortedTransactions | None
) -> None:
    """Take note of a batch that the log has; aborted transactions go to ``index``."""
    completed = state.replay(header, batch)
    if completed is not None:
        if completed.is_aborted and index is not None:
            index.append(completed.aborted(state.last_stable_offset_after(completed)))
        state.complete(completed)


def rebuild_producers(
    state: ProducerState,
    segments: Segments,
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int,
) -> None:
    """Bring ``state`` to ``end_offset``: from the latest snapshot, and the batches behind it."""
    if end_offset < start_offset:
        state.clear(end_offset)
        segments.snapshots.started_at(end_offset)
        return
    segments.snapshots.load_latest(state, start_offset, end_offset, now_ms)
    if state.end_offset != end_offset:
        _replay_to(end_offset, state, segments)
    recall_batches(state, segments)


def _replay_to(end_offset: int, state: ProducerState, segments: Segments) -> None:
    snapshots = segments.snapshots
    for segment in segments.touching(state.end_offset, end_offset):
        if segment.base_offset >= state.end_offset and segment is not segments[0]:
            state.end_offset = segment.base_offset
            snapshots.take(state)
        for position, header in headers_from(segment, state.end_offset):
            if header.base_offset >= end_offset:
                break
            if header.last_offset >= state.end_offset:
                body = segment.file.read_at(position, header.size) if header.is_control else b""
                replay(state, header, body, None)
    state.end_offset = end_offset
    snapshots.take(state)
