"""Replicas of one partition that fetch from one another, without a network.

Each has a real log on a disk in memory, a real ``Partition`` and, when it follows, a real fetcher;
between them stand the wire's own bytes: requests and answers are encoded and read back.
"""

from tests.replication.alone import alone
from tests.replication.states import state
from tests.storage import logs

from ottla.common.buffers import Answer
from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.protocol.fetch_answer import FetchAnswer, read_fetch_answer
from ottla.protocol.fetch_response import FetchedPartition, encode_fetch_response
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.replication.fetch_sessions import FetchedFrom, FetchSessions
from ottla.replication.fetch_state import FetchKey, FetchState
from ottla.replication.fetching import Fetcher, FetchSettings
from ottla.replication.partition import Partition
from ottla.replication.quota import ReplicationQuota
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

SETTINGS = FetchSettings(
    min_bytes=1, max_bytes=700, response_max_bytes=10_000, wait_max_ms=500, backoff_ms=1_000
)
EARLIEST, EARLIEST_LOCAL = -2, -4
HEADER_BYTES = 9
"""Length, correlation id and tagged fields, in front of an answer."""
FETCH_VERSION, LIST_OFFSETS_VERSION = 18, 11
KEY: FetchKey = (logs.TOPIC_ID, logs.TOPIC.partition)


