"""The broker half of a node: partitions, coordinators, clients; and its life in the cluster.

It begins when the metadata log is known: register, open the partitions' logs when that registration
is in the log, be unfenced, and only then accept clients. It ends the other way round: the
controller moves leaderships away while clients are still served, and what was acknowledged is on
disk before the clean shutdown marker is.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.common.errors import ApiError, InvalidConfig
from ottla.common.identifiers import random_uuid
from ottla.common.promise import run
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.service import GroupService
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.transaction.service import TransactionOutside, TransactionService
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.verification import TransactionVerification
from ottla.metadata.versions import TRANSACTION_VERSION
from ottla.observability.logging import logger
from ottla.raft.driver import RaftDriver
from ottla.replication import metrics
from ottla.replication.log_moves import LogMoves
from ottla.replication.outside import PartitionOutside
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.replication.waiting import WaitingRequests
from ottla.requests.context import Services
from ottla.requests.dispatch import BrokerDispatcher
from ottla.requests.metadata_parts import MetadataParts
from ottla.requests.quota_metrics import register_rates
from ottla.requests.quotas import ClientQuotas
from ottla.server import node_metrics
from ottla.server.auto_topics import ControllerAutoTopics, is_alone
from ottla.server.controller_server import ControllerServer
from ottla.server.directory_assignments import DirectoryAssignments
from ottla.server.forwarding import ControllerForwarding
from ottla.server.internal_topics import InternalTopics
from ottla.server.led_replicas import KnownBrokers, LedReplicas
from ottla.server.lifecycle import NO_EPOCH, BrokerLifecycle, LifecycleTimes
from ottla.server.metadata_follower import MetadataFollower
from ottla.server.producer_ids import ProducerIdBlocks
from ottla.server.recoveries import Recoveries
from ottla.server.registration import registration_request
from ottla.server.remote_controller import RemoteController
from ottla.server.replica_fetchers import ReplicaFetchers
from ottla.server.settings import Settings
from ottla.server.shared_server import SharedServer, StartRefused, bind, limit_connections
from ottla.server.transaction_coordinators import ClusterCoordinators
from ottla.server.transaction_markers import ClusterMarkers, LedMarkers
from ottla.storage.cleaning.driver import CleanerDriver, CleanerSettings
from ottla.storage.cleaning.worker import BackgroundWorker, StartWorker
from ottla.storage.directories import LogDirectory
from ottla.storage.driver import Intervals, StorageDriver
from ottla.storage.loading import Loading
from ottla.storage.manager import DuplicateLog

if TYPE_CHECKING:
    from ottla.server.remote_logs import RemoteLogsOfNode
    from ottla.tiered.pool import Background
    from ottla.tiered.store import RemoteStore

log = logger(__name__)

ALL: Final = "*"
HEARTBEATS_IN_A_SESSION: Final = 3
"""A heartbeat that is not answered within this part of a session is sent again."""


class BrokerServer:
    def __init__(
        self,
        shared: SharedServer,
        settings: Settings,
        raft: RaftDriver,
        local: ControllerServer | None,
        *,
        start_cleaner: StartWorker | None = None,
        remote_store: "RemoteStore | None" = None,
        remote_background: "Background | None" = None,
    ) -> None:
        """``local`` is the controller half of the same node, if it has one."""
        self._shared = shared
        self._config = config = shared.config
        self._scheduler = scheduler = shared.scheduler
        self._metadata = shared.metadata
        self._settings = settings
        self._logs = shared.logs
        self._raft = raft
        self._local = local
        self._remote_store = remote_store
        self._remote_background = remote_background or scheduler.run_in_background
        self._server = shared.socket_server(config.broker_listeners)
        self.ports = bind(self._server, config.broker_listeners, shared.secured)
        session = config.broker_session_timeout_ms
        self._controller = self._remote("forwarding", config.controller_socket_timeout_ms)
        self._heartbeats = self._remote("heartbeat", session // HEARTBEATS_IN_A_SESSION)
        self._alter_partition = self._remote("alter-partition", config.controller_socket_timeout_ms)
        self._to_leaders = shared.broker_channel("transaction-markers")
        self._to_coordinators = shared.broker_channel("transaction-verification")
        self._to_metadata = shared.broker_channel("remote-log-metadata")
        self._loading: Loading | None = None
        self._has_loaded = self._is_stopped = False
        self.remote_logs: RemoteLogsOfNode | None = None
        self._lifecycle = self._make_lifecycle()
        self._storage = self._make_storage(start_cleaner)
        brokers = KnownBrokers(self._metadata, self._lifecycle)
        self._led = LedReplicas(self._alter_partition, brokers, settings, scheduler)
        self._fetchers = ReplicaFetchers(shared, settings, self._lifecycle)
        self.replicas = self._make_replicas(brokers)
        metrics.register(shared.metrics, self.replicas)
        node_metrics.register_partitions(shared.metrics, self.replicas)
        node_metrics.register_connections(shared.metrics, self._server, self.ports)
        self._assignments = DirectoryAssignments(
            self._controller, self._metadata, self._logs, scheduler, node_id=config.node_id
        )
        self._log_moves = self._make_log_moves()
        self._internal = InternalTopics(
            self.replicas,
            self._metadata,
            scheduler,
            lambda: self._settings.broker.transaction_partition_verification_enable,
        )
        self._metadata.on_image(self._internal.changed)
        self._groups = self._make_groups()
        self._services = self._make_services()
        self._follower = self._make_follower()

    # Putting it together

    def _remote(self, purpose: str, timeout_ms: int) -> RemoteController:
        return RemoteController(
            raft=self._raft,
            channel=self._shared.controller_channel(purpose, timeout_ms / 1000),
            scheduler=self._scheduler,
            timeout_ms=timeout_ms,
            local=None if self._local is None else self._local.driver,
        )

    def _make_storage(self, start_cleaner: StartWorker | None) -> StorageDriver:
        filesystem, scheduler = self._shared.filesystem, self._scheduler
        cleaner = CleanerDriver(
            self._logs,
            filesystem,
            scheduler,
            CleanerSettings.of(self._settings.broker),
            start_cleaner or (lambda settings: BackgroundWorker(filesystem, scheduler, settings)),
        )
        return StorageDriver(self._logs, scheduler, Intervals.of(self._config), cleaner)

    def _make_replicas(self, brokers: KnownBrokers) -> Replicas:
        config, scheduler = self._config, self._scheduler
        outside = PartitionOutside(
            monotonic=scheduler.monotonic,
            turn=scheduler.turn,
            brokers=brokers,
            propose=self._led.alter_partitions.propose,
            flush=self._storage.flush,
            start_behind_remote=self._start_behind_remote,
            lag_time_max=config.replica_lag_time_max_ms / 1000,
        )
        return Replicas(
            node_id=config.node_id,
            logs=self._logs,
            outside=outside,
            waiting=WaitingRequests(scheduler),
            followed=self._fetchers.fetchers,
            leader_throttle=self._led.throttle,
            chance=self._shared.chance,
            fetch_session_slots=config.max_incremental_fetch_session_cache_slots,
        )

    def _make_log_moves(self) -> LogMoves:
        return LogMoves(
            self._logs,
            self.replicas,
            self._scheduler,
            self._shared.filesystem,
            moved=self._assignments.moved,
            given_up=_tell_of_damaged_move,
        )

    def _make_follower(self) -> MetadataFollower:
        return MetadataFollower(
            node_id=self._config.node_id,
            settings=self._settings,
            logs=self._logs,
            replicas=self.replicas,
            groups=self._groups,
            transactions=self._services.transactions,
            reconfigured=self._reconfigured,
            topics_reconfigured=self._fetchers.topics_reconfigured,
            scheduler=self._scheduler,
        )

    def _start_behind_remote(self, partition: Partition, local_start: int, epoch: int) -> bool:
        remote = self.remote_logs
        return remote is not None and remote.start_follower(partition, local_start, epoch)

    @property
    def coordinators(self) -> tuple[GroupService, TransactionService]:
        return self._groups, self._services.transactions

    def _make_groups(self) -> GroupService:
        return GroupService(
            settings=GroupSettings.from_broker(self._config),
            writer=self._internal,
            reader=self._internal,
            scheduler=self._scheduler,
            chance=self._shared.chance,
            topics=self._internal,
            verifier=self._internal,
        )

    def _make_services(self) -> Services:
        config, controller, internal = self._config, self._controller, self._internal
        producer_ids = ProducerIdBlocks(
            controller, self._metadata, self._scheduler, node_id=config.node_id
        )
        node_id, metadata, scheduler = config.node_id, self._metadata, self._scheduler
        led_markers = LedMarkers(
            self.replicas, metadata, self._groups, scheduler, timeout_ms=config.request_timeout_ms
        )
        markers = ClusterMarkers(
            led_markers, metadata, self._to_leaders, scheduler, node_id=node_id
        )
        metadata.on_image(markers.changed)
        settings = TransactionSettings.from_broker(config)
        transactions = TransactionService(
            settings,
            TransactionOutside(
                writer=internal,
                reader=internal,
                scheduler=self._scheduler,
                topics=internal,
                producer_ids=producer_ids,
                markers=markers,
                version=lambda: self._metadata.image.features.level(TRANSACTION_VERSION),
            ),
        )
        coordinators = ClusterCoordinators(
            transactions, metadata, self._to_coordinators, scheduler, node_id=node_id
        )
        metadata.on_image(coordinators.changed)
        verification = TransactionVerification(coordinators, settings, scheduler)
        internal.connect(verification)
        metadata_parts = MetadataParts()
        metadata.on_image(metadata_parts.applied)
        return Services(
            node_id=config.node_id,
            cluster_id=self._shared.cluster_id,
            config=config,
            metadata=self._metadata,
            metadata_parts=metadata_parts,
            controller=controller,
            forwarding=ControllerForwarding(
                controller,
                None if self._local is None else self._local.services,
                self._scheduler.turn,
            ),
            raft=self._raft,
            replicas=self.replicas,
            logs=self._logs,
            log_moves=self._log_moves,
            groups=self._groups,
            transactions=transactions,
            verification=verification,
            markers=led_markers,
            auto_topics=ControllerAutoTopics(
                controller,
                self._metadata,
                lambda: self._settings.broker,
                self._is_alone,
                self._scheduler.turn,
            ),
            producer_ids=producer_ids,
            scheduler=self._scheduler,
            authorizer=self._shared.authorizer,
            mistakes=log,
            quotas=self._make_quotas(),
        )

    def _make_quotas(self) -> ClientQuotas:
        quotas = self._shared.client_quotas()
        register_rates(self._shared.metrics, quotas)
        return quotas

    def _is_alone(self) -> bool:
        return is_alone(self._config, self._raft.node.voters.ids, self._metadata.image)

    def _make_lifecycle(self) -> BrokerLifecycle:
        config = self._config
        return BrokerLifecycle(
            node_id=config.node_id,
            controller=self._heartbeats,
            metadata=self._metadata,
            scheduler=self._scheduler,
            times=LifecycleTimes(
                heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
                session_timeout_ms=config.broker_session_timeout_ms,
                registration_timeout_ms=config.initial_broker_registration_timeout_ms,
                log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
            ),
            cordoned=self._cordoned,
            deaf_seconds=lambda: self._raft.stuck_seconds,
            on_unheard=self._shared.failed,
        )

    def _cordoned(self) -> list[bytes]:
        names = self._settings.broker.cordoned_log_dirs
        return [
            directory.directory_id
            for directory in self._logs.online_directories
            if directory.directory_id is not None and (directory.path in names or ALL in names)
        ]

    # Start

    async def _load(self) -> None:
        """Open the logs, which may take long, and follow the metadata log from there on."""
        config, follower = self._config, self._follower
        self._logs.on_directory_failed = self._directory_failed
        follower.take_settings(self._metadata.image)
        opened = self._logs.begin_load()
        self._loading = Loading(opened, self._scheduler)
        await self._loading.run()
        if self._is_stopped:
            return
        try:
            follower.load(self._metadata.image, opened)
        except DuplicateLog as error:
            raise StartRefused(f"two log directories have one partition: {error}") from error
        self._metadata.on_image(follower.changed)
        if config.remote_log_storage_system_enable:
            self._start_remote_logs()
        recoveries = Recoveries(self._controller, self._scheduler, node_id=config.node_id)
        self._metadata.on_image(recoveries.changed)
        self._assignments.load(self._metadata.image)
        self._metadata.on_image(self._assignments.changed)
        self._storage.start()
        self._has_loaded = True
        self._storage.cleaner.configure(CleanerSettings.of(self._settings.broker))
        self._log_moves.resume()
        self._led.start(self.replicas)

    def _start_remote_logs(self) -> None:
        # Most brokers have no remote store, and start without all this.
        from ottla.server.remote_logs import RemoteLogsOfNode, RemoteLogsOutside
        from ottla.tiered.driver.stores import open_store, store_url
        from ottla.tiered.store import RemoteStoreError

        config = self._config
        try:
            store = self._remote_store or open_store(store_url(config), config.originals)
        except (InvalidConfig, RemoteStoreError) as error:
            raise StartRefused(f"the remote store cannot be used: {error}") from error
        remote = self.remote_logs = RemoteLogsOfNode(
            RemoteLogsOutside(
                config=self._settings.broker,
                filesystem=self._shared.filesystem,
                scheduler=self._scheduler,
                chance=self._shared.chance,
                logs=self._logs,
                settings=self._settings,
                metadata=self._metadata,
                internal=self._internal,
                auto_topics=self._services.auto_topics,
                channel=self._to_metadata,
                metrics=self._shared.metrics,
                store=store,
                background=self._remote_background,
                is_current=self._raft.has_caught_up,
            )
        )
        self._services.remote_logs = remote.manager
        remote.load(self._metadata.image)
        self._metadata.on_image(remote.changed)

    async def register(self) -> None:
        """Register, open the logs, and wait until the controller lets clients in."""
        online = [directory.directory_id for directory in self._logs.online_directories]
        request = registration_request(
            self._config,
            cluster_id=self._shared.cluster_id,
            incarnation_id=random_uuid(self._shared.chance),
            ports=self.ports,
            log_dirs=[directory_id for directory_id in online if directory_id is not None],
            previous_broker_epoch=self._logs.previous_broker_epoch(),
        )
        await self._lifecycle.register(request, lambda: run(self._scheduler.turn, self._load()))

    def serve(self) -> None:
        dispatcher = BrokerDispatcher(self._services)
        node_metrics.register_requests(self._shared.metrics, dispatcher)
        answer = dispatcher.answer
        logins = self._shared.logins.at(self._config.broker_listeners, answer)
        self._server.start(dict.fromkeys(self.ports, answer), logins)

    def unready(self) -> Iterator[str]:
        """Why no client is served yet, or any more."""
        broker = self._metadata.image.brokers.get(self._config.node_id)
        if self._lifecycle.epoch == NO_EPOCH:
            yield "the broker is not registered with the controller yet"
        elif not self._has_loaded:
            yield "the logs are being opened"
        elif broker is None or not broker.is_active:
            yield "the broker is fenced by the controller"

    # What changes

    def _reconfigured(self, config: BrokerConfig) -> None:
        """A dynamic setting of the broker has changed."""
        cordoned = self._services.config.cordoned_log_dirs
        self._services.config = config
        self._shared.secured.reconfigured(config)
        if self._local is not None:
            self._local.services.config = config
        self._groups.reconfigured(GroupSettings.from_broker(config))
        throttles = self._settings.throttles
        self._log_moves.bytes_per_second = throttles.replica_alter_log_dirs_io_max_bytes_per_second
        self._fetchers.reconfigured(config)
        self._led.reconfigured()
        if self._has_loaded:
            self._storage.cleaner.configure(CleanerSettings.of(config))
        if self.remote_logs is not None:
            self.remote_logs.reconfigured(config)
        limit_connections(self._server, config, self.ports)
        if config.cordoned_log_dirs != cordoned:
            self._lifecycle.cordon_changed()
        log.info("settings changed", node=config.node_id)

    def _directory_failed(self, directory: LogDirectory, lost: list[TopicPartition]) -> None:
        log.error(
            "log directory offline",
            path=directory.path,
            partitions=len(lost),
            reason=str(directory.failure),
        )
        self.replicas.fail(lost)
        self._scheduler.turn.enqueue(self._follower.lost, lost)
        if directory.path == self._config.metadata_log_dir or not self._logs.online_directories:
            self._shared.failed(directory.failure or OSError("no log directory is left"))
        elif directory.directory_id is not None:
            self._lifecycle.tell_offline(directory.directory_id)

    # Stop

    async def leave(self) -> None:
        """Ask the controller to move leaderships away; clients are served meanwhile."""
        if self._config.controlled_shutdown_enable:
            await self._lifecycle.leave()

    def hurry(self) -> None:
        """Go without the controller's leave."""
        self._lifecycle.go()

    async def stop(self) -> None:
        """Serve nobody any more, and have everything on disk."""
        self._is_stopped = True
        self._lifecycle.close()
        self._fetchers.stop()
        self._server.close()
        self._services.transactions.stop()
        self._groups.stop()
        self._led.stop()
        if self.remote_logs is not None:
            await self.remote_logs.stop()
        for controller in (self._controller, self._heartbeats, self._alter_partition):
            controller.close()
        for channel in (self._to_leaders, self._to_coordinators, self._to_metadata):
            channel.close()

    async def close_logs(self) -> None:
        """The last of all: the marker that it ended cleanly, with the epoch of this incarnation."""
        hanging = set() if self._loading is None else await self._loading.stop()
        if self._has_loaded:
            await self._storage.stop(self._lifecycle.epoch)
        else:
            self._logs.abandon(hanging)


def _tell_of_damaged_move(topic_partition: TopicPartition, reason: ApiError) -> None:
    log.error(
        "a log is not moved to another directory: it cannot be read",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        reason=reason.message,
    )
