"""Rewritten segments take the place of others, and a crash leaves either the old or the new."""

import pytest
from tests.storage import logs
from tests.tiered.histories import FINISHED, segment, segment_id, update
from tests.tiered.test_cache import cache_of
from tests.tiered.test_manager import _crash_at_store_operation, copied
from tests.tiered.tier import OWNER, Tier, value_of

from ottla.common.errors import InvalidRequest, NotLeaderOrFollower
from ottla.records.batch import batches, read_header
from ottla.testing.files import PowerLost
from ottla.tiered.cache import SegmentCache
from ottla.tiered.copier import SegmentFiles
from ottla.tiered.driver.log_tasks import RewrittenFiles
from ottla.tiered.index_rebuild import rebuild_indexes
from ottla.tiered.layout import object_key
from ottla.tiered.machine import JOB_ID
from ottla.tiered.rewrite import rewritten
from ottla.tiered.segments import EpochStart, RemoteLogSegment, of_leader_epoch


def replacement(cache: SegmentCache, *old: int) -> RemoteLogSegment:
    return rewritten(
        cache,
        [segment_id(number) for number in old],
        segment_id=segment_id(9),
        size_in_bytes=50,
        max_timestamp_ms=900,
        transaction_index_empty=True,
        broker_id=1,
        now_ms=7_000,
    )


def test_the_new_segment_has_the_offsets_and_epochs_of_the_old() -> None:
    cache = cache_of(segment(1, 0, 99), segment(2, 100, 199, {0: 100, 3: 150}))
    new = replacement(cache, 1, 2)
    assert (new.start_offset, new.end_offset) == (0, 199)
    assert new.leader_epochs == (EpochStart(0, 0), EpochStart(3, 150))


def test_the_new_segment_is_as_safe_from_former_leaders_as_the_old() -> None:
    copies = [
        segment(number, 100 * number, 100 * number + 99)._replace(
            custom_metadata=of_leader_epoch(epoch)
        )
        for number, epoch in enumerate((3, 12, 9), 1)
    ]
    assert replacement(cache_of(*copies), 1, 2, 3).copied_in_epoch == 12


@pytest.mark.parametrize("old", [(), (1, 3), (2, 1), (7,)])
def test_what_does_not_follow_one_another_is_refused(old: tuple[int, ...]) -> None:
    cache = cache_of(segment(1, 0, 99), segment(2, 100, 199), segment(3, 200, 299))
    with pytest.raises(InvalidRequest):
        replacement(cache, *old)


def test_segments_of_different_lineages_are_refused() -> None:
    cache = cache_of(segment(1, 0, 99, {0: 0, 2: 50}), segment(2, 100, 199, {1: 100}))
    with pytest.raises(InvalidRequest):
        replacement(cache, 1, 2)


def test_what_is_not_in_use_is_refused() -> None:
    cache = cache_of(segment(1, 0, 99), segment(2, 0, 199))
    with pytest.raises(InvalidRequest):
        replacement(cache, 1)


# With the manager


def rewrite(tier: Tier, old: list[RemoteLogSegment]) -> RewrittenFiles:
    """Drop every second record, and write what is left beside the log."""
    data = b"".join(tier.store.objects[object_key(each, ".log")] for each in old)
    kept = [
        data[start : start + size]
        for start, size in batches(data)
        if read_header(data, start).base_offset % 2 == 0
    ]
    content = b"".join(kept)
    base = f"{logs.ROOT}/rewritten"
    tier.files.write(f"{base}.log", content)
    file = tier.files.open(f"{base}.log")
    offsets, times = rebuild_indexes(file, len(content), old[0].start_offset)
    tier.files.write(f"{base}.index", offsets)
    tier.files.write(f"{base}.timeindex", times)
    files = SegmentFiles(
        tier.files, f"{base}.log", f"{base}.index", f"{base}.timeindex", None, None, b"0\n0\n"
    )
    newest = max(read_header(batch).max_timestamp for batch in kept)
    return RewrittenFiles(files, len(content), newest)


def first_two(tier: Tier) -> list[RemoteLogSegment]:
    return sorted(tier.remote.segments, key=lambda each: each.start_offset)[:2]


def test_readers_get_what_was_kept_and_the_old_objects_are_gone() -> None:
    tier = copied()
    old = first_two(tier)
    ids = [each.segment_id for each in old]
    new = tier.wait_for(tier.manager.replace(OWNER, ids, rewrite(tier, old)))
    found = tier.read_all()
    end = old[1].end_offset
    assert [offset for offset in found if offset <= end] == list(range(0, end + 1, 2))
    assert {found[offset] for offset in (0, 2, end + 1)} == {
        value_of(0),
        value_of(2),
        value_of(end + 1),
    }
    assert not set(ids) & tier.stored_ids()
    assert new.segment_id in tier.stored_ids()
    tier.check_store()
    highest = tier.local.highest_remote_offset
    tier.crash()
    tier.run(5)
    assert tier.read_all() == found
    assert tier.local.highest_remote_offset == highest


def test_only_the_leader_replaces() -> None:
    tier = copied()
    old = first_two(tier)
    files = rewrite(tier, old)
    tier.manager.follow(OWNER)
    with pytest.raises(NotLeaderOrFollower):
        tier.manager.replace(OWNER, [old[0].segment_id], files).result()


def test_a_crash_anywhere_leaves_the_old_or_the_new() -> None:
    number = 0
    seen = set()
    while True:
        tier = copied()
        old = first_two(tier)
        files = rewrite(tier, old)
        _crash_at_store_operation(number)(tier)
        replaced = tier.manager.replace(OWNER, [each.segment_id for each in old], files)
        try:
            tier.wait_for(replaced)
        except PowerLost:
            number += 1
        else:
            break
        tier.crash()
        tier.run(10)
        offsets = [offset for offset in tier.read_all() if offset <= old[1].end_offset]
        step = offsets[1] - offsets[0]
        assert offsets == list(range(0, old[1].end_offset + 1, step))
        seen.add(step)
        tier.check_store()
    assert seen == {1, 2}
    assert number > 10


def test_a_copy_that_a_job_has_begun_is_not_taken_for_a_leftover() -> None:
    tier = copied()
    old = first_two(tier)
    begun = old[0]._replace(
        segment_id=bytes(15) + b"j",
        broker_id=JOB_ID,
        event_timestamp_ms=tier.scheduler.wall_ms(),
        state=segment(1, 0, 1).state,
    )
    assert tier.wait_for(tier.metadata.write(begun))
    tier.run(60)
    assert tier.remote.segments.get(begun.segment_id) is not None
    finished = update(1, FINISHED)._replace(partition=OWNER, segment_id=begun.segment_id)
    assert tier.wait_for(tier.metadata.write(finished))
    tier.run(60)
    assert tier.remote.segments.get(old[0].segment_id) is None


def test_a_job_that_died_is_cleaned_up_after_a_day() -> None:
    tier = copied()
    begun = first_two(tier)[0]._replace(
        segment_id=bytes(15) + b"j",
        broker_id=JOB_ID,
        event_timestamp_ms=tier.scheduler.wall_ms() - 86_400_001,
        state=segment(1, 0, 1).state,
    )
    assert tier.wait_for(tier.metadata.write(begun))
    tier.run(10)
    assert tier.remote.segments.get(begun.segment_id) is None
    tier.check()
