"""Fetch sessions: what is remembered, what is told again, and who makes room (KIP-227)."""

import pytest

from ottla.common.chance import Chance
from ottla.common.errors import (
    ApiError,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ottla.protocol.fetch_response import FetchedPartition
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from ottla.replication.fetch_sessions import FetchContext, FetchedFrom, FetchSessions

EVICTION_MS = 120_000


def sessions(slots: int = 10) -> FetchSessions:
    return FetchSessions(slots=slots, eviction_ms=EVICTION_MS, chance=Chance(7))


def request(
    session_id: int = 0,
    epoch: int = 0,
    offsets: dict[tuple[str, int], int] | None = None,
    forgotten: dict[str, list[int]] | None = None,
) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(
                topic=topic,
                partitions=[
                    FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=100)
                ],
            )
            for (topic, index), offset in (offsets or {}).items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic=topic, partitions=indexes)
            for topic, indexes in (forgotten or {}).items()
        ],
    )


def begun(cache: FetchSessions, count: int = 1, now: float = 0.0, topic: str = "t") -> FetchContext:
    offsets = {(topic, index): 0 for index in range(count)}
    return cache.open(request(offsets=offsets), uses_topic_ids=False, now=now)


def offsets_of(context: FetchContext) -> dict[tuple[str | bytes, int], int]:
    return {(each.topic, each.partition): each.offset for each in context.partitions}


def test_a_full_request_begins_a_session_and_an_empty_one_goes_on_with_what_it_asked() -> None:
    cache = sessions()
    first = begun(cache, 2)
    assert first.session_id > 0
    assert not first.incremental
    second = cache.open(request(first.session_id, 1), uses_topic_ids=False, now=1.0)
    assert second.incremental
    assert offsets_of(second) == {("t", 0): 0, ("t", 1): 0}


def test_a_request_changes_adds_and_forgets_partitions() -> None:
    cache = sessions()
    session_id = begun(cache, 2).session_id
    changed = cache.open(
        request(session_id, 1, {("t", 0): 7, ("u", 3): 1}, {"t": [1], "nobody": [5]}),
        uses_topic_ids=False,
        now=1.0,
    )
    assert offsets_of(changed) == {("t", 0): 7, ("u", 3): 1}


def test_the_last_epoch_ends_the_session_and_fetches_without_one() -> None:
    cache = sessions()
    session_id = begun(cache).session_id
    last = cache.open(request(session_id, -1, {("t", 0): 5}), uses_topic_ids=False, now=1.0)
    assert last.session_id == 0
    assert offsets_of(last) == {("t", 0): 5}
    assert len(cache) == 0


def test_a_client_that_begins_anew_loses_its_old_session() -> None:
    cache = sessions()
    old = begun(cache).session_id
    new = cache.open(request(old, 0, {("t", 0): 0}), uses_topic_ids=False, now=1.0)
    assert new.session_id not in (0, old)
    assert len(cache) == 1


def test_a_session_may_be_begun_with_nothing_in_it() -> None:
    cache = sessions()
    assert cache.open(request(), uses_topic_ids=False, now=0.0).session_id > 0


def test_a_session_of_which_nothing_is_left_ends() -> None:
    cache = sessions()
    session_id = begun(cache).session_id
    emptied = cache.open(
        request(session_id, 1, forgotten={"t": [0]}), uses_topic_ids=False, now=1.0
    )
    assert emptied.session_id == 0
    assert emptied.partitions == []
    assert len(cache) == 0


@pytest.mark.parametrize("epoch", [2, 5, -2])
def test_another_epoch_than_the_next_is_refused_and_changes_nothing(epoch: int) -> None:
    cache = sessions()
    session_id = begun(cache).session_id
    with pytest.raises(InvalidFetchSessionEpoch):
        cache.open(request(session_id, epoch, {("u", 0): 0}), uses_topic_ids=False, now=1.0)
    next_one = cache.open(request(session_id, 1), uses_topic_ids=False, now=1.0)
    assert offsets_of(next_one) == {("t", 0): 0}


def test_an_unknown_session_is_refused() -> None:
    with pytest.raises(FetchSessionIdNotFound):
        sessions().open(request(12345, 1), uses_topic_ids=False, now=0.0)


def test_names_and_topic_ids_do_not_mix_in_a_session() -> None:
    cache = sessions()
    session_id = begun(cache).session_id
    with pytest.raises(FetchSessionTopicIdError):
        cache.open(request(session_id, 1), uses_topic_ids=True, now=1.0)


def test_after_the_highest_epoch_comes_one() -> None:
    cache = sessions()
    context = begun(cache)
    assert context.session is not None
    context.session.epoch = 0x7FFFFFFF
    cache.open(request(context.session_id, 0x7FFFFFFF), uses_topic_ids=False, now=1.0)
    assert context.session.epoch == 1


# What an answer must speak of


