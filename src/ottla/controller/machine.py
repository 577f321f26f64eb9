"""The controller as a state machine: a manager for each noun, one state, and replay.

A request is asked of a manager, which reads the state and returns a :class:`ControllerResult`; the
state changes when the caller replays the records of the result, and in no other way. No I/O, no
clock: requests that depend on the time take ``now``.
"""

from collections.abc import Mapping

from ottla.common.chance import Chance
from ottla.config.broker import BrokerConfig
from ottla.controller.acls import AclsManager
from ottla.controller.bootstrap import activation_records
from ottla.controller.brokers import BrokersManager
from ottla.controller.client_quotas import ClientQuotasManager
from ottla.controller.configs import ConfigsManager
from ottla.controller.delegation_tokens import DelegationTokensManager
from ottla.controller.features import FeaturesManager
from ottla.controller.partition_counts import PartitionCountsManager
from ottla.controller.partitions import PartitionsManager
from ottla.controller.producer_ids import ProducerIdsManager
from ottla.controller.reassignments import ReassignmentsManager
from ottla.controller.scram import ScramManager
from ottla.controller.state import ControllerState
from ottla.controller.topics import TopicsManager
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.replay import MetadataReplay, Published
from ottla.raft.log import LogBatch


class ControllerMachine:
    """All managers over one state. ``state.image`` includes what is not yet committed."""

    def __init__(self, config: BrokerConfig, cluster_id: str, chance: Chance) -> None:
        self.state = ControllerState(config, cluster_id, chance)
        self.configs = ConfigsManager(self.state)
        self.partitions = PartitionsManager(self.state)
        self.topics = TopicsManager(self.state, self.configs)
        self.partition_counts = PartitionCountsManager(self.state)
        self.reassignments = ReassignmentsManager(self.state)
        self.brokers = BrokersManager(self.state, self.partitions)
        self.features = FeaturesManager(self.state, self.configs)
        self.scram = ScramManager(self.state)
        self.client_quotas = ClientQuotasManager(self.state)
        self.producer_ids = ProducerIdsManager(self.state, self.partitions)
        self.acls = AclsManager(self.state)
        self.tokens = DelegationTokensManager(self.state)
        self._replay = MetadataReplay(EMPTY_IMAGE)

    @property
    def image(self) -> MetadataImage:
        """Everything that was replayed and is not in an open metadata transaction."""
        return self._replay.image

    def reset(self, image: MetadataImage) -> None:
        """Begin again from ``image``: a snapshot was loaded, or leadership was lost."""
        self._replay = MetadataReplay(image)
        self.state.image = image

    def replay(
        self, records: list[MetadataRecord], *, base_offset: int, epoch: int, timestamp_ms: int
    ) -> list[Published]:
        """Replay one batch that this controller writes; return the images that it makes.

        None while a metadata transaction is open; ``state.image`` has its records nevertheless.
        """
        self._replay.replay_batch(
            records, base_offset=base_offset, epoch=epoch, timestamp_ms=timestamp_ms
        )
        return self.replayed()

    def replay_batch(self, batch: LogBatch) -> None:
        """Replay a committed batch; the state follows with :meth:`replayed`."""
        batch.replay_into(self._replay)

    def replayed(self) -> list[Published]:
        images = self._replay.take()
        for published in images:
            self.state.advance(published)
        self.state.image = self._replay.latest  # an open transaction is not among them
        return images

    def activate(
        self,
        bootstrap: list[MetadataRecord],
        now: float,
        heard: Mapping[int, float] | None = None,
    ) -> list[MetadataRecord]:
        """This controller leads now; what it must write first.

        ``heard`` says when the node that led before has answered last: a broker of the same id is
        part of the same process.
        Every unfenced broker gets a session to say that it lives, except one of our own process:
        its earlier incarnation ended with ours.
        """
        state = self.state
        state.heartbeats.clear()
        for broker in state.image.brokers.values():
            ours = state.config.is_broker and broker.node_id == state.config.node_id
            if not broker.fenced and not ours:
                last = (heard or {}).get(broker.node_id)
                state.heartbeats.begin(broker.node_id, broker.epoch, now, last)
        transaction_offset = self._replay.transaction_offset
        if transaction_offset is not None:
            state.image = self._replay.image
        return activation_records(state, self.configs, bootstrap, transaction_offset)
