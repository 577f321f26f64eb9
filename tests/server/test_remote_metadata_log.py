"""The metadata topic of the remote tier is written and read where it is led."""

from typing import Any

import pytest
from tests.handlers.broker import NODE_ID
from tests.handlers.groups import GroupBroker
from tests.server.brokers_asked import BrokersAsked

from ottla.common.errors import (
    ApiError,
    ErrorCode,
    LeaderNotAvailable,
    NetworkException,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.protocol.generated.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
)
from ottla.protocol.generated.fetch import PartitionData as FetchedData
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.server.remote_metadata_log import RemoteMetadataLog
from ottla.tiered.metadata_topic import MetadataSlice

BATCH = bytes(build_batch([Record(timestamp=1, value=b"v")]))


class World(GroupBroker):
    """The metadata topic has a partition led here, or one led by broker 2."""

    def __init__(self, leader: int, partitions: int = 2, **limits: int) -> None:
        super().__init__()
        self.metadata_id = self.add_topic(
            REMOTE_LOG_METADATA,
            partitions,
            replicas=(NODE_ID,) if leader == NODE_ID else (2,),
            leader=leader,
        )
        self.channel = BrokersAsked()
        self.log = RemoteMetadataLog(
            self.internal,
            self.metadata,
            self.channel,
            self.scheduler,
            node_id=NODE_ID,
            timeout_ms=1_000,
            **limits,
        )

    def fetch(self, partition: int = 0, offset: int = 0, epoch: int = -1) -> Promise[MetadataSlice]:
        return self.log.fetch(REMOTE_LOG_METADATA, partition, offset, 1000, epoch)

    def fetched(self, **partition: Any) -> FetchRequest:
        """Let the leader answer a fetch, of each partition the same."""
        self.scheduler.run_for(0)
        _, request, answer = self.channel.take(2)
        assert isinstance(request, FetchRequest)
        answer.fulfil(
            FetchResponse(
                responses=[
                    FetchableTopicResponse(
                        topic_id=topic.topic_id,
                        partitions=[
                            FetchedData(partition_index=each.partition, **partition)
                            for each in topic.partitions
                        ],
                    )
                    for topic in request.topics
                ]
            )
        )
        return request

    def listed(self, **partition: Any) -> ListOffsetsRequest:
        """Let the leader answer where a partition begins or ends."""
        _, request, answer = self.channel.take(2)
        assert isinstance(request, ListOffsetsRequest)
        listed = ListOffsetsPartitionResponse(partition_index=0, **partition)
        answer.fulfil(ListOffsetsResponse(topics=[ListOffsetsTopicResponse(partitions=[listed])]))
        return request


def test_what_is_led_here_is_written_and_read_here() -> None:
    world = World(leader=NODE_ID)
    assert world.log.append(REMOTE_LOG_METADATA, 0, BATCH).result() == 0
    found = world.fetch().result()
    assert (found.start_offset, found.high_watermark) == (0, 1)
    assert found.records[8:12] == BATCH[8:12]
    assert world.fetch(offset=1).result().records == b""
    assert not world.channel.asked


def test_what_is_led_elsewhere_is_fetched_from_there_together() -> None:
    world = World(leader=2)
    first, second = world.fetch(0), world.fetch(1, offset=7)
    request = world.fetched(records=BATCH, high_watermark=9, log_start_offset=0)
    assert [topic.topic_id for topic in request.topics] == [world.metadata_id]
    asked = [(each.partition, each.fetch_offset) for each in request.topics[0].partitions]
    assert asked == [(0, 0), (1, 7)]
    assert first.result() == second.result() == MetadataSlice(BATCH, 0, 9)


def test_what_is_led_elsewhere_is_produced_there_for_all_in_sync() -> None:
    world = World(leader=2)
    appended = world.log.append(REMOTE_LOG_METADATA, 1, BATCH)
    _, request, answer = world.channel.take(2)
    assert isinstance(request, ProduceRequest)
    assert request.acks == -1
    assert request.topic_data[0].partition_data[0].records == BATCH
    answer.fulfil(
        ProduceResponse(
            responses=[
                TopicProduceResponse(
                    partition_responses=[PartitionProduceResponse(index=1, base_offset=12)]
                )
            ]
        )
    )
    assert appended.result() == 12


