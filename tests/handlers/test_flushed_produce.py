"""Produce with ``flush.messages``: what may happen between an append and the end of its flush."""

import pytest
from tests.handlers.broker import Broker
from tests.handlers.test_flushed_produce_properties import OTHER, FlushedProduce, Sent
from tests.replication.states import lead

from ottla.common.errors import ErrorCode

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class World(FlushedProduce):
    """The world of the properties, taken by hand; every second record of a partition is flushed."""

    def unflushed(self, *indexes: int, acks: int = -1) -> Sent:
        """A request that waits for a flush of its first partition, and has no follower yet."""
        Sent(self.broker, {indexes[0]: b"first"}, 1)
        sent = Sent(self.broker, dict.fromkeys(indexes, b"second"), acks)
        assert sent.outcomes() is None
        assert len(self.flushes) == 1
        return sent

    def lead(self, leader: int, epoch: int, index: int = 0) -> None:
        lead(self.broker.partition("t", index), leader, epoch, (1, OTHER))

    def high_watermark(self, index: int = 0) -> int:
        return self.broker.log_of("t", index).high_watermark


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_flush_that_ends_when_another_leads_acknowledges_nothing(world: World, acks: int) -> None:
    sent = world.unflushed(0, acks=acks)
    world.lead(OTHER, 1)
    world.a_flush_ends(0)
    assert sent.outcomes() == [(0, NOT_LEADER, 1)]
    assert world.high_watermark() == 0


def test_other_records_at_the_same_offsets_release_nobody(world: World) -> None:
    sent = world.unflushed(0)
    world.lead(OTHER, 1)
    world.the_other_writes(0)
    world.the_other_writes(0)
    world.the_follower_fetches(0, 2)
    world.lead(1, 2)
    world.the_follower_fetches(0, 0)
    assert world.high_watermark() == 0, "they are not on disk either"
    world.a_flush_ends(0)
    assert world.high_watermark() == 2
    assert sent.outcomes() == [(0, NOT_LEADER, 1)]


def test_a_partition_without_a_flush_is_told_of_its_leader_at_once(world: World) -> None:
    """Its request waits for the flush of another one meanwhile."""
    sent = world.unflushed(0, 1)
    world.lead(OTHER, 1, index=1)
    world.the_other_writes(1)
    world.the_follower_fetches(1, 1)
    world.lead(1, 2, index=1)
    world.the_follower_fetches(1, 0)
    world.a_flush_ends(1)
    assert world.high_watermark(1) == 1
    world.the_follower_fetches(0, 2)
    world.the_follower_fetches(0, 0)
    world.a_flush_ends(0)
    assert sent.outcomes() == [(0, 0, 1), (1, NOT_LEADER, 0)]


def test_a_new_epoch_of_the_same_leader_changes_nothing(world: World) -> None:
    sent = world.unflushed(0)
    world.lead(1, 1)
    world.a_flush_ends(0)
    assert sent.outcomes() is None
    world.the_follower_fetches(0, 2)
    world.the_follower_fetches(0, 0)
    assert sent.outcomes() == [(0, 0, 1)]


def test_a_disk_that_hangs_keeps_a_request_no_longer_than_its_time(world: World) -> None:
    sent = world.unflushed(0, acks=1)
    world.broker.scheduler.run_for(29)
    assert sent.outcomes() is None
    world.broker.scheduler.run_for(2)
    assert sent.outcomes() == [(0, ErrorCode.REQUEST_TIMED_OUT, 1)]
    world.a_flush_ends(0)


def test_followers_have_the_time_that_the_producer_gives_them(world: World) -> None:
    sent = world.unflushed(0)
    world.broker.scheduler.run_for(20)
    world.a_flush_ends(0)
    world.broker.scheduler.run_for(0.9)
    assert sent.outcomes() is None
    world.broker.scheduler.run_for(0.2)
    assert sent.outcomes() == [(0, ErrorCode.REQUEST_TIMED_OUT, 1)]


def test_records_that_nobody_is_told_of_count_when_they_are_on_disk() -> None:
    broker = Broker({"log.flush.interval.messages": "1"})
    broker.add_topic("t")
    world = World()
    world.broker, broker.replicas.outside.flush = broker, world._flush
    assert Sent(broker, {0: b"v"}, 0).answer is None
    assert broker.log_of("t").high_watermark == 0
    world.a_flush_ends(0)
    assert broker.log_of("t").high_watermark == 1
