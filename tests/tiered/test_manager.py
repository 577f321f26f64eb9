"""The manager on a simulated disk, store and clock: copies, expires, reads, survives crashes."""

from collections.abc import Callable

import pytest
from tests.storage import cleaning, logs
from tests.tiered.tier import INDEX, OWNER, Tier, value_of

from ottla.common.errors import ApiError, ErrorCode, OffsetOutOfRange, ReplicaNotAvailable
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.observability.names import parse_name
from ottla.testing.files import PowerLost
from ottla.tiered.driver.local_log import lineage_of
from ottla.tiered.driver.manager import GONE_LOOKS, GONE_SECONDS, STOP_SECONDS
from ottla.tiered.layout import MANIFEST_SUFFIX, segment_prefix
from ottla.tiered.records import decode
from ottla.tiered.segments import (
    EpochStart,
    PartitionDeletion,
    RemoteLogSegment,
    SegmentState,
    SegmentUpdate,
    of_leader_epoch,
)
from ottla.tiered.store import RemoteStoreError


def copied(tier: Tier | None = None) -> Tier:
    """Sixty records, of which those in closed segments are in the remote store alone."""
    tier = tier or Tier()
    tier.fill(60)
    tier.run(5)
    tier.delete_local()
    return tier


def test_closed_segments_are_copied_and_read_back() -> None:
    tier = copied()
    log = tier.local
    assert log.log_start_offset == 0
    assert log.local_log_start_offset == log.segments.active.base_offset > 40
    assert log.highest_remote_offset == log.local_log_start_offset - 1
    assert len(tier.remote.segments) > 3
    tier.check()


def test_the_same_seed_does_the_same() -> None:
    assert copied().store.objects == copied().store.objects


def test_the_active_segment_and_what_is_not_stable_are_not_copied() -> None:
    tier = Tier()
    tier.fill(60)
    tier.local.high_watermark = 25
    tier.run(5)
    assert tier.local.highest_remote_offset < 25
    tier.local.set_high_watermark(60)
    tier.run(5)
    assert tier.local.highest_remote_offset == tier.local.segments.active.base_offset - 1


def test_nothing_is_copied_while_copying_is_disabled() -> None:
    tier = Tier(remote_log_copy_disable="true")
    tier.fill(60)
    tier.run(5)
    assert tier.store.objects == {}
    tier.configure()
    tier.run(5)
    tier.check()
    assert tier.store.objects != {}


def test_remote_segments_expire_and_the_log_start_moves() -> None:
    tier = copied(Tier(retention_ms=60_000, local_retention_ms=1000))
    tier.run(70)
    tier.fill(30)
    tier.run(5)
    assert tier.local.log_start_offset > 40
    assert all(each.end_offset >= tier.local.log_start_offset for each in tier.remote.segments)
    tier.check()


def test_retention_by_size_counts_both_tiers() -> None:
    tier = copied(Tier(retention_bytes=3000))
    tier.run(5)
    size = tier.remote.size() + tier.local.segments.active.size
    assert 3000 <= size < 3000 + 1200
    tier.check()


def test_what_was_deleted_by_a_client_goes_from_the_store() -> None:
    tier = copied()
    before = len(tier.remote.segments)
    tier.local.delete_records_before(25)
    tier.run(5)
    assert len(tier.remote.segments) < before
    assert tier.read_all()[25] == value_of(25)
    tier.check_store()


def test_an_old_checkpoint_of_the_log_start_is_corrected() -> None:
    tier = copied()
    tier.local.delete_records_before(25)
    tier.run(5)
    tier.crash()
    assert tier.local.log_start_offset == 0
    tier.run(5)
    assert 0 < tier.local.log_start_offset <= 25
    tier.check()


def test_a_store_that_fails_is_tried_again_and_nothing_is_left_of_the_failures() -> None:
    tier = Tier()
    failing = True
    tier.store.fail = lambda operation, key: (
        RemoteStoreError("no") if failing and key.endswith(".index") else None
    )
    tier.fill(60)
    tier.run(20)
    assert tier.local.highest_remote_offset == -1
    assert tier.stored_ids() == set()
    failing = False
    tier.run(60)
    tier.delete_local()
    tier.check()
    assert tier.local.local_log_start_offset > 40


