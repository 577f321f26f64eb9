"""``__remote_log_metadata`` as all brokers share it: each partition is written and read where it
is led, here or on another broker.

A broker reads as a consumer would, what is committed; so it need not know when leaders change, but
only whom to ask next. Questions to one broker travel together, as many as an answer has room for:
what comes last among more would get nothing.
"""

from functools import partial
from typing import Final, NamedTuple, TypeVar

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    LeaderNotAvailable,
    NetworkException,
    NotLeaderOrFollower,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise, run
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.message import Request, Response
from ottla.records.batch import read_header
from ottla.requests.context import MetadataSource
from ottla.server.broker_batches import BrokerBatches, Channel
from ottla.server.internal_topics import InternalTopics
from ottla.tiered.metadata_topic import SLICE_BYTES, MetadataSlice

R = TypeVar("R", bound=Response)

_ALL_IN_SYNC: Final = -1
_EARLIEST: Final = -2
_LATEST: Final = -1
_CONSUMER: Final = -1
FETCH_BYTES_MAX: Final = 8 << 20


class _Question(NamedTuple):
    topic: TopicImage
    partition: int
    offset: int
    max_bytes: int
    epoch: int
    answer: Promise[PartitionData]


class RemoteMetadataLog:
    def __init__(
        self,
        internal: InternalTopics,
        metadata: MetadataSource,
        channel: Channel,
        scheduler: Scheduler,
        *,
        node_id: int,
        timeout_ms: int,
        slice_bytes: int = SLICE_BYTES,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
    ) -> None:
        self._internal = internal
        self._turn = scheduler.turn
        self._metadata = metadata
        self._channel = channel
        self._node_id = node_id
        self._timeout_ms = timeout_ms
        self._fetches = BrokerBatches[_Question, FetchResponse](
            channel,
            scheduler,
            key=lambda question: (question.topic.topic_id, question.partition),
            make=partial(_fetch_request, fetch_bytes_max),
            answered=_fetched,
            request_max=max(1, fetch_bytes_max // slice_bytes),
        )

    def partition_count(self, topic: str) -> int | None:
        return self._internal.partition_count(topic)

    # Writing

    def append(self, topic: str, partition: int, batch: bytes) -> Promise[int]:
        return run(self._turn, self._append(topic, partition, batch))

    async def _append(self, topic: str, partition: int, batch: bytes) -> int:
        leader, image = self._leader(topic, partition)
        if leader == self._node_id:
            return await self._internal.append(topic, partition, batch)
        data = PartitionProduceData(index=partition, records=batch)
        response = await self._ask(
            leader,
            ProduceRequest(
                acks=_ALL_IN_SYNC,
                timeout_ms=self._timeout_ms,
                topic_data=[
                    TopicProduceData(name=topic, topic_id=image.topic_id, partition_data=[data])
                ],
            ),
        )
        for produced in response.responses:
            for each in produced.partition_responses:
                if each.error_code:
                    raise _refusal(each.error_code)
                return each.base_offset + read_header(batch).last_offset_delta
        raise NetworkException

    # Reading

    def fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int
    ) -> Promise[MetadataSlice]:
        return run(self._turn, self._fetch(topic, partition, offset, max_bytes, epoch))

    async def _fetch(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int
    ) -> MetadataSlice:
        leader, image = self._leader(topic, partition)
        if leader == self._node_id:
            return self._read(topic, partition, offset, max_bytes, epoch)
        question = _Question(image, partition, offset, max_bytes, epoch, Promise(self._turn))
        self._fetches.ask(leader, question)
        found = await question.answer
        if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start_offset = await self._offset(leader, topic, partition, _EARLIEST)
            is_diverged = start_offset <= offset  # so the end was the reason
            return MetadataSlice(b"", start_offset, start_offset + 1, is_diverged)
        if found.error_code:
            raise _refusal(found.error_code)
        return MetadataSlice(
            bytes(found.records or b""),
            max(found.log_start_offset, 0),
            found.high_watermark,
            is_diverged=found.diverging_epoch.end_offset >= 0,
        )

    def _read(
        self, topic: str, partition: int, offset: int, max_bytes: int, epoch: int
    ) -> MetadataSlice:
        start_offset = self._internal.log_start_offset(topic, partition)
        high_watermark = self._internal.high_watermark(topic, partition)
        if self._internal.diverges(topic, partition, offset, epoch):
            return MetadataSlice(b"", start_offset, high_watermark, is_diverged=True)
        records = b""
        if start_offset <= offset < high_watermark:
            records = self._internal.read(topic, partition, offset, max_bytes)
        return MetadataSlice(records, start_offset, high_watermark)

    def end_offset(self, topic: str, partition: int) -> Promise[int]:
        return run(self._turn, self._end_offset(topic, partition))

    async def _end_offset(self, topic: str, partition: int) -> int:
        leader, _ = self._leader(topic, partition)
        if leader == self._node_id:
            return self._internal.committed_end(topic, partition)
        return await self._offset(leader, topic, partition, _LATEST)

    async def _offset(self, leader: int, topic: str, partition: int, timestamp: int) -> int:
        _, image = self._leader(topic, partition)
        asked = ListOffsetsPartition(
            partition_index=partition,
            current_leader_epoch=image.partitions[partition].leader_epoch,
            timestamp=timestamp,
        )
        response = await self._ask(
            leader,
            ListOffsetsRequest(
                replica_id=_CONSUMER, topics=[ListOffsetsTopic(name=topic, partitions=[asked])]
            ),
        )
        for listed in response.topics:
            for each in listed.partitions:
                if each.error_code:
                    raise _refusal(each.error_code)
                return each.offset
        raise NetworkException

    # The leader

    def _leader(self, topic: str, partition: int) -> tuple[int, TopicImage]:
        image = self._metadata.image.topics.by_name.get(topic)
        state = None if image is None else image.partitions.get(partition)
        if image is None or state is None:
            raise UnknownTopicOrPartition
        if state.leader < 0:
            raise LeaderNotAvailable
        return state.leader, image

    async def _ask(self, node_id: int, request: Request[R]) -> R:
        try:
            return await self._channel.send(node_id, request)
        except (OSError, ValueError) as error:
            raise NetworkException(str(error)) from error


