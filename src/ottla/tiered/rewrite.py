"""A rewritten segment takes the place of remote segments: the same offsets, fewer records.

The new one is copied as any other and counts from ``COPY_SEGMENT_FINISHED`` on. From that record
on all its offsets belong to it (see ``epoch_state``), nobody finds the old ones any more, and they
are removed as all leftovers are. So there is no moment at which an offset is in neither, and a
crash leaves either the old ones in use, or the new one.

Kafka's own cache comes to the same: an old segment is not found behind its first removal record.
"""

from collections.abc import Sequence

from ottla.common.errors import InvalidRequest
from ottla.tiered.cache import SegmentCache
from ottla.tiered.segments import EpochStart, RemoteLogSegment


def rewritten(
    segments: SegmentCache,
    old: Sequence[bytes],
    *,
    segment_id: bytes,
    size_in_bytes: int,
    max_timestamp_ms: int,
    transaction_index_empty: bool,
    broker_id: int,
    now_ms: int,
) -> RemoteLogSegment:
    """The segment that is to take the place of those with the ids ``old``, in order.

    One whose records have no timestamps is as old as the newest of those: theirs is the time of a
    file then, and without any it would expire at once.

    InvalidRequest when they do not follow one another, or are not in use.
    """
    known = [_in_use(segments, each) for each in old]
    if not known:
        raise InvalidRequest("no segment is to be replaced")
    epochs: list[EpochStart] = []
    for number, each in enumerate(known):
        if number and each.start_offset != known[number - 1].end_offset + 1:
            raise InvalidRequest(f"{known[number - 1]} and {each} do not follow one another")
        if epochs and each.leader_epochs[0].epoch < epochs[-1].epoch:
            raise InvalidRequest(f"{known[number - 1]} and {each} are of different lineages")
        epochs += [entry for entry in each.leader_epochs if entry.epoch not in dict(epochs)]
    if max_timestamp_ms < 0:
        max_timestamp_ms = max(each.max_timestamp_ms for each in known)
    return RemoteLogSegment(
        partition=known[0].partition,
        segment_id=segment_id,
        start_offset=known[0].start_offset,
        end_offset=known[-1].end_offset,
        max_timestamp_ms=max_timestamp_ms,
        broker_id=broker_id,
        event_timestamp_ms=now_ms,
        size_in_bytes=size_in_bytes,
        leader_epochs=tuple(epochs),
        custom_metadata=max(known, key=lambda each: each.copied_in_epoch).custom_metadata,
        transaction_index_empty=transaction_index_empty,
    )


def _in_use(segments: SegmentCache, segment_id: bytes) -> RemoteLogSegment:
    found = segments.get(segment_id)
    if found is None or not segments.is_referenced(found):
        raise InvalidRequest(f"no segment with the id {segment_id.hex()} is in use")
    return found
