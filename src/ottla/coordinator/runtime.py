"""All partitions of one coordinator's topic that this broker leads.

The leader of a partition of the topic is the coordinator of the ids that fall into it. ``elected``
and ``resigned`` follow leadership; between them a partition loads, then serves:

    absent ──elected──▶ loading ──▶ active ──resigned──▶ absent
                           └──▶ failed (its log is damaged)

A request for an absent or failed partition is refused with NOT_COORDINATOR, for one that loads with
COORDINATOR_LOAD_IN_PROGRESS, and after ``stop`` with COORDINATOR_NOT_AVAILABLE.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.common.errors import (
    ApiError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    ErrorCode,
    NotCoordinator,
)
from ottla.common.promise import Promise, failed
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker, Producer, RuntimeOutside
from ottla.coordinator.partition import (
    CoordinatorPartition,
    CoordinatorState,
    Operation,
    ShardFactory,
)
from ottla.coordinator.shard import RecordFormat, Shard
from ottla.observability.logging import logger

log = logger(__name__)

S = TypeVar("S", bound=Shard[Any])
T = TypeVar("T")


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        topic: str,
        outside: RuntimeOutside,
        make_shard: ShardFactory[S],
        record_format: RecordFormat[Any],
    ) -> None:
        self.topic = topic
        self._outside = outside
        self._make_shard = make_shard
        self._format = record_format
        self._partitions: dict[int, CoordinatorPartition[S]] = {}
        self._stopped = False
        self._is_electing = False
        self._loading: set[int] = set()
        self._loaded: list[dict[str, object]] = []
        self._unloaded: list[dict[str, object]] = []
        """What the log is told of at the end of a change, in one line for all."""

    def elected(self, partition: int, leader_epoch: int) -> None:
        """This broker leads ``partition`` since ``leader_epoch``."""
        current = self._partitions.get(partition)
        if current is not None:
            if leader_epoch <= current.leader_epoch:
                return
            if current.state is not CoordinatorState.FAILED:
                # Also when another has led in between: we have not followed it, so the log is what
                # it was, and so is all that we know by it.
                current.leader_epoch = leader_epoch
                return
        fresh = CoordinatorPartition(
            TopicPartition(self.topic, partition),
            leader_epoch,
            self._outside,
            self._make_shard,
            self._format,
            self._load_ended,
        )
        self._partitions[partition] = fresh
        self._loading.add(partition)
        self._is_electing = True
        try:
            fresh.load()
        finally:
            self._is_electing = False

    def resigned(self, partition: int, leader_epoch: int | None = None) -> None:
        """This broker leads ``partition`` no longer; without an epoch the partition is gone."""
        current = self._partitions.get(partition)
        if current is None or (leader_epoch is not None and leader_epoch < current.leader_epoch):
            return
        del self._partitions[partition]
        current.close()
        name = f"{self.topic}-{partition}"
        self._unloaded.append({"partition": name, "leader_epoch": current.leader_epoch})
        self._loading.discard(partition)

    def stop(self) -> None:
        self._stopped = True
        for partition in list(self._partitions):
            self.resigned(partition)
        self.tell()

    # The log

    def tell(self) -> None:
        """Say what was loaded and unloaded since the last time; the loaded when all are."""
        unloaded, self._unloaded = self._unloaded, []
        log.changes("coordinator unloaded", unloaded)
        if self._loaded and not self._loading:
            loaded, self._loaded = self._loaded, []
            log.changes(
                "coordinator loaded",
                loaded,
                records=sum(int(str(each["records"])) for each in loaded),
                milliseconds=max(int(str(each["milliseconds"])) for each in loaded),
            )

    def _load_ended(self, partition: CoordinatorPartition[S]) -> None:
        """One is loaded, cannot be loaded, or must try again later: the others are told of."""
        index = partition.topic_partition.partition
        fields: dict[str, object] = {
            "partition": f"{self.topic}-{index}",
            "leader_epoch": partition.leader_epoch,
        }
        if partition.load_error is not None:
            fields["reason"] = type(partition.load_error).__name__
        if partition.state is CoordinatorState.FAILED:
            log.error("coordinator not loaded: its log cannot be read", **fields)
        elif partition.state is CoordinatorState.LOADING:
            log.warning("coordinator not loaded yet: its log cannot be read now", **fields)
        else:
            seconds = self._outside.scheduler.monotonic() - partition.load_began
            fields["records"] = partition.records_loaded
            fields["milliseconds"] = int(seconds * 1000)
            self._loaded.append(fields)
        self._loading.discard(index)
        if not self._is_electing:
            self.tell()

    def state(self, partition: int) -> CoordinatorState | None:
        current = self._partitions.get(partition)
        return None if current is None else current.state

    def write(self, partition: int, operation: Operation[S, T]) -> Promise[T]:
        """Carry out ``operation``; its answer comes when what it rests on is committed."""
        try:
            return self._partition(partition).write(operation)
        except ApiError as error:
            return failed(self._outside.scheduler.turn, error)

    def write_transactional(
        self, partition: int, producer: Producer, operation: Operation[S, T]
    ) -> Promise[T]:
        """Like ``write``, for records that count when the producer's transaction commits."""
        try:
            return self._partition(partition).write_transactional(producer, operation)
        except ApiError as error:
            return failed(self._outside.scheduler.turn, error)

    def complete_transaction(self, partition: int, marker: EndTransactionMarker) -> Promise[None]:
        """Write the marker that ends a transaction on ``partition``."""
        try:
            return self._partition(partition).complete_transaction(marker)
        except ApiError as error:
            return failed(self._outside.scheduler.turn, error)

    def leader_epoch(self, partition: int) -> int:
        """Since which epoch this broker leads ``partition``; raises when it does not."""
        return self._partition(partition).leader_epoch

    def read(self, partition: int, operation: Callable[[S], T]) -> T:
        """What ``operation`` finds now; it must look at committed values only."""
        current = self._partition(partition)
        current.check_active()
        return operation(current.shard)

    @property
    def waiting(self) -> int:
        """How much waits for a commit, on all partitions."""
        return sum(partition.waiting for partition in self._partitions.values())

    def partitions(self) -> list[int]:
        """Those that this broker leads, loaded or not."""
        return list(self._partitions)

    def _partition(self, partition: int) -> CoordinatorPartition[S]:
        if self._stopped:
            raise CoordinatorNotAvailable
        current = self._partitions.get(partition)
        if current is None:
            raise NotCoordinator
        return current


def client_error(error: ApiError) -> ApiError:
    """What a client of a coordinator is told when the log beneath refused.

    Clients know what to do about a coordinator, not about the partition under it: they look for it
    again, or try again later.
    """
    match error.code:
        case ErrorCode.NETWORK_EXCEPTION:
            return CoordinatorLoadInProgress()
        case (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            | ErrorCode.NOT_ENOUGH_REPLICAS
            | ErrorCode.REQUEST_TIMED_OUT
        ):
            return CoordinatorNotAvailable()
        case ErrorCode.NOT_LEADER_OR_FOLLOWER | ErrorCode.KAFKA_STORAGE_ERROR:
            return NotCoordinator()
        case (
            ErrorCode.MESSAGE_TOO_LARGE
            | ErrorCode.RECORD_LIST_TOO_LARGE
            | ErrorCode.INVALID_FETCH_SIZE
        ):
            return ApiError()  # UNKNOWN_SERVER_ERROR
        case _:
            return error
