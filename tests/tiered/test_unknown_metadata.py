"""What is not known of the tier is not taken for what is not there."""

from collections.abc import Callable

import pytest
from tests.tiered.histories import STARTED
from tests.tiered.tier import INDEX, OWNER, Tier
from tests.turns import TURN

from ottla.common.errors import OffsetNotAvailable, ReplicaNotAvailable
from ottla.common.promise import run
from ottla.tiered.driver.local_log import files_of
from ottla.tiered.driver.manager import GONE_LOOKS, GONE_SECONDS
from ottla.tiered.driver.segment_work import CopyRefused
from ottla.tiered.layout import MANIFEST_SUFFIX, object_key, parse_key
from ottla.tiered.manifest import encode_manifest
from ottla.tiered.manifests import read_manifest
from ottla.tiered.metadata_topic import MetadataSlice
from ottla.tiered.segments import (
    DeleteState,
    PartitionDeletion,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
)

Distort = Callable[[MetadataSlice], MetadataSlice]


def without_records(found: MetadataSlice) -> MetadataSlice:
    """Others had all the bytes of the answer."""
    return found._replace(records=b"")


def with_no_watermark(found: MetadataSlice) -> MetadataSlice:
    """A new leader, which has heard of nothing yet."""
    return found._replace(records=b"", high_watermark=0)


def one_behind(found: MetadataSlice) -> MetadataSlice:
    return found._replace(high_watermark=max(0, found.high_watermark - 1))


def copied() -> Tier:
    """Five segments that only the store has, of a log that is kept for ever."""
    tier = Tier()
    tier.fill(60)
    tier.run(5)
    tier.delete_local()
    assert tier.local.local_log_start_offset > 0
    assert tier.local.log_start_offset == 0
    return tier


@pytest.mark.parametrize("distort", [without_records, with_no_watermark, one_behind])
def test_a_load_that_is_not_complete_removes_nothing(distort: Distort) -> None:
    tier = copied()
    stored = dict(tier.store.objects)
    tier.distort = distort
    tier.crash()
    tier.run(60)
    assert tier.store.objects == stored
    assert tier.local.log_start_offset == 0
    tier.topic.distort = lambda found: found
    tier.run(60)
    tier.check()
    assert tier.store.objects == stored


@pytest.mark.parametrize("distort", [without_records, with_no_watermark, one_behind])
def test_a_load_that_is_not_complete_is_none(distort: Distort) -> None:
    """Every caller hears that it is not known yet, however long that takes."""
    tier = copied()
    known = list(tier.remote.segments)
    tier.distort = distort
    tier.crash()
    tier.run(60)
    with pytest.raises(ReplicaNotAvailable):
        _ = tier.remote
    tier.topic.distort = lambda found: found
    tier.run(10)
    assert list(tier.remote.segments) == known


def test_nothing_is_loaded_while_the_leader_does_not_know_what_is_committed() -> None:
    tier = copied()
    tier.distort = one_behind
    tier.crash()
    tier.topic.end_error = OffsetNotAvailable()
    tier.run(10)
    with pytest.raises(Exception, match="not read yet"):
        _ = tier.remote
    tier.topic.end_error = None
    tier.topic.distort = lambda found: found
    tier.run(10)
    tier.check()


def test_records_that_the_metadata_topic_has_lost_move_no_log_start() -> None:
    """An unclean election, or somebody who has deleted the topic: the objects are left alone."""
    tier = copied()
    stored = set(tier.store.objects)
    tier.crash()
    tier.topic.elect_uncleanly(INDEX, 0)
    tier.run(60)
    assert tier.local.log_start_offset == 0
    assert stored <= set(tier.store.objects)


def test_an_unclean_election_of_the_metadata_topic_does_not_stop_the_tier() -> None:
    tier = copied()
    tier.topic.elect_uncleanly(INDEX, 3)
    tier.fill(60)
    tier.run(60)
    tier.delete_local()
    assert tier.local.local_log_start_offset > 100
    found = tier.remote
    tier.crash()
    tier.run(10)
    assert list(tier.remote.segments) == list(found.segments)


def test_a_truncated_log_does_not_believe_what_was_copied_of_its_other_end() -> None:
    """Local retention would delete what has come in place of what was copied."""
    tier = copied()
    highest = tier.local.highest_remote_offset
    assert highest > 20
    tier.manager.stop(OWNER)
    tier.local.truncate_to(20, tier.scheduler.wall_ms())
    assert tier.local.highest_remote_offset == 19