class Replica:
    """One of the brokers that have the partition."""

    def __init__(self, node_id: int, replicas: tuple[int, ...], *, log: Log | None = None) -> None:
        self.node_id = node_id
        self.replicas = replicas
        self.files = MemoryFilesystem()
        self.files.make_directory(logs.ROOT)
        self.quota = ReplicationQuota(window_count=11, window_seconds=1)
        self.throttled: list[int] = []
        self.now = 1.0
        self.chance = Chance(node_id)
        """Kept over restarts: ids of sessions that come again would be another follower's."""
        self.refusal: ApiError | None = None
        """What it answers instead of records, while that is set."""
        self._begin(log or logs.open_log(self.files))

    def _begin(self, log: Log) -> None:
        self.partition = Partition(
            self.node_id, logs.TOPIC.topic, logs.TOPIC_ID, logs.TOPIC.partition, log, alone()
        )
        self.sessions = FetchSessions(slots=10, eviction_ms=1, chance=self.chance)
        self.fetcher = self._new_fetcher()

    def _new_fetcher(self) -> Fetcher:
        return Fetcher(
            self.node_id,
            SETTINGS,
            self.quota,
            lambda partition: partition.index in self.throttled,
        )

    @property
    def log(self) -> Log:
        return self.partition.log

    @property
    def state(self) -> FetchState | None:
        return self.fetcher.states.get(KEY)

    def restart(self, high_watermark: int = 0) -> None:
        """Stop and start again; the high watermark is what the last checkpoint said."""
        self.log.close(logs.NOW)
        log = logs.open_log(self.files, log_start_offset=self.log.log_start_offset)
        log.set_high_watermark(high_watermark)
        self._begin(log)

    def hear(self, leader: int, epoch: int) -> None:
        """The metadata log says who leads."""
        self.partition.apply_state(state(leader, epoch, self.replicas))
        self.fetcher.remove(KEY)
        if leader != self.node_id:
            self.fetcher.add(self.partition, epoch, logs.NOW)

    # As a leader

    def append(self, *values: bytes, gap: int = 0) -> None:
        """Append one batch; with a gap, as if others before it had been compacted away."""
        epoch = self.partition.leader_epoch
        batch = logs.batch(values, base_offset=self.log.log_end_offset + gap, leader_epoch=epoch)
        info = self.log.append_as_follower(batch, now_ms=logs.NOW)
        self.partition._appended(info.size, info.record_count, info.is_flush_due)

    def answer(self, request: FetchRequest) -> FetchAnswer:
        request = from_bytes(FetchRequest, to_bytes(request, FETCH_VERSION), FETCH_VERSION)
        try:
            context = self.sessions.open(request, uses_topic_ids=True, now=self.now)
        except ApiError as error:
            encoded = encode_fetch_response(7, FETCH_VERSION, [], error_code=int(error.code))
            return _read(encoded)
        read = []
        for asked in context.partitions:
            fetched = self._read(request, asked)
            if not context.incremental or asked.has_news(fetched):
                read.append(fetched)
        topics: list[tuple[str | bytes, list[FetchedPartition]]] = (
            [(logs.TOPIC_ID, read)] if read else []
        )
        return _read(encode_fetch_response(7, FETCH_VERSION, topics, session_id=context.session_id))

    def _read(self, request: FetchRequest, asked: FetchedFrom) -> FetchedPartition:
        try:
            if self.refusal is not None:
                raise self.refusal
            return self.partition.fetch_as_follower(
                request.replica_state.replica_id,
                -1,
                asked.offset,
                asked.max_bytes,
                asked.current_leader_epoch,
                at_least_one=True,
                log_start_offset=0,
                last_fetched_epoch=asked.last_fetched_epoch,
            )
        except ApiError as error:
            return FetchedPartition(asked.partition, int(error.code), records=b"")

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        version = LIST_OFFSETS_VERSION
        request = from_bytes(ListOffsetsRequest, to_bytes(request, version), version)
        answers = []
        for asked in request.topics[0].partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            try:
                self.partition.check_epoch(asked.current_leader_epoch)
                answer.offset = self.log.log_end_offset
                if asked.timestamp == EARLIEST:
                    answer.offset = self.log.log_start_offset
                elif asked.timestamp == EARLIEST_LOCAL:
                    answer.offset = self.log.local_log_start_offset
            except ApiError as error:
                answer.error_code = int(error.code)
            answers.append(answer)
        return ListOffsetsResponse(
            topics=[ListOffsetsTopicResponse(name=request.topics[0].name, partitions=answers)]
        )

    # As a follower

    def ask(self, broker_epoch: int = 5) -> FetchRequest | ListOffsetsRequest | None:
        return self.fetcher.next_request(self.now, broker_epoch)

    def fetch_from(self, leader: "Replica") -> bool:
        """Ask and hear the answer; whether there was something to ask."""
        request = self.ask()
        if isinstance(request, FetchRequest):
            self.fetcher.fetched(leader.answer(request), self.now, logs.NOW)
        elif request is not None:
            self.fetcher.offsets_listed(leader.list_offsets(request), self.now, logs.NOW)
        return request is not None

    def catch_up(self, leader: "Replica", rounds: int = 100) -> None:
        """Fetch until nothing changes any more; delays are waited for."""
        before = None
        for _ in range(rounds):
            self.now += SETTINGS.backoff_ms / 1000
            self.fetch_from(leader)
            after = (self.log.log_end_offset, self.log.high_watermark, self.log.latest_epoch)
            level = self.log.log_end_offset == leader.log.log_end_offset
            if level and after == before:
                return
            before = after
        raise AssertionError(f"{self.node_id} does not catch up: {before}")

    def contents(self, start: int = 0) -> bytes:
        """The bytes of all batches from ``start`` on."""
        log, found = self.log, b""
        offset = max(start, log.local_log_start_offset)
        while offset < log.log_end_offset:
            fetched = log.read(
                offset, 1 << 20, upper_bound_offset=log.log_end_offset, at_least_one=True
            )
            if fetched.region is None:
                break
            found += fetched.region.read()
            offset = fetched.next_offset
        return found


def _read(encoded: Answer) -> FetchAnswer:
    pieces = [encoded] if isinstance(encoded, bytes) else encoded
    frame = b"".join(
        each if isinstance(each, bytes) else each.file.read_at(each.position, each.size)
        for each in pieces
    )
    return read_fetch_answer(memoryview(frame), HEADER_BYTES, FETCH_VERSION)