@pytest.mark.parametrize("first_epoch_at", [5, 25, 60])
def test_records_without_a_leader_epoch_are_not_copied_again_and_again(first_epoch_at: int) -> None:
    """Those of an old format have none, so that nobody would find them in the store."""
    tier = Tier()
    tier.fill(60)
    tier.local.epochs.clear()
    tier.local.epochs.assign(3, first_epoch_at)
    uploads = []

    def count(operation: str, key: str) -> None:
        if operation == "put":
            uploads.append(key)
            assert len(uploads) < 100, "the same is copied for ever"

    tier.store.fail = count
    tier.run(5)
    assert uploads == []
    tier.local.delete_records_before(first_epoch_at)
    tier.run(60)
    tier.check()
    assert bool(uploads) is (first_epoch_at < tier.local.segments.active.base_offset)


def test_a_mistake_in_a_copy_does_not_end_copying() -> None:
    tier = Tier()
    mistakes = [KeyError("ours")]

    def once(_operation: str, _key: str) -> None:
        if mistakes:
            raise mistakes.pop()

    tier.store.fail = once
    tier.fill(60)
    with pytest.raises(KeyError):
        tier.run(5)
    tier.run(60)
    tier.delete_local()
    tier.check()
    assert tier.local.local_log_start_offset > 40


def test_the_quota_of_copies_is_kept() -> None:
    tier = Tier()
    settings = tier.manager._settings._replace(copy_bytes_per_second=500)
    tier.manager.configure(settings)
    tier.fill(60)
    begun = tier.scheduler.now
    assert tier.scheduler.run_until(lambda: tier.local.highest_remote_offset > 40, 600)
    in_advance = 1200 + 500
    assert tier.remote.size() - in_advance <= 500 * (tier.scheduler.now - begun)


def test_reads_that_are_too_many_are_refused() -> None:
    tier = copied()
    log = tier.local
    reads = [
        tier.manager.read(log, 0, 100, upper_bound_offset=log.high_watermark, read_committed=False)
        for _ in range(150)
    ]
    tier.run(5)
    outcomes = [_code(read.result) for read in reads]
    assert outcomes.count(ErrorCode.NONE) == 110
    assert outcomes.count(ErrorCode.UNKNOWN_SERVER_ERROR) == 40


def _code(ask: Callable[[], object]) -> ErrorCode:
    try:
        ask()
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_a_segment_that_goes_while_it_is_read_is_looked_for_again() -> None:
    tier = copied()
    tier.local.delete_records_before(tier.local.high_watermark)
    read = tier.manager.read(tier.local, 0, 100, upper_bound_offset=60, read_committed=False)
    assert _code(read.result) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_before_the_metadata_is_read_nothing_is_said() -> None:
    tier = copied()
    tier.crash()
    read = tier.manager.read(tier.local, 0, 100, upper_bound_offset=60, read_committed=False)
    with pytest.raises(ReplicaNotAvailable):
        read.result()


def test_an_offset_that_no_segment_has_is_out_of_range() -> None:
    tier = copied()
    read = tier.manager.read(
        tier.local, 10_000, 100, upper_bound_offset=20_000, read_committed=False
    )
    with pytest.raises(OffsetOutOfRange):
        read.result()


def test_offsets_are_found_by_time_in_the_remote_store() -> None:
    tier = Tier()
    tier.fill(20)
    tier.run(10)
    later = tier.scheduler.wall_ms()
    tier.fill(40)
    tier.run(5)
    tier.delete_local()
    found = tier.wait_for(tier.manager.offset_for_timestamp(tier.local, later, 0))
    assert found is not None
    assert found.offset == 20
    none = tier.wait_for(tier.manager.offset_for_timestamp(tier.local, later + 10**9, 0))
    assert none is None