def test_the_first_local_segments_wait_until_the_disk_says_where_the_log_begins() -> None:
    """A crash would leave offsets that are nowhere, and nothing that says so."""
    tier = Tier()
    tier.manager.stop(OWNER)
    tier.fill(60)
    local = tier.local
    local.delete_records_before(35)
    assert local.delete_old_segments(tier.scheduler.wall_ms()) == 0
    local.saved_start_offset = 20
    assert local.delete_old_segments(tier.scheduler.wall_ms()) == 2
    local.saved_start_offset = 35
    assert local.delete_old_segments(tier.scheduler.wall_ms()) == 1
    assert local.segments[0].base_offset == 30


def test_a_finished_copy_of_another_leader_is_not_removed_as_its_leftover() -> None:
    """Its record comes while the store is slow with another leftover, behind the decision."""
    tier = copied()
    tier.manager.stop(OWNER)
    first = next(iter(tier.remote.segments))
    leftover = first._replace(segment_id=bytes(15) + b"l", state=STARTED)
    twin = first._replace(segment_id=bytes(15) + b"t", state=STARTED)
    for key in list(tier.store.objects):
        parsed = parse_key(key)
        assert parsed is not None
        if parsed.segment_id == first.segment_id:
            tier.store.objects[object_key(twin, parsed.suffix)] = tier.store.objects[key]
    manifest = read_manifest(tier.store, first)
    copy = encode_manifest(manifest._replace(segment=twin))
    tier.store.objects[object_key(twin, MANIFEST_SUFFIX)] = copy
    assert tier.wait_for(tier.metadata.write(leftover))
    assert tier.wait_for(tier.metadata.write(twin))
    told: list[object] = []

    def finish(operation: str, key: str) -> None:
        if operation == "delete" and not told:
            parsed = parse_key(key)
            assert parsed is not None
            assert parsed.segment_id == leftover.segment_id
            told.append(tier.metadata.write(_update(twin, SegmentState.COPY_SEGMENT_FINISHED)))

    tier.store.fail = finish
    tier.manager.lead(OWNER)
    tier.run(60)
    assert told
    assert tier.local.log_start_offset == 0
    tier.check()


def test_a_topic_that_is_not_known_yet_is_not_taken_for_one_that_is_gone() -> None:
    """The broker that leads the metadata partition may hear of a new topic later than others."""
    tier = copied()
    stored = dict(tier.store.objects)
    tier.image_has_topic = False
    tier.crash()
    tier.run(1.5 * GONE_SECONDS)
    assert tier.store.objects == stored
    tier.image_has_topic = True
    tier.run(10 * GONE_SECONDS)
    assert tier.store.objects == stored
    tier.check()


def test_nobody_who_has_not_heard_the_latest_says_that_a_topic_is_gone() -> None:
    tier = copied()
    stored = dict(tier.store.objects)
    tier.image_has_topic = False
    tier.crash()
    tier.manager._is_current = lambda: False
    tier.run(20 * GONE_SECONDS)
    assert tier.store.objects == stored
    tier.manager._is_current = lambda: True
    tier.run((GONE_LOOKS + 1) * GONE_SECONDS)
    assert tier.store.objects == {}


def test_nothing_more_is_copied_of_a_partition_that_goes() -> None:
    tier = copied()
    first = next(iter(tier.remote.segments))
    tier.manager.stop(OWNER)
    going = PartitionDeletion(OWNER, DeleteState.DELETE_PARTITION_STARTED, 6_000, 2)
    assert tier.wait_for(tier.metadata.write(going))
    late = first._replace(segment_id=bytes(15) + b"l", state=STARTED)
    assert not tier.wait_for(tier.metadata.write(late))
    stored = tier.store.operations
    files = files_of(tier.local, tier.local.segments[0], late.end_offset)
    copy = run(TURN, tier.manager._work.copy(late, files, lambda: False))
    with pytest.raises(CopyRefused):
        tier.wait_for(copy)
    assert tier.store.operations == stored, "nothing was uploaded"


def _update(segment: RemoteLogSegment, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(OWNER, segment.segment_id, state, 6_000, 2)
