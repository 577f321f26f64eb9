"""Telling the controller that partitions have recovered from an unclean election (KIP-704).

A leader that was elected although it may have lost records is marked as recovering. What it has is
all that there is from now on: it says so, and the mark goes.
"""

from typing import Protocol

from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import RECOVERED, RECOVERING, PartitionImage
from ottla.observability.logging import logger
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponse,
    BrokerState,
)

log = logger(__name__)


class PartitionAlterer(Protocol):
    """The controller, as far as in-sync replicas and recovery are concerned."""

    def submit(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]: ...


class Recoveries:
    def __init__(self, controller: PartitionAlterer, scheduler: Scheduler, *, node_id: int) -> None:
        self._controller = controller
        self._scheduler = scheduler
        self._node_id = node_id

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Look at what has changed for partitions that this broker leads and that recover."""
        broker = image.brokers.get(self._node_id)
        if broker is None:
            return
        topics = []
        for topic_id, topic in delta.topics.changed.items():
            partitions = [
                self._recovered(index, state, broker.epoch)
                for index, state in topic.changed.items()
                if state.leader == self._node_id and state.leader_recovery_state == RECOVERING
            ]
            if partitions:
                topics.append(
                    AlterPartitionRequestTopicData(topic_id=topic_id, partitions=partitions)
                )
        if topics:
            request = AlterPartitionRequest(
                broker_id=self._node_id, broker_epoch=broker.epoch, topics=topics
            )
            # Not from within the commit that brought us here.
            self._scheduler.call_soon(self._tell, request)

    def _tell(self, request: AlterPartitionRequest) -> None:
        self._controller.submit(request).when_done(self._told)

    def _recovered(
        self, index: int, state: PartitionImage, broker_epoch: int
    ) -> AlterPartitionRequestPartitionData:
        return AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=state.leader_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=self._node_id, broker_epoch=broker_epoch)],
            leader_recovery_state=RECOVERED,
            partition_epoch=state.partition_epoch,
        )

    def _told(self, answered: Promise[AlterPartitionResponse]) -> None:
        try:
            answered.result()
        except ApiError as error:
            log.warning("the controller was not told of recovered partitions", code=error.code.name)
