"""Reading partitions: a fetch at a time, from the leader or the replica that it names (KIP-392)."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.client.fetched import FetchedRecords
from ottla.common.errors import ErrorCode
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.simulation.cluster_client import ClusterClient, Place
from ottla.simulation.history import History, Isolation, Poll, Read, ReadAll
from ottla.simulation.workloads.workload import Workload

PARTITION_BYTES: Final = 2_000
"""Little, so that there are many fetches."""
WAIT_MS: Final = 300
EARLIEST: Final = -2
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4


class Fetched(NamedTuple):
    records: list[Read]
    next_position: int
    high_watermark: int
    last_stable_offset: int
    log_start: int


class Cursor:
    """A position in one partition, and how to go on from it."""

    def __init__(
        self,
        client: ClusterClient,
        place: Place,
        isolation: Isolation,
        *,
        rack: str = "",
        max_bytes: int = PARTITION_BYTES,
    ) -> None:
        self._client = client
        self.place = place
        self.isolation = isolation
        self._rack = rack
        self._max_bytes = max_bytes
        self._replica = -1
        self.position = 0
        self.is_fresh = True

    def seek(self, position: int) -> None:
        self.position = position
        self.is_fresh = True

    async def fetch(self) -> Fetched | None:
        """What comes next; None when the attempt was in vain, and another may not be."""
        try:
            leader, epoch = await self._client.leader(self.place)
            node_id = leader if self._replica < 0 else self._replica
            answer = await self._client.ask(node_id, self._request(epoch))
        except OSError:
            self._replica = -1
            await self._client.renew(self.place)
            return None
        if answer.error_code != ErrorCode.NONE or not answer.responses:
            await self._client.renew(self.place)
            return None
        data = answer.responses[0].partitions[0]
        if data.error_code == ErrorCode.NONE:
            return self._fetched(data)
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and self._replica < 0:
            await self._reset()
        self._replica = -1
        await self._client.renew(self.place)
        return None

    def _request(self, leader_epoch: int) -> FetchRequest:
        topic, partition = self.place
        wanted = FetchPartition(
            partition=partition,
            current_leader_epoch=leader_epoch,
            fetch_offset=self.position,
            partition_max_bytes=self._max_bytes,
        )
        return FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=int(self.isolation is Isolation.COMMITTED),
            rack_id=self._rack,
            topics=[
                FetchTopic(
                    topic=topic,
                    topic_id=self._client.topic_ids[topic],
                    partitions=[wanted],
                )
            ],
        )

    def _fetched(self, data: PartitionData) -> Fetched | None:
        if data.preferred_read_replica >= 0:
            self._replica = data.preferred_read_replica
            return None
        aborted = [
            (each.producer_id, each.first_offset) for each in data.aborted_transactions or ()
        ]
        fetched = FetchedRecords(
            bytes(data.records or b""), self.position, aborted=aborted, decompressed_max=1 << 20
        )
        records: list[Read] = []
        while (batch := fetched.next_records()) is not None:
            records += [(each.offset, _text(each.key), _text(each.value)) for each in batch]
        return Fetched(
            records,
            fetched.position,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
        )

    async def _reset(self) -> None:
        """The position is not there: begin at the earliest, as auto.offset.reset has it."""
        found = await self._find(EARLIEST)
        if found is not None and found > self.position:
            self.seek(found)

    async def skip_to_local(self) -> None:
        """Go on where the local log begins: what is before it nobody can find any more."""
        found = await self._find(EARLIEST_LOCAL)
        if found is not None and found > self.position:
            self.seek(found)

    async def end(self) -> int:
        """Where what can be read ends; a new leader says so when it knows (KIP-207)."""
        while (found := await self._find(LATEST)) is None:
            await self._client.renew(self.place)
        return found

    async def _find(self, timestamp: int) -> int | None:
        topic, partition = self.place
        wanted = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(self.isolation is Isolation.COMMITTED),
            topics=[ListOffsetsTopic(name=topic, partitions=[wanted])],
        )
        try:
            leader, _ = await self._client.leader(self.place)
            answer = await self._client.ask(leader, request)
        except OSError:
            return None
        found = answer.topics[0].partitions[0]
        return found.offset if found.error_code == ErrorCode.NONE else None

    async def poll(self, history: History, process: str) -> Poll | None:
        """Fetch once, go on, and tell the history."""
        topic, partition = self.place
        poll = Poll(
            process=process,
            topic=topic,
            partition=partition,
            isolation=self.isolation,
            position=self.position,
            next_position=self.position,
            begin=self._client.now,
        )
        fetched = await self.fetch()
        if fetched is None or fetched.next_position == poll.position:
            return None
        poll.is_fresh, self.is_fresh = self.is_fresh, False
        poll.records = fetched.records
        poll.next_position = self.position = fetched.next_position
        begin = poll.begin
        history.add(poll)
        poll.begin = begin
        return poll


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode()


async def read_all(workload: Workload, places: Iterable[Place]) -> None:
    """Read partitions from start to end at both isolations, for the history."""
    client = workload.client("final")
    for place in places:
        for isolation in Isolation:
            read = workload.history.begin(
                ReadAll(
                    process=client.name,
                    topic=place[0],
                    partition=place[1],
                    isolation=isolation,
                    log_start=-1,
                    log_end=-1,
                )
            )
            cursor = Cursor(client, place, isolation)
            end = await cursor.end()
            while read.log_end < end or cursor.position < read.log_end:
                fetched = await cursor.fetch()
                if fetched is None:
                    if REMOTE_LOG_METADATA in workload.world.lost:
                        # It is out of range, and yet the log starts there: as in Kafka.
                        await cursor.skip_to_local()
                    continue
                read.log_start = fetched.log_start
                read.records += fetched.records
                cursor.position = fetched.next_position
                read.log_end = fetched.high_watermark
                if isolation is Isolation.COMMITTED:
                    read.log_end = fetched.last_stable_offset
            workload.history.end(read)