def test_a_log_that_begins_later_says_where() -> None:
    world = World(leader=2)
    fetched = world.fetch()
    world.fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    world.listed(offset=40)
    assert fetched.result() == MetadataSlice(b"", 40, 41)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, NotLeaderOrFollower),
        (ErrorCode.UNKNOWN_TOPIC_ID, ApiError),
    ],
)
def test_a_refusal_may_be_asked_again(code: ErrorCode, error: type[ApiError]) -> None:
    world = World(leader=2)
    fetched = world.fetch()
    world.fetched(error_code=code)
    with pytest.raises(error):
        fetched.result()


def test_a_leader_that_is_away_is_told_as_the_network() -> None:
    world = World(leader=2)
    fetched, appended = world.fetch(), world.log.append(REMOTE_LOG_METADATA, 0, BATCH)
    world.scheduler.run_for(0)
    world.channel.cut(2)
    world.channel.cut(2)
    with pytest.raises(ApiError):
        fetched.result()
    with pytest.raises(NetworkException):
        appended.result()


def test_without_leader_or_topic_there_is_nothing_to_ask() -> None:
    world = World(leader=-1)
    with pytest.raises(LeaderNotAvailable):
        world.fetch().result()
    with pytest.raises(UnknownTopicOrPartition):
        world.log.fetch("other", 0, 0, 1, -1).result()


def test_no_fetch_asks_for_more_than_its_answer_may_have() -> None:
    """A partition behind the limit would get nothing, again and again."""
    world = World(leader=2, partitions=12, slice_bytes=1000, fetch_bytes_max=5000)
    fetched = [world.fetch(index) for index in range(12)]
    asked = []
    while not all(each.done for each in fetched):
        request = world.fetched(records=BATCH, high_watermark=9, log_start_offset=0)
        assert request.max_bytes == 5000
        asked.append([each.partition for each in request.topics[0].partitions])
    assert asked == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]


def test_a_reader_hears_when_the_log_does_not_have_what_it_has_read() -> None:
    world = World(leader=2)
    fetched = world.fetch(offset=9, epoch=3)
    diverging = EpochEndOffset(epoch=2, end_offset=4)
    request = world.fetched(diverging_epoch=diverging, high_watermark=5, log_start_offset=0)
    assert request.topics[0].partitions[0].last_fetched_epoch == 3
    assert fetched.result().is_diverged


def test_a_log_that_ends_earlier_has_lost_what_was_read() -> None:
    world = World(leader=2)
    fetched = world.fetch(offset=9)
    world.fetched(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    world.listed(offset=0)
    assert fetched.result().is_diverged


def test_what_is_led_here_tells_of_what_was_lost() -> None:
    world = World(leader=NODE_ID)
    assert world.log.append(REMOTE_LOG_METADATA, 0, BATCH).result() == 0
    assert world.log.end_offset(REMOTE_LOG_METADATA, 0).result() == 1
    assert not world.fetch(offset=1, epoch=0).result().is_diverged
    assert world.fetch(offset=2, epoch=0).result().is_diverged
    assert world.fetch(offset=1, epoch=7).result().is_diverged


def test_the_end_is_that_of_the_leader_and_of_its_epoch() -> None:
    world = World(leader=2)
    end = world.log.end_offset(REMOTE_LOG_METADATA, 1)
    request = world.listed(offset=42)
    asked = request.topics[0].partitions[0]
    assert (asked.partition_index, asked.timestamp) == (1, -1)
    assert asked.current_leader_epoch >= 0
    assert end.result() == 42
    refused = world.log.end_offset(REMOTE_LOG_METADATA, 1)
    world.listed(error_code=ErrorCode.OFFSET_NOT_AVAILABLE)
    with pytest.raises(ApiError, match="OFFSET_NOT_AVAILABLE"):
        refused.result()
