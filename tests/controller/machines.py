"""A controller as a state machine, without a log: records are replayed at once."""

from collections.abc import Callable
from typing import TypeVar

from tests.raft.quorums import settings

from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode
from ottla.controller.bootstrap import default_bootstrap
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.topics import PartitionImage
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)

R = TypeVar("R")
CLUSTER_ID = "abcdefghijklmnopqrstug"


def directory_of(broker_id: int) -> bytes:
    return b"dir of broker %02d" % broker_id


class QuorumVersion:
    """The version of a quorum that can be upgraded to 1."""

    def __init__(self, kraft_version: int = 1) -> None:
        self.kraft_version = kraft_version

    def upgrade(self, version: int, *, validate_only: bool) -> None:
        if not validate_only:
            self.kraft_version = version


class Controller:
    """A machine and what was written through it; ``other`` replays the same from bytes."""

    def __init__(self, *, brokers: int = 0, seed: int = 1, **changes: str) -> None:
        config = settings(**changes)
        self.machine = ControllerMachine(config, CLUSTER_ID, Chance(seed))
        self.other = ControllerMachine(config, CLUSTER_ID, Chance(seed + 1))
        self.records: list[MetadataRecord] = []
        self.now = 0.0
        self.epochs: dict[int, int] = {}
        self.incarnations = 0
        self.on_apply: Callable[[], None] = lambda: None
        """Called after each result that was applied."""
        self.apply(ControllerResult(None, self.machine.activate(default_bootstrap(), 0.0)))
        for broker_id in range(1, brokers + 1):
            self.start_broker(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    def apply(self, result: ControllerResult[R]) -> R:
        """Replay the records of a result, here from objects and there from bytes."""
        if result.records:
            base_offset = len(self.records)
            version = self.machine.state.metadata_version
            values = [encode_record(record, version) for record in result.records]
            for machine, records in (
                (self.machine, result.records),
                (self.other, [decode_record(value) for value in values]),
            ):
                machine.replay(records, base_offset=base_offset, epoch=1, timestamp_ms=0)
            self.records += result.records
        self.machine.state.next_offset = len(self.records)
        self.on_apply()
        return result.response

    def fail_over(self) -> None:
        """The standby leads, with what it has replayed; the former leader stands by."""
        self.machine, self.other = self.other, self.machine
        self.machine.reset(self.machine.image)
        self.other.reset(self.other.image)
        self.machine.state.next_offset = len(self.records)
        self.apply(ControllerResult(None, self.machine.activate([], self.now)))

    # Brokers

    def registration(self, broker_id: int, previous_epoch: int = -1) -> BrokerRegistrationRequest:
        self.incarnations += 1
        return BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=b"incarnation %04d" % self.incarnations,
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092 + broker_id)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[directory_of(broker_id)],
            previous_broker_epoch=previous_epoch,
        )

    def register(self, request: BrokerRegistrationRequest) -> int:
        response = self.apply(self.machine.brokers.register_broker(request, self.now))
        self.epochs[request.broker_id] = response.broker_epoch
        return response.broker_epoch

    def heartbeat(
        self,
        broker_id: int,
        *,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offset: int | None = None,
        offline: list[bytes] | None = None,
        cordoned: list[bytes] | None = None,
    ) -> BrokerHeartbeatResponse:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=len(self.records) - 1 if offset is None else offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=offline or [],
            cordoned_log_dirs=cordoned,
        )
        return self.apply(self.machine.brokers.heartbeat(request, self.now))

    def start_broker(self, broker_id: int, previous_epoch: int = -1) -> None:
        """Register and be unfenced."""
        self.register(self.registration(broker_id, previous_epoch))
        assert not self.heartbeat(broker_id).is_fenced

    def expire(self) -> None:
        while self.machine.state.heartbeats.expired(self.now):
            self.apply(self.machine.brokers.expire_sessions(self.now))

    # Topics

    def create(
        self,
        name: str = "t",
        partitions: int = 1,
        replication_factor: int = 1,
        *,
        assignments: list[list[int]] | None = None,
        configs: dict[str, str | None] | None = None,
    ) -> CreatableTopicResult:
        """Create one topic; what became of it."""
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if assignments else partitions,
            replication_factor=-1 if assignments else replication_factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                for index, replicas in enumerate(assignments or [])
            ],
            configs=[CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items()],
        )
        request = CreateTopicsRequest(topics=[topic])
        (result,) = self.apply(self.machine.topics.create_topics(request)).topics
        return result

    def partition(self, topic: str = "t", partition_id: int = 0) -> PartitionImage:
        return self.image.topics.by_name[topic].partitions[partition_id]


def error(code: int, message: str | None) -> tuple[str, str | None]:
    """An error of an answer, readable in the output of a failed test."""
    return ErrorCode(code).name, message


def refusal(raised: ApiError) -> tuple[str, str]:
    return raised.code.name, raised.message
