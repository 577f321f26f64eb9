"""Changes of ISRs on their way to the controller (AlterPartition): many partitions' in one request.

Rules:
1. One request is under way at a time; what is proposed meanwhile goes with the next, and what must
   be sent again behind all others.
2. A partition has one proposal here. Another one, which can only come when new metadata has made
   the first void, is not sent: the partition asks again at the next fetch or check.
3. A request that fails as a whole, whatever the reason, is sent again, to the one that is the
   controller then.
4. Only INELIGIBLE_REPLICA and OPERATION_NOT_ATTEMPTED say that nothing was changed. After other
   errors of a partition its proposal stands until the metadata log decides, or is sent again.

Counterpart in Apache Kafka: ``DefaultAlterPartitionManager``.
"""

from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol, TypeAlias

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise, run
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from ottla.replication.isr import ProposedIsr
from ottla.replication.partition import Partition

RETRY_SECONDS: Final = 0.05
PARTITIONS_MAX: Final = 1_000
"""Of one request: the controller decides all of them in one turn."""
_UNCHANGED: Final = frozenset({ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED})
_METADATA_DECIDES: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)

Item: TypeAlias = tuple[Partition, ProposedIsr]
Key: TypeAlias = tuple[bytes, int]


class Controller(Protocol):
    """What is asked of the controller here."""

    def submit(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]: ...


class AlterPartitions:
    def __init__(
        self,
        controller: Controller,
        scheduler: Scheduler,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._items: dict[Key, Item] = {}
        """What is proposed, until the controller has answered it; sent or not."""
        self._is_in_flight = False
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._items)

    def propose(self, partition: Partition, proposed: ProposedIsr) -> None:
        """Ask the controller for another ISR of ``partition``."""
        key = (partition.topic_id, partition.index)
        if key in self._items and _is_void(self._items[key]) and not self._is_in_flight:
            del self._items[key]
        if key in self._items:
            partition.isr_refused(proposed, is_unchanged=True)
            return
        self._items[key] = (partition, proposed)
        self._send()

    def stop(self) -> None:
        """Ask for nothing any more."""
        self._is_stopped = True

    def _send(self) -> None:
        if self._is_in_flight or self._is_stopped:
            return
        self._items = {key: item for key, item in self._items.items() if not _is_void(item)}
        if not self._items:
            return
        self._is_in_flight = True
        sent = dict(islice(self._items.items(), PARTITIONS_MAX))
        request = _request(self._node_id, self._broker_epoch(), sent)
        run(self._scheduler.turn, self._ask(request)).when_done(
            lambda done: self._answered(sent, done)
        )

    async def _ask(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        return await self._controller.submit(request)

    def _answered(self, sent: dict[Key, Item], done: Promise[AlterPartitionResponse]) -> None:
        self._is_in_flight = False
        try:
            response = done.result()
        except ApiError:
            self._retry()
            return
        except Exception:
            self._retry()  # a mistake of ours, of the controller in this process say
            raise
        if response.error_code != ErrorCode.NONE:
            self._retry()
            return
        must_wait = False
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                if key in sent:
                    must_wait |= self._settle(key, sent[key], answer)
        left = [key for key in sent if key in self._items]
        for key in left:
            self._items[key] = self._items.pop(key)
        if must_wait or left:
            self._retry()
        else:
            self._send()

    def _settle(self, key: Key, item: Item, answer: AlterPartitionResponsePartitionData) -> bool:
        """Give a partition its answer; whether it has to be asked for once more."""
        partition, proposed = item
        code = answer.error_code
        if code != ErrorCode.NONE and code not in _UNCHANGED and code not in _METADATA_DECIDES:
            return partition.isr_refused(proposed, is_unchanged=False)
        del self._items[key]
        if code == ErrorCode.NONE:
            partition.isr_altered(
                proposed, answer.leader_epoch, answer.partition_epoch, tuple(answer.isr)
            )
        else:
            partition.isr_refused(proposed, is_unchanged=code in _UNCHANGED)
        return False

    def _retry(self) -> None:
        self._scheduler.call_later(RETRY_SECONDS, self._send)


def _is_void(item: Item) -> bool:
    """Whether newer metadata has overtaken a proposal."""
    partition, proposed = item
    return partition.leadership.in_sync.proposed is not proposed


def _request(node_id: int, broker_epoch: int, items: dict[Key, Item]) -> AlterPartitionRequest:
    topics: dict[bytes, AlterPartitionRequestTopicData] = {}
    for (topic_id, index), (_, proposed) in items.items():
        topic = topics.setdefault(topic_id, AlterPartitionRequestTopicData(topic_id=topic_id))
        topic.partitions.append(
            AlterPartitionRequestPartitionData(
                partition_index=index,
                leader_epoch=proposed.leader_epoch,
                new_isr_with_epochs=[
                    BrokerState(broker_id=member.broker_id, broker_epoch=member.broker_epoch)
                    for member in proposed.members
                ],
                partition_epoch=proposed.partition_epoch,
            )
        )
    return AlterPartitionRequest(
        broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values())
    )