def _fetch_request(bytes_max: int, questions: list[_Question]) -> FetchRequest:
    topics: dict[bytes, FetchTopic] = {}
    for topic, partition, offset, max_bytes, epoch, _ in questions:
        asked = topics.setdefault(
            topic.topic_id, FetchTopic(topic=topic.name, topic_id=topic.topic_id)
        )
        asked.partitions.append(
            FetchPartition(
                partition=partition,
                current_leader_epoch=topic.partitions[partition].leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                partition_max_bytes=max_bytes,
            )
        )
    return FetchRequest(max_bytes=bytes_max, topics=list(topics.values()))


def _fetched(questions: list[_Question], response: FetchResponse | None) -> None:
    """All questions are about one topic, or about two of its lives: the partition tells them."""
    found: dict[tuple[bytes | str, int], PartitionData] = {}
    code: int = ErrorCode.NETWORK_EXCEPTION
    if response is not None:
        code = response.error_code or code
        for topic in response.responses:
            for each in topic.partitions:
                found[topic.topic_id, each.partition_index] = each
                found[topic.topic, each.partition_index] = each
    for question in questions:
        data = found.get((question.topic.topic_id, question.partition)) or found.get(
            (question.topic.name, question.partition)
        )
        question.answer.fulfil(
            PartitionData(partition_index=question.partition, error_code=code)
            if data is None
            else data
        )


def _refusal(code: int) -> ApiError:
    """Whatever it is, it may be over when somebody asks again."""
    if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return NotLeaderOrFollower()
    return ApiError(f"the leader of the metadata partition says {ErrorCode(code).name}")
