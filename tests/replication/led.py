"""A led partition on a real log, with followers that fetch by hand and brokers that come and go."""

from typing import NamedTuple

from tests.replication.alone import alone
from tests.replication.states import state
from tests.turns import in_turn, virtual_time

from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.protocol.fetch_response import FetchedPartition
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication.isr import ProposedIsr
from ottla.replication.partition import Partition
from ottla.replication.waiting import WaitingRequests
from ottla.storage.opening import open_log
from ottla.testing.files import MemoryFilesystem

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(15) + b"\x07"
LAG = 30.0


class Registered(NamedTuple):
    epoch: int
    fenced: bool = False
    in_controlled_shutdown: bool = False


class Led:
    """Broker 1 with a partition whose other replicas are 2 and 3, unless told otherwise."""

    def __init__(
        self,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        replicas: tuple[int, ...] = (1, 2, 3),
        min_isr: int = 1,
    ) -> None:
        filesystem = self.filesystem = MemoryFilesystem()
        filesystem.make_directory("/data")
        self.log = open_log(
            filesystem,
            "/data/t-0",
            topic_partition=TopicPartition("t", 0),
            topic_id=TOPIC_ID,
            config=TopicConfig({}),
            now_ms=NOW_MS,
        )
        self.now = 1000.0
        self.brokers = {broker_id: Registered(100 + broker_id) for broker_id in (1, 2, 3, 4)}
        self.proposed: list[ProposedIsr] = []
        self.queue = WaitingRequests(virtual_time(1))
        self.outside = alone(
            monotonic=lambda: self.now,
            brokers=self,
            propose=lambda _partition, proposed: self.proposed.append(proposed),
            lag_time_max=LAG,
        )
        self.partition = Partition(1, "t", TOPIC_ID, 0, self.log, self.outside)
        self.partition.min_insync_replicas = min_isr
        self.replicas = replicas
        self.leader_epoch = 0
        self.partition_epoch = 0
        self.lead(isr)

    def registration(self, broker_id: int) -> Registered | None:
        return self.brokers.get(broker_id)

    def broker_epoch(self) -> int:
        return self.brokers[1].epoch

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def lead(
        self,
        isr: tuple[int, ...],
        *,
        leader: int = 1,
        leader_epoch: int | None = None,
        partition_epoch: int | None = None,
    ) -> None:
        """The metadata log says who leads, and who is in sync."""
        if leader_epoch is not None:
            self.leader_epoch = leader_epoch
        self.partition_epoch = (
            self.partition_epoch + 1 if partition_epoch is None else partition_epoch
        )
        in_turn(
            self.partition.apply_state,
            state(
                leader,
                self.leader_epoch,
                isr,
                replicas=self.replicas,
                partition_epoch=self.partition_epoch,
            ),
        )

    def append(self, count: int = 1, acks: int = 1) -> int:
        """Append a batch of so many records; its last offset."""
        records = [Record(timestamp=NOW_MS, value=b"v")] * count
        frame = memoryview(bytearray(build_batch(records)))
        info = in_turn(self.partition.append, frame, 0, len(frame), acks, NOW_MS)
        return info.last_offset

    def fetch(
        self,
        broker_id: int,
        offset: int,
        *,
        epoch: int | None = None,
        last_fetched_epoch: int = -1,
        leader_epoch: int | None = None,
        log_start_offset: int = 0,
        is_new: bool = True,
    ) -> FetchedPartition:
        return in_turn(
            self.partition.fetch_as_follower,
            broker_id,
            self.brokers[broker_id].epoch if epoch is None else epoch,
            offset,
            1 << 20,
            self.partition.leader_epoch if leader_epoch is None else leader_epoch,
            at_least_one=True,
            log_start_offset=log_start_offset,
            last_fetched_epoch=last_fetched_epoch,
            is_new=is_new,
        )

    def altered(self, proposed: ProposedIsr) -> None:
        """The controller takes a proposal."""
        self.partition_epoch = proposed.partition_epoch + 1
        in_turn(
            self.partition.isr_altered,
            proposed,
            self.leader_epoch,
            self.partition_epoch,
            tuple(member.broker_id for member in proposed.members),
        )
