"""What driver and executors ask of brokers: topics, offsets, groups, and raw records.

Connections are kept for the life of the process: Spark uses its workers again from micro-batch to
micro-batch, so that a range costs one round trip and no connect. Records stay the bytes that came;
nothing is done for each of them.
"""

import atexit
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from ottla.client.admin import Admin
from ottla.client.connection import Connection, FrameRoom
from ottla.client.errors import BrokerUnavailable, refusal
from ottla.client.groups import CommittedOffset, alter_group_offsets, group_offsets
from ottla.client.metadata import TopicMetadata
from ottla.client.offsets import EARLIEST_LOCAL, LATEST, READ_COMMITTED, list_offsets
from ottla.client.remote_segments import RemoteSegments
from ottla.client.system_time import Deadline
from ottla.common.errors import (
    RETRIABLE,
    ApiError,
    ErrorCode,
    ProtocolViolation,
    UnknownTopicId,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.fetch_answer import TOPIC_IDS, FetchedRecords, read_fetch_answer
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.spark.codec.decoding import AbortedTransaction
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.offsets import Offsets

Refused = dict[TopicPartition, ApiError]
_BYTES_MAX: Final = 100 << 20
"""Of one answer, below what a connection takes at most."""
_LOOKS: Final = 4
"""How often a topic must not be there before it is gone: a broker may not have heard of it yet."""


class Fetched(NamedTuple):
    """What a fetch brought; ``records`` are overwritten by the next fetch."""

    records: memoryview
    aborted: list[AbortedTransaction] | None
    """None for a reader of everything."""
    end: int
    """The end of what can be read: high watermark, or last stable offset."""
    log_start: int


class BrokerReads:
    """A blocking client of one cluster. Not safe for several threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._admin = Admin(
            settings.bootstrap_servers,
            client_id=settings.client_id,
            timing=settings.timing,
            security=settings.security,
        )
        self.cluster = self._admin.cluster
        self._consumer = settings.consumer(fetch_wait_ms=100)
        self.remote_segments = RemoteSegments(
            self._consumer, timeout_ms=settings.timing.call_timeout_ms
        )
        self.room = FrameRoom()

    def close(self) -> None:
        self._admin.close()
        self._consumer.close()

    def topics(self, names: Iterable[str] | None) -> dict[str, TopicMetadata]:
        """Those of ``names`` that exist, or all for None, as they are now."""
        wanted = None if names is None else sorted(set(names))
        known = self.cluster.refresh(wanted).topics
        return {
            name: topic
            for name, topic in sorted(known.items())
            if topic.exists and (wanted is None or name in wanted)
        }

    def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> tuple[Offsets, Refused]:
        """Offsets at times, EARLIEST or LATEST; -1 where no record is that late."""
        if not wanted:
            return {}, {}
        listed, refused = list_offsets(
            self.cluster, wanted, isolation_level=self.settings.isolation_level
        )
        return {partition: each.offset for partition, each in listed.items()}, refused

    def committed(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        return group_offsets(self.cluster, group)

    def commit(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        alter_group_offsets(self.cluster, group, offsets)

    def log_dirs(self) -> dict[int, list[str]]:
        """The log directories of each broker."""
        described = self._admin.describe_log_dirs(partitions=())
        return {node_id: [each.path for each in dirs] for node_id, dirs in described.items()}

    def record_sizes(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """Bytes for each offset on the average of a partition, where its leader tells its size."""
        sizes: dict[TopicPartition, int] = {}
        with suppress(ApiError, OSError):
            described = self._admin.describe_log_dirs(partitions=partitions)
            for node_id, directories in described.items():
                for directory in directories:
                    for replica in directory.replicas:
                        partition = TopicPartition(replica.topic, replica.partition)
                        leads = self.cluster.metadata.leader(partition) == node_id
                        if leads and not replica.is_future:
                            sizes[partition] = replica.size
        begins, _ = self.list_offsets(dict.fromkeys(sizes, EARLIEST_LOCAL))
        ends, _ = self.list_offsets(dict.fromkeys(sizes, LATEST))
        return {
            each: sizes[each] / (ends[each] - begin)
            for each, begin in begins.items()
            if ends.get(each, begin) > begin and sizes[each]
        }

    def fetching(self, partition: TopicPartition, topic_id: bytes) -> "PartitionFetch":
        return PartitionFetch(self, partition, topic_id)


class PartitionFetch:
    """Fetches of one partition, one on its way at most; by topic id, never of a namesake."""

    def __init__(self, reads: BrokerReads, partition: TopicPartition, topic_id: bytes) -> None:
        self._reads = reads
        self._cluster = reads.cluster
        self._settings = reads.settings
        self._partition = partition
        self._topic_id = topic_id
        self._sent: tuple[Connection, int] | None = None
        """The connection that owes an answer, and the offset that was asked for."""

    def close(self) -> None:
        """Part with an answer that nobody reads: the next reader would take it for its own."""
        if self._sent is not None:
            self._sent[0].close()
            self._sent = None

    def ask(self, offset: int, deadline: Deadline | None = None) -> None:
        """Send a fetch, whose answer :meth:`fetch` will take; trouble shows there."""
        assert self._sent is None
        deadline = deadline or self._cluster.deadline()
        with suppress(OSError, ApiError):
            self._send(offset, deadline)

    def fetch(self, offset: int) -> Fetched:
        """What stands at ``offset`` and behind it, from the leader that there is by now.

        OffsetOutOfRange when it is not there, UnknownTopicId when the topic is not.
        """
        deadline = self._cluster.deadline()
        attempt = 0
        while True:
            error: ApiError | OSError
            try:
                if self._sent is None or self._sent[1] != offset:
                    self.close()
                    self._send(offset, deadline)
                return self._checked(self._receive())
            except (OSError, ApiError) as refused:
                if isinstance(refused, ApiError) and refused.code not in RETRIABLE:
                    raise
                error = refused
            attempt += 1
            self._refresh(deadline, last=attempt >= _LOOKS)
            if deadline.passed:
                raise error
            if attempt > 1:
                self._cluster.pause(attempt, deadline)

    def _refresh(self, deadline: Deadline, *, last: bool) -> None:
        """Look for the leader anew, and at ``last`` whether the topic is still the same."""
        topic = self._partition.topic
        known = self._cluster.refresh([topic], deadline=deadline).topics.get(topic)
        gone = known is None or known.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        anew = known is not None and known.exists and known.topic_id != self._topic_id
        if last and (gone or anew):
            raise UnknownTopicId(f"topic {topic} was deleted" + ("" if gone else " and made anew"))

    def _send(self, offset: int, deadline: Deadline) -> None:
        topic, index = self._partition
        self._cluster.know([topic], deadline)
        leader = self._cluster.metadata.leader(self._partition)
        if leader < 0:
            code = self._cluster.metadata.error(self._partition)
            raise refusal(code, f"{self._partition}: {code.name}")
        connection = self._cluster.connection(leader, deadline)
        if connection.in_flight:
            connection.close()  # a reader before us was ended before its answer came
            connection = self._cluster.connection(leader, deadline)
        version = connection.version(ApiKey.FETCH)
        if version < TOPIC_IDS:
            raise ApiError(f"{connection.address} is older than Kafka 3.1: it has no topic ids")
        settings = self._settings
        request = FetchRequest(
            max_wait_ms=settings.fetch_wait_ms,
            min_bytes=settings.fetch_bytes_min,
            max_bytes=min(settings.fetch_bytes_max, _BYTES_MAX),
            isolation_level=settings.isolation_level,
            topics=[
                FetchTopic(
                    topic_id=self._topic_id,
                    partitions=[
                        FetchPartition(
                            partition=index,
                            current_leader_epoch=self._leader_epoch(),
                            fetch_offset=offset,
                            partition_max_bytes=min(settings.partition_bytes_max, _BYTES_MAX),
                        )
                    ],
                )
            ],
        )
        connection.send(request, version, settings.timing.request_timeout_ms / 1000)
        self._sent = connection, offset

    def _leader_epoch(self) -> int:
        topic, index = self._partition
        return self._cluster.metadata.topics[topic].partitions[index].leader_epoch

    def _receive(self) -> FetchedRecords:
        assert self._sent is not None
        connection, self._sent = self._sent[0], None
        seconds = (self._settings.timing.request_timeout_ms + self._settings.fetch_wait_ms) / 1000
        try:
            raw = connection.receive_raw(ApiKey.FETCH, seconds, self._reads.room)
            answer = read_fetch_answer(raw.frame, raw.body, raw.sent.version)
        except ProtocolViolation as error:
            connection.close()
            raise BrokerUnavailable(str(error), []) from error
        if answer.error_code:
            raise refusal(answer.error_code)
        if len(answer.partitions) != 1 or answer.partitions[0].topic_id != self._topic_id:
            raise BrokerUnavailable(f"{connection.address} answered for another partition", [])
        return answer.partitions[0]

    def _checked(self, item: FetchedRecords) -> Fetched:
        if item.error_code:
            name = ErrorCode(item.error_code).name
            raise refusal(item.error_code, f"{self._partition}: {name}")
        if self._settings.isolation_level != READ_COMMITTED:
            return Fetched(item.records, None, item.high_watermark, item.log_start_offset)
        aborted = [AbortedTransaction(*each) for each in item.aborted]
        return Fetched(item.records, aborted, item.last_stable_offset, item.log_start_offset)


_connected: dict[tuple[int, KafkaSettings], BrokerReads] = {}


def connected(settings: KafkaSettings) -> BrokerReads:
    """The client of this process for a cluster; a forked child gets one of its own."""
    key = (os.getpid(), settings)
    if key not in _connected:
        _connected[key] = BrokerReads(settings)
    return _connected[key]


def disconnect() -> None:
    """Close all connections of this process; the next call opens them again."""
    for reads in _connected.values():
        reads.close()
    _connected.clear()


atexit.register(disconnect)