def fetched(
    high_watermark: int = 5, log_start_offset: int = 0, records: bytes = b"", error: int = 0
) -> FetchedPartition:
    return FetchedPartition(0, error, high_watermark, high_watermark, log_start_offset, records)


def seen(high_watermark: int = 5) -> FetchedFrom:
    partition = FetchedFrom("t", 0)
    assert partition.has_news(fetched(high_watermark))
    return partition


def test_what_was_told_is_not_told_again() -> None:
    assert not seen().has_news(fetched())


@pytest.mark.parametrize(
    "change",
    [fetched(high_watermark=6), fetched(log_start_offset=1), fetched(records=b"batch")],
    ids=["high watermark", "log start offset", "records"],
)
def test_news_is_told(change: FetchedPartition) -> None:
    assert seen().has_news(change)


def test_an_error_is_told_each_time_and_its_end_as_well() -> None:
    partition = seen()
    error = FetchedPartition(0, 3)
    assert partition.has_news(error)
    assert partition.has_news(error)
    assert partition.has_news(fetched())
    assert not partition.has_news(fetched())


def test_another_replica_to_read_from_and_a_diverging_epoch_are_told() -> None:
    elsewhere, diverged = fetched(), fetched()
    elsewhere.preferred_read_replica = 2
    diverged.diverging_epoch = (1, 3)
    assert seen().has_news(elsewhere)
    assert seen().has_news(diverged)


def test_a_partition_that_was_served_goes_behind_the_others() -> None:
    cache = sessions()
    context = begun(cache, 3)
    assert context.session is not None
    context.session.move_to_end(context.partitions[0])
    again = cache.open(request(context.session_id, 1), uses_topic_ids=False, now=1.0)
    assert [each.partition for each in again.partitions] == [1, 2, 0]


def test_a_partition_that_was_forgotten_meanwhile_does_not_come_back() -> None:
    cache = sessions()
    context = begun(cache, 2)
    assert context.session is not None
    served = context.partitions[0]
    cache.open(request(context.session_id, 1, forgotten={"t": [0]}), uses_topic_ids=False, now=1.0)
    context.session.move_to_end(served)
    assert list(context.session.partitions) == [("t", 1)]


# Who makes room


def exists(cache: FetchSessions, context: FetchContext, epoch: int = 1) -> bool:
    try:
        cache.open(request(context.session_id, epoch), uses_topic_ids=False, now=0.0)
    except ApiError:
        return False
    return True


def test_without_room_a_client_is_served_without_a_session() -> None:
    cache = sessions(slots=1)
    first = begun(cache)
    second = begun(cache, 5)
    assert second.session_id == 0
    assert len(second.partitions) == 5
    assert exists(cache, first)


def test_no_slots_no_sessions() -> None:
    assert begun(sessions(slots=0)).session_id == 0


def test_a_session_that_was_long_unused_makes_room() -> None:
    cache = sessions(slots=2)
    idle, used = begun(cache, 9), begun(cache, 9)
    cache.open(request(used.session_id, 1), uses_topic_ids=False, now=100.0)
    new = begun(cache, 1, now=121.0)
    assert new.session_id > 0
    assert not exists(cache, idle)
    assert exists(cache, used, epoch=2)
    assert cache.evictions == 1


def test_a_settled_session_makes_room_for_a_larger_one_the_smallest_first() -> None:
    cache = sessions(slots=3)
    large, small = begun(cache, 5), begun(cache, 2)
    for epoch, context in ((1, large), (1, small)):
        cache.open(request(context.session_id, epoch), uses_topic_ids=False, now=100.0)
    young = begun(cache, 1, now=110.0)
    assert begun(cache, 2, now=121.0).session_id == 0  # not larger than the smallest settled one
    assert begun(cache, 3, now=121.0).session_id > 0
    assert not exists(cache, small, epoch=2)
    assert exists(cache, large, epoch=2)
    assert exists(cache, young)


def followed(cache: FetchSessions, count: int, now: float) -> FetchContext:
    asked = request(offsets={("t", index): 0 for index in range(count)})
    asked.replica_state.replica_id = 2
    return cache.open(asked, uses_topic_ids=False, now=now)


def test_a_follower_takes_the_place_of_a_consumer_however_young_and_large_that_is() -> None:
    cache = sessions(slots=2)
    large, small = begun(cache, 9), begun(cache, 8)
    follower = followed(cache, 1, now=1.0)
    assert follower.session_id > 0
    assert not exists(cache, small)
    assert exists(cache, large)


def test_a_follower_gives_way_only_to_another_one() -> None:
    cache = sessions(slots=1)
    first = followed(cache, 1, now=0.0)
    assert followed(cache, 2, now=1.0).session_id == 0, "the first is young"
    cache.open(request(first.session_id, 1), uses_topic_ids=False, now=100.0)
    assert begun(cache, 9, now=121.0).session_id == 0
    assert followed(cache, 2, now=121.0).session_id > 0