@pytest.mark.parametrize("marker_is_local", [False, True])
def test_aborted_transactions_are_told_wherever_their_marker_is(*, marker_is_local: bool) -> None:
    tier = Tier()
    log = tier.local
    open_batch = logs.batch(
        [b"undecided"], producer_id=7, producer_epoch=0, sequence=0, transactional=True
    )
    tier.fill(5)
    logs.append_batch(log, open_batch)
    tier.fill(25)
    if marker_is_local:
        log.roll(logs.NOW)
    cleaning.end_transaction(log, 7, 0, commit=False)
    if not marker_is_local:
        tier.fill(30)
        log.roll(logs.NOW)
    log.set_high_watermark(log.log_end_offset)
    tier.run(5)
    tier.delete_local()
    assert log.local_log_start_offset > 20
    upper = log.last_stable_offset
    for offset, expected in ((0, [(7, 5)]), (5, [(7, 5)])):
        read = tier.manager.read(log, offset, 1000, upper_bound_offset=upper, read_committed=True)
        assert tier.wait_for(read).aborted == expected
    plain = tier.manager.read(log, 0, 1000, upper_bound_offset=upper, read_committed=False)
    assert tier.wait_for(plain).aborted == []


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    tier = copied()
    tier.exists = False
    tier.manager.deleted(OWNER)
    tier.run(5)
    assert tier.store.objects == {}
    data = tier.topic.fetch(REMOTE_LOG_METADATA, INDEX, 0, 1 << 20).result().records
    values = [decode(record.value or b"") for record in logs.records_of(data)]
    states = [record.state for record in values if isinstance(record, PartitionDeletion)]
    assert [state.name for state in states] == [
        "DELETE_PARTITION_MARKED",
        "DELETE_PARTITION_STARTED",
        "DELETE_PARTITION_FINISHED",
    ]


def test_the_deletion_of_a_topic_that_was_never_copied_writes_nothing() -> None:
    tier = Tier(remote_log_copy_disable="true")
    tier.run(2)
    tier.exists = False
    tier.manager.deleted(OWNER)
    tier.run(5)
    assert tier.topic.fetch(REMOTE_LOG_METADATA, INDEX, 0, 1).result().high_watermark == 0


def test_only_the_leader_of_what_tells_of_a_deleted_topic_empties_the_store() -> None:
    tier = copied()
    tier.metadata.resigned(INDEX)
    tier.exists = False
    tier.manager.deleted(OWNER)
    tier.run(5)
    assert tier.store.objects != {}
    tier.metadata.elected(INDEX)
    tier.run((GONE_LOOKS + 1) * GONE_SECONDS)
    assert tier.store.objects == {}


def test_disabling_empties_the_store_and_the_log_begins_on_this_disk() -> None:
    tier = copied()
    tier.configure(remote_storage_enable="false")
    tier.manager.disabled(OWNER, 0)
    assert tier.local.log_start_offset == tier.local.local_log_start_offset > 40
    tier.run(5)
    assert tier.store.objects == {}
    tier.configure()
    tier.manager.lead(OWNER)
    tier.fill(30)
    tier.run(5)
    tier.delete_local()
    tier.check()
    assert len(tier.remote.segments) > 0


def test_a_follower_only_takes_note_of_what_is_copied() -> None:
    tier = copied()
    tier.manager.follow(OWNER)
    tier.local.set_highest_remote_offset(-1)
    objects = dict(tier.store.objects)
    tier.fill(30)
    tier.run(5)
    assert tier.store.objects == objects
    assert tier.local.highest_remote_offset > 40


def test_what_is_done_is_counted_by_kafkas_names() -> None:
    tier = copied()
    tier.check()
    bean = "kafka.server:type=BrokerTopicMetrics,name="
    copied_bytes = tier.registry.get(parse_name(f"{bean}RemoteCopyBytesPerSec,topic=topic"))
    assert copied_bytes is not None
    assert copied_bytes.count == tier.remote.size()  # type: ignore[union-attr]
    assert parse_name(f"{bean}RemoteFetchBytesPerSec") in tier.registry.names()
    lag = tier.registry.get(parse_name(f"{bean}RemoteCopyLagSegments,topic=topic"))
    assert lag is not None
    assert lag.read() == 0  # type: ignore[union-attr]
    tier.wait_for(tier.manager.stop(OWNER))
    assert not any("topic=" in str(name) for name in tier.registry.names())


def test_closing_ends_what_is_under_way() -> None:
    tier = Tier()
    tier.fill(60)
    tier.run(1.0)
    tier.wait_for(tier.manager.close())
    steps = tier.scheduler.steps
    tier.run(100)
    assert tier.scheduler.steps <= steps + 1


