"""Reading records of partitions that are named, from positions that are named.

No groups: the caller assigns which partitions are read and where to begin. ``poll`` fetches from
all leaders at once, and only partitions of which everything fetched was taken; what is fetched at
most is bounded per partition and in all.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self

from ottla.client.cluster import Cluster, Timing
from ottla.client.connection import Connection, close_unanswered
from ottla.client.errors import SomeRefused, refusal
from ottla.client.fetched import FetchedRecords, check_whole_batch
from ottla.client.leaders import by_leader, by_topic
from ottla.client.offsets import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    ListedOffset,
    list_offsets,
)
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.client.system_time import Deadline, WaitingClock
from ottla.common.errors import (
    RETRIABLE,
    ErrorCode,
    OffsetOutOfRange,
    ProtocolViolation,
)
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.records.compression import ACCEPTED_MAX
from ottla.records.record import Record

ISOLATION_LEVELS: Final = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}
RESETS: Final = {"earliest": EARLIEST, "latest": LATEST}
_TOPIC_IDS_FROM: Final = 13


class AtTimestamp(NamedTuple):
    """The first record that is not older than this, or the end when all are."""

    timestamp_ms: int


class Consumer:
    """Not safe for several threads. Close it, or use it in a ``with`` block."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        isolation_level: str = "read_uncommitted",
        reset: str | None = None,
        fetch_bytes_max: int = 50 << 20,
        partition_bytes_max: int = 1 << 20,
        fetch_bytes_min: int = 1,
        fetch_wait_ms: int = 500,
        check_crc: bool = True,
        decompressed_max: int = ACCEPTED_MAX,
        client_id: str = "ottla-consumer",
        timing: Timing | None = None,
        security: ClientSecurity = UNSECURED,
        clock: WaitingClock | None = None,
    ) -> None:
        """``reset`` says where to go on when a position is gone; None makes that an error."""
        self.cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            timing=timing,
            security=security,
            clock=clock,
            response_size_max=fetch_bytes_max + (64 << 20),
        )
        self._isolation_level = ISOLATION_LEVELS[isolation_level]
        self._reset = None if reset is None else RESETS[reset]
        self._fetch_bytes_max = fetch_bytes_max
        self._partition_bytes_max = partition_bytes_max
        self._fetch_bytes_min = fetch_bytes_min
        self._fetch_wait_ms = fetch_wait_ms
        self._check_crc = check_crc
        self._decompressed_max = decompressed_max
        self._positions: dict[TopicPartition, int] = {}
        self._fetched: dict[TopicPartition, FetchedRecords] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        self._attempt = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._fetched.clear()
        self.cluster.close()

    def partitions(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic."""
        return [TopicPartition(topic, index) for index in self.cluster.topic(topic).partitions]

    def assign(self, positions: Mapping[TopicPartition, int | AtTimestamp]) -> None:
        """Read these partitions and no others, each from an offset, EARLIEST, LATEST or a time."""
        asked = {
            partition: wanted.timestamp_ms if isinstance(wanted, AtTimestamp) else wanted
            for partition, wanted in positions.items()
            if isinstance(wanted, AtTimestamp) or wanted < 0
        }
        offsets = {
            partition: wanted
            for partition, wanted in positions.items()
            if not isinstance(wanted, AtTimestamp) and wanted >= 0
        }
        if asked:
            listed = self._list(asked)
            offsets.update({partition: item.offset for partition, item in listed.items()})
            ends = [partition for partition, offset in offsets.items() if offset < 0]
            offsets.update(self.end_offsets(ends))
        self._positions = {partition: offsets[partition] for partition in positions}
        self._fetched.clear()
        self._high_watermarks.clear()

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on at ``offset``; the partition must be assigned."""
        assert partition in self._positions
        self._positions[partition] = offset
        self._fetched.pop(partition, None)

    def position(self, partition: TopicPartition) -> int:
        """The offset of the next record that :meth:`poll` will return, or of one before it."""
        return self._positions[partition]

    def high_watermark(self, partition: TopicPartition) -> int | None:
        """The end of what can be read, as of the last fetch."""
        return self._high_watermarks.get(partition)

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(dict.fromkeys(partitions, EARLIEST))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """High watermarks, or with read_committed the last stable offsets."""
        return self._offsets(dict.fromkeys(partitions, LATEST))

    def _offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: item.offset for partition, item in self._list(wanted).items()}

    def _list(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        listed, refused = list_offsets(self.cluster, wanted, isolation_level=self._isolation_level)
        if refused:
            raise SomeRefused(refused, listed)
        return listed

    def __iter__(self) -> Iterator[tuple[TopicPartition, Record]]:
        """Record after record, for ever."""
        while True:
            for partition, records in self.poll(1000).items():
                for record in records:
                    yield partition, record

    def poll(
        self, timeout_ms: float = 1000, *, records_max: int = 500
    ) -> dict[TopicPartition, list[Record]]:
        """Records that are there, or that come within ``timeout_ms``.

        At most ``records_max``, or one batch more where batches are larger.
        """
        deadline = self.cluster.deadline(timeout_ms)
        while True:
            taken = self._take(records_max)
            if taken or not self._positions:
                return taken
            if deadline.passed:
                return {}
            self._fetch(deadline)

    def _take(self, records_max: int) -> dict[TopicPartition, list[Record]]:
        taken: dict[TopicPartition, list[Record]] = {}
        count = 0
        for partition, fetched in list(self._fetched.items()):
            while count < records_max:
                records = fetched.next_records()
                self._positions[partition] = fetched.position
                if records is None:
                    del self._fetched[partition]
                    break
                taken.setdefault(partition, []).extend(records)
                count += len(records)
        return taken

    def _fetch(self, deadline: Deadline) -> None:
        """One fetch of everything that is not there yet, from all leaders at once."""
        wanted = [partition for partition in self._positions if partition not in self._fetched]
        whole = self.cluster.deadline()
        self.cluster.know({partition.topic for partition in wanted}, whole)
        led, leaderless = by_leader(self.cluster, wanted)
        stale = bool(leaderless)
        wait_ms = min(self._fetch_wait_ms, deadline.milliseconds)
        sent: list[Connection] = []
        try:
            for node_id, group in led.items():
                try:
                    sent.append(self._send(node_id, group, wait_ms, whole))
                except OSError:
                    stale = True
            for connection in sent:
                try:
                    seconds = (self.cluster.timing.request_timeout_ms + wait_ms) / 1000
                    stale |= self._learn(connection.receive(FetchResponse, seconds))
                except (OSError, ProtocolViolation):
                    stale = True
        finally:
            close_unanswered(sent)
        self._attempt = self._attempt + 1 if stale else 0
        if stale:
            self.cluster.expire_metadata()
            self.cluster.pause(self._attempt, deadline)

    def _send(
        self, node_id: int, partitions: list[TopicPartition], wait_ms: int, deadline: Deadline
    ) -> Connection:
        connection = self.cluster.connection(node_id, deadline)
        version = connection.version(ApiKey.FETCH)
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=self._fetch_bytes_min,
            max_bytes=self._fetch_bytes_max,
            isolation_level=self._isolation_level,
            topics=[
                self._topic(version, topic, indexes)
                for topic, indexes in by_topic(partitions).items()
            ],
        )
        connection.send(request, version, self.cluster.timing.request_timeout_ms / 1000)
        return connection

    def _topic(self, version: int, name: str, indexes: list[int]) -> FetchTopic:
        known = self.cluster.metadata.topics[name]
        topic = FetchTopic(
            partitions=[
                FetchPartition(
                    partition=index,
                    current_leader_epoch=known.partitions[index].leader_epoch,
                    fetch_offset=self._positions[TopicPartition(name, index)],
                    partition_max_bytes=self._partition_bytes_max,
                )
                for index in indexes
            ]
        )
        if version >= _TOPIC_IDS_FROM:
            topic.topic_id = known.topic_id
        else:
            topic.topic = name
        return topic

    def _learn(self, response: FetchResponse) -> bool:
        """Take over an answer; whether something in it calls for fresh metadata."""
        if response.error_code:
            if response.error_code in RETRIABLE:
                return True
            raise refusal(response.error_code)
        topics = self.cluster.metadata.topics
        names = {topic.topic_id: name for name, topic in topics.items()}
        stale = False
        for topic in response.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for item in topic.partitions:
                stale |= self._learn_partition(TopicPartition(name, item.partition_index), item)
        return stale

    def _learn_partition(self, partition: TopicPartition, item: PartitionData) -> bool:
        if item.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range(partition)
            return False
        if item.error_code:
            if item.error_code in RETRIABLE:
                return True
            raise refusal(item.error_code, f"{partition}: {ErrorCode(item.error_code).name}")
        self._high_watermarks[partition] = item.high_watermark
        data = item.records or b""
        check_whole_batch(data, str(partition))
        aborted = item.aborted_transactions if self._isolation_level == READ_COMMITTED else None
        if data:
            self._fetched[partition] = FetchedRecords(
                data,
                self._positions[partition],
                aborted=[(one.producer_id, one.first_offset) for one in aborted or ()],
                check_crc=self._check_crc,
                decompressed_max=self._decompressed_max,
            )
        return False

    def _out_of_range(self, partition: TopicPartition) -> None:
        if self._reset is None:
            raise OffsetOutOfRange(
                f"{partition} has no offset {self._positions[partition]}, "
                "and no reset was asked for"
            )
        self._positions.update(self._offsets({partition: self._reset}))
