"""The controller over the quorum: one queue, and answers that wait for the commit.

A request is decided at once, its records are appended and replayed at once, and its answer is given
when they are committed; so later requests see what earlier ones did, and nobody hears of anything
that could still be lost. Images are shown to listeners in the order of the log, each when it is
committed and before the answers that depend on it.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ottla.common.authorization import Client
from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, NotController
from ottla.common.identifiers import random_uuid
from ottla.common.promise import Promise, fulfilled
from ottla.config.broker import BrokerConfig
from ottla.controller import notices
from ottla.controller.answers import Answers
from ottla.controller.batches import split_into_batches
from ottla.controller.bootstrap import (
    controller_endpoints,
    default_bootstrap,
    registration_request,
)
from ottla.controller.charges import Charging, free_of_charge
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.controller.tasks import ControllerTasks
from ottla.metadata.brokers import Endpoint
from ottla.metadata.cache import ImageListener, MetadataCache
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.replay import Published
from ottla.metadata.snapshot import SnapshotContent, read_records
from ottla.observability.logging import logger
from ottla.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.generated.alter_client_quotas import AlterClientQuotasRequest
from ottla.protocol.generated.alter_configs import AlterConfigsRequest
from ottla.protocol.generated.alter_partition import AlterPartitionRequest
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
)
from ottla.protocol.generated.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from ottla.protocol.generated.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.generated.broker_registration import BrokerRegistrationRequest
from ottla.protocol.generated.controller_registration import ControllerRegistrationRequest
from ottla.protocol.generated.create_acls import CreateAclsRequest
from ottla.protocol.generated.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.generated.create_partitions import CreatePartitionsRequest
from ottla.protocol.generated.create_topics import CreateTopicsRequest
from ottla.protocol.generated.delete_acls import DeleteAclsRequest
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from ottla.protocol.generated.elect_leaders import ElectLeadersRequest
from ottla.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.generated.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ottla.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.generated.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.protocol.message import Message, Request, Response
from ottla.raft.channel import RaftChannel
from ottla.raft.describe import describe_quorum as described_quorum
from ottla.raft.events import Resign
from ottla.raft.image_snapshots import ImageSnapshots
from ottla.raft.log import LogBatch
from ottla.raft.opening import open_raft
from ottla.raft.service import RaftService
from ottla.raft.snapshots import SnapshotId
from ottla.raft.voter_changes import VoterChanges
from ottla.raft.voters import VoterEndpoint
from ottla.storage.directories import LogUnavailable
from ottla.storage.files import Filesystem

log = logger(__name__)

T = TypeVar("T")
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Response)
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


class _Pending:
    """A batch that is appended and not yet committed."""

    __slots__ = ("end_offset", "images", "settle")

    def __init__(self, end_offset: int, images: list[Published]) -> None:
        self.end_offset = end_offset
        self.images = images
        self.settle: list[Callable[[ApiError | None], None]] = []
        """Answers: given with None when the batch is committed."""


class ControllerDriver:
    """A controller of the quorum, active or not. Implements ``ControllerClient``."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster_id: str,
        directory_id: bytes,
        filesystem: Filesystem,
        scheduler: Scheduler,
        chance: Chance,
        metadata: MetadataCache,
        on_failure: Callable[[BaseException], None],
        channel: RaftChannel | None = None,
        incarnation_id: bytes | None = None,
    ) -> None:
        """``directory_id`` is that of the metadata log dir; ``metadata`` gets what is committed.

        ``channel`` leads to the other controllers; a quorum of one needs none.
        """
        self._metadata = metadata
        self._ready: Promise[None] = Promise(scheduler.turn)
        self._config = config
        self._endpoints: Sequence[Endpoint] = ()
        self._filesystem = filesystem
        self._scheduler = scheduler
        self._incarnation_id = incarnation_id or random_uuid(chance)
        self._machine = ControllerMachine(config, cluster_id, chance)
        self._tasks = ControllerTasks(config, self._machine, scheduler, self._write)
        self._pending: deque[_Pending] = deque()
        self._epoch: int | None = None
        self.raft = open_raft(
            config,
            cluster_id=cluster_id,
            directory_id=directory_id,
            filesystem=filesystem,
            scheduler=scheduler,
            chance=chance,
            listener=self,
            on_failure=on_failure,
            channel=channel,
        )
        self.raft.on_progress.append(self._progressed)
        self._snapshots = ImageSnapshots(config, self.raft, metadata, scheduler)
        self.quorum = RaftService(self.raft)
        """For the requests of other controllers, and of brokers that follow the log."""
        self.voter_changes = VoterChanges(self.raft, self.quorum)
        self._answers = self._make_answers()
        self.charge_for: Callable[[Client], Charging] = lambda _client: free_of_charge
        """What a client pays for that this node asks in its name."""

    def start(self, ports: Mapping[str, int] | None = None) -> Promise[None]:
        """Read the metadata log and join the quorum; fulfilled when it is known what is committed.

        That is when this controller is active, or has replayed what the active one has committed.

        ``ports`` are those that listeners were bound to, where the configuration leaves it open.
        """
        self._endpoints = controller_endpoints(self._config, ports or {})
        self.raft.start([VoterEndpoint(*each[:3]) for each in self._endpoints])
        return self._ready

    def stop(self) -> Promise[None]:
        """Give up leading and close the log; requests that wait are refused."""
        self._tasks.stop()
        return self.raft.stop()

    @property
    def is_active(self) -> bool:
        return self._epoch is not None

    @property
    def image(self) -> MetadataImage:
        """What is committed."""
        return self._metadata.image

    def on_image(self, listener: ImageListener) -> None:
        """Call ``listener(image, delta)`` for each image that is committed from now on."""
        self._metadata.on_image(listener)

    # Writing

    def _write(self, make: Callable[[], ControllerResult[T]]) -> Promise[T]:
        """Decide a request, write its records, and promise its answer for when they are safe."""
        promise: Promise[T] = Promise(self._scheduler.turn)
        if self._epoch is None:
            promise.fail(NotController("No controller appears to be active."))
            return promise
        self._machine.state.next_offset = self.raft.end_offset
        try:
            result = make()
            self._append(result.records, atomic=result.atomic)
        except ApiError as error:
            promise.fail(error)
            return promise
        except Exception as error:
            log.exception("a request to the controller failed", error=repr(error))
            promise.fail(error)
            return promise
        response = result.response
        if not self._pending:
            promise.fulfil(response)
            return promise

        def settle(error: ApiError | None) -> None:
            if error is None:
                promise.fulfil(response)
            else:
                promise.fail(error)

        # An answer without records may tell of what the last batch did: it waits for it too.
        self._pending[-1].settle.append(settle)
        return promise

    def _append(self, records: list[MetadataRecord], *, atomic: bool) -> None:
        if not records:
            return
        version = self._machine.state.metadata_version
        epoch = self._epoch
        assert epoch is not None
        for batch, values in list(split_into_batches(records, version, atomic=atomic)):
            base_offset = self.raft.end_offset
            now_ms = self._scheduler.wall_ms()
            self._snapshots.appended(self.raft.append(values, now_ms))
            try:
                images = self._machine.replay(
                    batch, base_offset=base_offset, epoch=epoch, timestamp_ms=now_ms
                )
            except Exception as error:
                # What is in the log is not what we know: as in Kafka, this controller ends.
                self.raft.fail(error)
                raise
            self._pending.append(_Pending(self.raft.end_offset, images))
        self._tasks.wrote()

    # What the quorum tells

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        image = content.image(*snapshot_id)
        self._machine.reset(image)
        self._metadata.publish(image, difference(self._metadata.image, image))

    def replay(self, batch: LogBatch) -> None:
        self._snapshots.appended(len(batch.data))
        self._machine.replay_batch(batch)

    def replayed(self) -> None:
        self._publish(self._machine.replayed())
        self._snapshots.take_if_due()

    def became_leader(self, epoch: int) -> None:
        self._epoch = epoch
        now = self._scheduler.monotonic()
        bootstrap = self._read_bootstrap()
        heard = self.raft.node.heard
        first = self._write(
            lambda: ControllerResult(None, self._machine.activate(bootstrap, now, heard))
        )
        if first.done and not self._has_begun(first):
            return
        registered = self.submit(
            registration_request(self._config.node_id, self._incarnation_id, self._endpoints)
        )
        self._tasks.start()
        registered.when_done(lambda _: self._activated())

    def _has_begun(self, first: Promise[None]) -> bool:
        """Without the records that it begins with no controller leads."""
        try:
            first.result()
        except LogUnavailable:  # the next to be elected may be this one
            self.raft.tell(Resign(self.raft.now))
        except Exception as error:  # noqa: BLE001 - the node ends with it
            self.raft.fail(error)
        else:
            return True
        return False

    def _activated(self) -> None:
        if not self.is_active:
            return
        log.info("controller active", node=self._config.node_id, epoch=self._epoch)
        if not self._ready.done:
            self._ready.fulfil(None)

    def _progressed(self) -> None:
        caught_up = self.raft.is_caught_up and self._epoch is None
        if caught_up and not self._ready.done and self.image.features.metadata_version > 0:
            self._ready.fulfil(None)

    def _read_bootstrap(self) -> list[MetadataRecord]:
        """What formatting left for the first controller of a new cluster."""
        path = f"{self._config.metadata_log_dir}/{BOOTSTRAP_CHECKPOINT}"
        if not self._filesystem.exists(path):
            return default_bootstrap()
        return read_records(self._filesystem.read(path))

    def lost_leadership(self, epoch: int) -> None:
        self._epoch = None
        log.info("controller resigned", node=self._config.node_id, epoch=epoch)
        self._tasks.stop()
        refused = NotController(f"No longer the active controller of epoch {epoch}.")
        pending, self._pending = self._pending, deque()
        self._machine.reset(self._metadata.image)
        for batch in pending:
            for settle in batch.settle:
                settle(refused)
        if self.raft.is_down and not self._ready.done:
            self._ready.fail(refused)

    def appended_control(self, batch: LogBatch) -> None:
        # It changes no state, but the offset for which the image stands, as on every standby.
        self.replay(batch)
        self._pending.append(_Pending(batch.last_offset + 1, self._machine.replayed()))

    def committed(self, high_watermark: int) -> None:
        while self._pending and self._pending[0].end_offset <= high_watermark:
            batch = self._pending.popleft()
            self._publish(batch.images)
            for settle in batch.settle:
                settle(None)
        self._snapshots.take_if_due()

    def _publish(self, images: list[Published]) -> None:
        for image, delta in images:
            self._metadata.publish(image, delta)
            if self.is_active:
                notices.tell(delta)

    def take_snapshot(self) -> Promise[None]:
        """Write what is committed as a snapshot, in the background, and drop what is too old."""
        return self._snapshots.take()

    # Requests

    def submit(
        self,
        request: Request[R],
        client: Client | None = None,
        charge: Charging | None = None,
    ) -> Promise[R]:
        """``charge`` is what the client pays; without it, what it pays for any request."""
        if charge is None:
            charge = free_of_charge if client is None else self.charge_for(client)
        return self._answers(request, client, charge)

    def _make_answers(self) -> Answers:
        machine, answers = self._machine, Answers()
        write, write_at = self._writing, self._writing_at
        charge, counts = self._charging, machine.partition_counts
        answers.to_charged(CreateTopicsRequest, charge(machine.topics.create_topics))
        answers.to_charged(DeleteTopicsRequest, charge(machine.topics.delete_topics))
        answers.to_charged(CreatePartitionsRequest, charge(counts.create_partitions))
        answers.to(AlterConfigsRequest, write(machine.configs.alter_configs))
        answers.to(IncrementalAlterConfigsRequest, write(machine.configs.incremental_alter_configs))
        answers.to(UpdateFeaturesRequest, write(self._update_features))
        answers.to(ElectLeadersRequest, write(machine.partitions.elect_leaders))
        reassignments = machine.reassignments
        answers.to(AlterPartitionReassignmentsRequest, write(reassignments.alter_reassignments))
        answers.to(ListPartitionReassignmentsRequest, write(reassignments.list_reassignments))
        answers.to(AlterClientQuotasRequest, write(machine.client_quotas.alter_quotas))
        answers.to(AlterUserScramCredentialsRequest, write(machine.scram.alter_credentials))
        answers.to(UnregisterBrokerRequest, write(machine.brokers.unregister_broker))
        answers.to(DescribeQuorumRequest, self._describe_quorum)
        answers.to(BrokerRegistrationRequest, write_at(machine.brokers.register_broker))
        answers.to(BrokerHeartbeatRequest, write_at(machine.brokers.heartbeat))
        answers.to(AllocateProducerIdsRequest, write(machine.producer_ids.allocate))
        answers.to(AlterPartitionRequest, write(machine.partitions.alter_partition))
        answers.to(AssignReplicasToDirsRequest, write(machine.partitions.assign_replicas_to_dirs))
        answers.to(CreateAclsRequest, write(machine.acls.create_acls))
        answers.to(DeleteAclsRequest, write(machine.acls.delete_acls))
        answers.to(ControllerRegistrationRequest, write(machine.brokers.register_controller))
        write_for = self._writing_for
        answers.to_client(CreateDelegationTokenRequest, write_for(machine.tokens.create_token))
        answers.to_client(RenewDelegationTokenRequest, write_for(machine.tokens.renew_token))
        answers.to_client(ExpireDelegationTokenRequest, write_for(machine.tokens.expire_token))
        return answers

    def _writing(self, decide: Callable[[Q], ControllerResult[R]]) -> Callable[[Q], Promise[R]]:
        return lambda request: self._write(lambda: decide(request))

    def _charging(
        self, decide: Callable[[Q, Charging], ControllerResult[R]]
    ) -> Callable[[Q, Charging], Promise[R]]:
        return lambda request, charge: self._write(lambda: decide(request, charge))

    def _writing_at(
        self, decide: Callable[[Q, float], ControllerResult[R]]
    ) -> Callable[[Q], Promise[R]]:
        """For what depends on the time."""

        def ask(request: Q) -> Promise[R]:
            now = self._scheduler.monotonic()
            return self._write(lambda: decide(request, now))

        return ask

    def _writing_for(
        self, decide: Callable[[Q, Client, int], ControllerResult[R]]
    ) -> Callable[[Q, Client], Promise[R]]:
        """For what depends on who asks, and on the time of day."""

        def ask(request: Q, client: Client) -> Promise[R]:
            now_ms = self._scheduler.wall_ms()
            return self._write(lambda: decide(request, client, now_ms))

        return ask

    def _update_features(
        self, request: UpdateFeaturesRequest
    ) -> ControllerResult[UpdateFeaturesResponse]:
        return self._machine.features.update_features(request, self.voter_changes)

    def _describe_quorum(self, request: DescribeQuorumRequest) -> Promise[DescribeQuorumResponse]:
        now, now_ms = self._scheduler.monotonic(), self._scheduler.wall_ms()
        return fulfilled(
            self._scheduler.turn, described_quorum(self.raft.node, request, now, now_ms)
        )