def test_a_store_that_hangs_does_not_keep_a_broker_from_stopping() -> None:
    """The logs are closed after it: else the next start would have to recover all of them."""
    tier = Tier()
    tier.hangs = True
    tier.fill(60)
    tier.run(5.0)
    began = tier.scheduler.now
    tier.wait_for(tier.manager.close())
    assert STOP_SECONDS <= tier.scheduler.now - began < STOP_SECONDS + 1
    assert tier.unanswered
    for asked in tier.unanswered:
        asked.fail(RemoteStoreError("it answers at last"))
    tier.run(5.0)


# Crashes


def _work(tier: Tier) -> None:
    """Copy, delete here, expire, copy again."""
    tier.fill(40)
    tier.run(3)
    tier.delete_local()
    tier.run(45)
    tier.fill(30)
    tier.run(20)
    tier.delete_local()


def _crashing(tier: Tier, arm: Callable[[Tier], None]) -> bool:
    """Work until the crash, live on; whether there was one."""
    arm(tier)
    crashed = False
    try:
        _work(tier)
    except PowerLost:
        crashed = True
    tier.crash()
    tier.run(5)
    tier.check()
    tier.run(60)
    tier.delete_local()
    tier.check()
    return crashed


def _crash_at_file_change(number: int) -> Callable[[Tier], None]:
    return lambda tier: tier.files.stop_after(number)


def _crash_at_store_operation(number: int) -> Callable[[Tier], None]:
    def arm(tier: Tier) -> None:
        begin = tier.store.operations

        def fail(_operation: str, _key: str) -> RemoteStoreError | None:
            if tier.store.operations - begin > number:
                raise PowerLost
            return None

        tier.store.fail = fail

    return arm


@pytest.mark.parametrize("at", [_crash_at_file_change, _crash_at_store_operation])
def test_a_crash_at_any_operation_loses_nothing_and_leaves_nothing(
    at: Callable[[int], Callable[[Tier], None]],
) -> None:
    number = 0
    while _crashing(Tier(retention_ms=50_000, local_retention_ms=1), at(number)):
        number += 1
    assert number > 50


def test_a_topic_that_was_deleted_before_a_crash_is_emptied_after_it() -> None:
    number = 0
    while True:
        tier = copied()
        begin = tier.store.operations

        def fail(
            _operation: str, _key: str, tier: Tier = tier, begin: int = begin, last: int = number
        ) -> RemoteStoreError | None:
            if tier.store.operations - begin > last:
                raise PowerLost
            return None

        tier.store.fail = fail
        tier.exists = False
        tier.manager.deleted(OWNER)
        try:
            tier.run(10)
        except PowerLost:
            number += 1
        else:
            break
        tier.crash()
        tier.run(10)
        assert tier.store.objects == {}
    assert number > 20


def test_copies_of_an_earlier_life_are_removed_not_finished() -> None:
    tier = Tier()
    tier.fill(60)
    _crash_at_store_operation(3)(tier)
    with pytest.raises(PowerLost):
        tier.run(5)
    first = tier.stored_ids()
    assert len(first) >= 1
    tier.crash()
    tier.run(5)
    assert not first & tier.stored_ids()
    states = {segment.state for segment in tier.remote.segments}
    assert states == {SegmentState.COPY_SEGMENT_FINISHED}


def test_a_tier_that_is_enabled_again_is_emptied_no_further() -> None:
    """The store was not to be had; another leads since then, and has copied anew."""
    tier = copied()
    old = next(iter(tier.remote.segments))
    tier.configure(remote_storage_enable="false")
    tier.store.fail = lambda operation, key: (
        RemoteStoreError(key) if operation == "delete" else None
    )
    tier.manager.disabled(OWNER, 0)
    tier.run(5)
    tier.manager.stop(OWNER)
    tier.configure()
    tier.manager.follow(OWNER)
    start = tier.local.log_start_offset
    new = old._replace(
        segment_id=bytes(16),
        start_offset=start,
        end_offset=start + 9,
        leader_epochs=(EpochStart(0, start),),
        state=SegmentState.COPY_SEGMENT_STARTED,
    )
    assert tier.wait_for(tier.metadata.write(new))
    assert tier.wait_for(tier.metadata.write(_update(new, SegmentState.COPY_SEGMENT_FINISHED)))
    tier.store.fail = lambda _operation, _key: None
    tier.run(120)
    assert tier.remote.find(lineage_of(tier.local), start) is not None
    tier.manager.lead(OWNER)
    tier.run(5)
    assert old.segment_id not in tier.stored_ids()


@pytest.mark.parametrize("state", [None, SegmentState.COPY_SEGMENT_FINISHED])
def test_who_was_replaced_and_does_not_know_it_removes_no_copy_of_its_successor(
    state: SegmentState | None,
) -> None:
    """It never hears that the topic has a tier again; its store was not to be had meanwhile."""
    tier = copied()
    first, *others = tier.remote.segments
    tier.configure(remote_storage_enable="false")
    tier.store.fail = lambda operation, key: (
        RemoteStoreError(key) if operation == "delete" else None
    )
    tier.manager.disabled(OWNER, 0)
    tier.run(5)
    new = first._replace(
        segment_id=bytes(16),
        custom_metadata=of_leader_epoch(1),
        state=SegmentState.COPY_SEGMENT_STARTED,
    )
    assert tier.wait_for(tier.metadata.write(new))
    if state is not None:
        assert tier.wait_for(tier.metadata.write(_update(new, state)))
    tier.store.fail = lambda _operation, _key: None
    tier.run(120)
    assert [each.segment_id for each in tier.remote.segments] == [new.segment_id]
    assert not tier.stored_ids() & {each.segment_id for each in (first, *others)}


def test_a_copy_tells_the_epoch_of_its_leader() -> None:
    assert {each.copied_in_epoch for each in copied().remote.segments} == {0}


def test_who_has_not_heard_the_latest_empties_no_disabled_tier() -> None:
    is_current = [False]
    tier = copied()
    tier.manager._is_current = lambda: is_current[0]
    known = {each.segment_id for each in tier.remote.segments}
    tier.configure(remote_storage_enable="false")
    tier.manager.disabled(OWNER, 0)
    tier.run(60)
    assert tier.stored_ids() == known
    is_current[0] = True
    tier.run(120)
    assert tier.stored_ids() == set()


def test_a_leader_that_was_replaced_expires_no_copy_of_its_successor() -> None:
    """Its settings may be old: it would remove what is to stay by now."""
    tier = copied()
    newest = list(tier.remote.segments)[-1]
    new = newest._replace(
        segment_id=bytes(16),
        custom_metadata=of_leader_epoch(1),
        state=SegmentState.COPY_SEGMENT_STARTED,
    )
    assert tier.wait_for(tier.metadata.write(new))
    assert tier.wait_for(tier.metadata.write(_update(new, SegmentState.COPY_SEGMENT_FINISHED)))
    for key, data in list(tier.store.objects.items()):
        if key.startswith(segment_prefix(newest)):
            tier.store.objects[key.replace(segment_prefix(newest), segment_prefix(new))] = data
    tier.configure(retention_bytes="1")
    tier.run(120)
    assert new.segment_id in [each.segment_id for each in tier.remote.segments]
    assert tier.stored_ids() == {new.segment_id}


def test_a_copy_that_is_stopped_when_all_is_uploaded_is_not_finished() -> None:
    """Another leader may copy the same by now."""
    tier = Tier()
    tier.fill(60)

    def stop(operation: str, key: str) -> None:
        if operation == "put" and key.endswith(MANIFEST_SUFFIX):
            tier.manager.stop(OWNER)

    tier.store.fail = stop
    tier.run(5)
    assert list(tier.remote.segments) == []
    assert tier.store.objects == {}
    assert tier.remote.segments.highest_offset_for_epoch(0) is None, "it never counted"


def test_what_another_leader_has_removed_moves_the_log_start() -> None:
    """It decided so before it was replaced, and told of it when we had begun already."""
    tier = copied()
    first = next(iter(tier.remote.segments))
    for state in (SegmentState.DELETE_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_FINISHED):
        assert tier.wait_for(tier.metadata.write(_update(first, state)))
    tier.run(5)
    assert tier.local.log_start_offset == first.end_offset + 1
    assert tier.read_all()


def _update(segment: RemoteLogSegment, state: SegmentState) -> SegmentUpdate:
    return SegmentUpdate(OWNER, segment.segment_id, state, 6_000, 2)
