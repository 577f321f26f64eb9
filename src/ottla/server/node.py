"""A node: broker and controller in one process, put together and started in order.

Start: lock the log directories; accept the other controllers; read the metadata log and lead its
quorum; open the partitions' logs; register as a broker and be unfenced; only then accept clients.
A node whose quorum is led by another waits for its turn: brokers follow no remote controller yet.
Stop: the other way round, so
that what was acknowledged is on disk before the clean shutdown marker says so.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import ApiError, InvalidConfig
from ottla.common.identifiers import random_uuid
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.controller.driver import ControllerDriver
from ottla.coordinator.group.service import GroupService
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.transaction.service import TransactionOutside, TransactionService
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.verification import TransactionVerification
from ottla.handlers.context import Services
from ottla.handlers.dispatch import Dispatcher
from ottla.metadata.cache import MetadataCache
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import TRANSACTION_VERSION
from ottla.network.broker_channel import BrokerChannel
from ottla.network.channel import NetworkChannel
from ottla.network.node_client import NodeClientLimits
from ottla.network.server import SocketServer, SocketServerLimits
from ottla.network.sockets import DiallingNetwork
from ottla.observability.logging import logger
from ottla.replication.log_moves import LogMoves
from ottla.replication.replicas import Replicas
from ottla.server.auto_topics import ControllerAutoTopics
from ottla.server.directory_assignments import DirectoryAssignments
from ottla.server.internal_topics import InternalTopics
from ottla.server.lifecycle import NO_EPOCH, BrokerLifecycle
from ottla.server.metadata_follower import MetadataFollower
from ottla.server.producer_ids import ProducerIdBlocks
from ottla.server.recoveries import Recoveries
from ottla.server.registration import registration_request
from ottla.server.settings import Settings
from ottla.server.transaction_coordinators import ClusterCoordinators
from ottla.server.transaction_markers import ClusterMarkers, LedMarkers
from ottla.storage.cleaner_driver import CleanerDriver, CleanerSettings
from ottla.storage.cleaner_worker import BackgroundWorker, StartWorker
from ottla.storage.directories import LogDirectory, LogDirFailed
from ottla.storage.driver import Intervals, StorageDriver
from ottla.storage.files import DirectoryInUse, Filesystem
from ottla.storage.inspection import Damage
from ottla.storage.manager import LogManager
from ottla.storage.verification import Verify

if TYPE_CHECKING:
    from ottla.server.remote_logs import RemoteLogsOfNode
    from ottla.tiered.pool import Background
    from ottla.tiered.store import RemoteStore

log = logger(__name__)

PLAINTEXT: Final = "PLAINTEXT"


class StartRefused(Exception):
    """The node cannot start as it is; the text is for the person who started it."""


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        filesystem: Filesystem,
        network: DiallingNetwork,
        scheduler: Scheduler,
        chance: Chance,
        start_cleaner: StartWorker | None = None,
        remote_store: "RemoteStore | None" = None,
        remote_background: "Background | None" = None,
    ) -> None:
        self.config = config
        self.ports: dict[str, int] = {}
        """The port of each listener, once it is bound."""
        self.failure: BaseException | None = None
        """Why the node ends by itself, when it does."""
        self.on_failure: Callable[[], None] = lambda: None
        self._filesystem = filesystem
        self._start_cleaner: StartWorker = start_cleaner or (
            lambda settings: BackgroundWorker(filesystem, scheduler, settings)
        )
        self._scheduler = scheduler
        self._chance = chance
        self._metadata = MetadataCache()
        self._settings = Settings(config)
        self.logs = LogManager(
            filesystem,
            config.log_dirs,
            clock=scheduler,
            chance=chance,
            config_for=self._settings.topic,
            producer_expiration_ms=config.producer_id_expiration_ms,
            verify=Verify(config.ottla_log_verify),
        )
        self.logs.on_damaged = _tell_of_damage
        self._replicas = Replicas(
            node_id=config.node_id,
            logs=self.logs,
            scheduler=scheduler,
            chance=chance,
            fetch_session_slots=config.max_incremental_fetch_session_cache_slots,
        )
        self._log_moves = LogMoves(self.logs, self._replicas, scheduler, filesystem)
        self._log_moves.on_given_up = _tell_of_damaged_move
        self._server = SocketServer(network, scheduler, _limits(config))
        self._channel = NetworkChannel(
            network,
            scheduler,
            client_id=f"raft-client-{config.node_id}",
            limits=NodeClientLimits(
                timeout_seconds=config.controller_quorum_request_timeout_ms / 1000,
                backoff_seconds=config.controller_quorum_retry_backoff_ms / 1000,
            ),
        )
        self._to_leaders = self._make_channel(network, "transaction-markers")
        self._to_coordinators = self._make_channel(network, "transaction-verification")
        self._to_metadata = self._make_channel(network, "remote-log-metadata")
        self._services: Services | None = None
        self._on_lost: Callable[[list[TopicPartition]], None] = lambda _lost: None
        self._groups: GroupService | None = None
        self._transactions: TransactionService | None = None
        self._controller: ControllerDriver | None = None
        self._lifecycle: BrokerLifecycle | None = None
        self._storage: StorageDriver | None = None
        self._remote_store = remote_store
        self._remote_background = remote_background or scheduler.run_in_background
        self._remote_logs: RemoteLogsOfNode | None = None

    def _make_channel(self, network: DiallingNetwork, purpose: str) -> BrokerChannel:
        return BrokerChannel(
            network,
            self._scheduler,
            self._metadata,
            listener_name=self.config.inter_broker_listener_name,
            client_id=f"broker-{self.config.node_id}-{purpose}",
            limits=NodeClientLimits(
                timeout_seconds=self.config.request_timeout_ms / 1000, backoff_seconds=0.05
            ),
        )

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node knows it."""
        return self._metadata.image

    @property
    def port(self) -> int:
        """The port of the first listener for clients."""
        return self.ports[self.config.broker_listeners[0].name]

    # Start

    def start(self) -> Promise[None]:
        return run(self._start())

    async def _start(self) -> None:
        self._refuse_false_safety()
        try:
            self.logs.lock()
        except DirectoryInUse as error:
            raise StartRefused(str(error)) from error
        cluster_id = self._cluster_id()
        self._bind()
        controller = self._controller = self._make_controller(cluster_id)
        internal = InternalTopics(
            self._replicas,
            self._metadata,
            self._scheduler,
            lambda: self._settings.broker.transaction_partition_verification_enable,
        )
        groups = self._groups = self._make_groups(internal)
        services = self._services = self._make_services(cluster_id, controller, groups, internal)
        # The other controllers must reach this one before it, or any of them, can lead.
        self._serve(services, of_controller=True)
        await controller.start(self.ports)
        follower = MetadataFollower(
            node_id=self.config.node_id,
            settings=self._settings,
            logs=self.logs,
            replicas=self._replicas,
            groups=groups,
            transactions=services.transactions,
            reconfigured=self._reconfigured,
            scheduler=self._scheduler,
        )
        self._on_lost = follower.lost
        self.logs.on_directory_failed = self._directory_failed
        follower.load(self._metadata.image)
        self._metadata.on_image(follower.changed)
        if self.config.remote_log_storage_system_enable:
            self._start_remote_logs(services, internal)
        recoveries = Recoveries(controller, self._scheduler, node_id=self.config.node_id)
        self._metadata.on_image(recoveries.changed)
        assignments = DirectoryAssignments(
            controller,
            self._metadata,
            self.logs,
            self._scheduler,
            node_id=self.config.node_id,
        )
        self._metadata.on_image(assignments.changed)
        self._log_moves.on_moved = assignments.moved
        cleaner = CleanerDriver(
            self.logs,
            self._filesystem,
            self._scheduler,
            CleanerSettings.of(self._settings.broker),
            self._start_cleaner,
        )
        self._storage = StorageDriver(
            self.logs, self._scheduler, Intervals.of(self.config), cleaner
        )
        self._storage.start()
        self._replicas.flush = self._storage.flush
        self._log_moves.resume()
        await self._register(cluster_id, controller)
        assignments.load(self._metadata.image)
        self._serve(services, of_controller=False)
        log.info("serving", node=self.config.node_id, ports=self.ports)

    def _refuse_false_safety(self) -> None:
        """Who asks for protection that is not there must not be served without it."""
        for listener in self.config.listeners:
            if listener.security_protocol != PLAINTEXT:
                raise StartRefused(
                    f"{listener} asks for {listener.security_protocol}, which is not served yet: "
                    f"only {PLAINTEXT} is"
                )
        if self.config.authorizer_class_name:
            raise StartRefused("authorizer.class.name is set, but there is no authorizer yet")

    def _cluster_id(self) -> str:
        """The cluster id that all log directories agree on."""
        ids = set()
        for directory in self.logs.online_directories:
            meta = directory.meta
            if meta is None:
                raise StartRefused(
                    f"No `meta.properties` found in {directory.path} "
                    "(have you run `ottla storage format` to format the directory?)"
                )
            if meta.node_id != self.config.node_id:
                raise StartRefused(
                    f"{directory.path}/meta.properties is of node {meta.node_id}, "
                    f"and node.id is {self.config.node_id}"
                )
            ids.add(meta.cluster_id)
        if not ids:
            raise StartRefused("none of the log directories can be read")
        if len(ids) > 1:
            raise StartRefused(f"the log directories belong to different clusters: {sorted(ids)}")
        return ids.pop()

    def _bind(self) -> None:
        for listener in self.config.listeners:
            try:
                port = self._server.listen(listener.name, listener.host, listener.port)
            except OSError as error:
                raise StartRefused(f"cannot listen on {listener}: {error}") from error
            self.ports[listener.name] = port

    def _make_controller(self, cluster_id: str) -> ControllerDriver:
        path = self.config.metadata_log_dir
        for directory in self.logs.online_directories:
            if directory.path == path and directory.directory_id is not None:
                return ControllerDriver(
                    self.config,
                    cluster_id=cluster_id,
                    directory_id=directory.directory_id,
                    filesystem=self._filesystem,
                    scheduler=self._scheduler,
                    chance=self._chance,
                    metadata=self._metadata,
                    on_failure=self._failed,
                    channel=self._channel,
                )
        raise StartRefused(f"the metadata log directory {path} cannot be read")

    def _make_groups(self, internal: InternalTopics) -> GroupService:
        self._metadata.on_image(internal.changed)
        return GroupService(
            settings=GroupSettings.from_broker(self.config),
            writer=internal,
            reader=internal,
            scheduler=self._scheduler,
            chance=self._chance,
            topics=internal,
            verifier=internal,
        )

    def _make_services(
        self,
        cluster_id: str,
        controller: ControllerDriver,
        groups: GroupService,
        internal: InternalTopics,
    ) -> Services:
        producer_ids = ProducerIdBlocks(
            controller, self._metadata, self._scheduler, node_id=self.config.node_id
        )
        node_id, metadata, scheduler = self.config.node_id, self._metadata, self._scheduler
        led_markers = LedMarkers(
            self._replicas, metadata, groups, scheduler, timeout_ms=self.config.request_timeout_ms
        )
        markers = ClusterMarkers(
            led_markers, metadata, self._to_leaders, scheduler, node_id=node_id
        )
        metadata.on_image(markers.changed)
        settings = TransactionSettings.from_broker(self.config)
        transactions = self._transactions = TransactionService(
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
        verification = TransactionVerification(coordinators, settings, scheduler)
        internal.verification = verification
        return Services(
            node_id=self.config.node_id,
            cluster_id=cluster_id,
            config=self.config,
            metadata=self._metadata,
            controller=controller,
            replicas=self._replicas,
            logs=self.logs,
            log_moves=self._log_moves,
            groups=groups,
            transactions=transactions,
            verification=verification,
            markers=led_markers,
            auto_topics=ControllerAutoTopics(
                controller, self._metadata, lambda: self._settings.broker
            ),
            producer_ids=producer_ids,
            scheduler=self._scheduler,
        )

    def _start_remote_logs(self, services: Services, internal: InternalTopics) -> None:
        # Most brokers have no remote store, and start without all this.
        from ottla.server.remote_logs import RemoteLogsOfNode, RemoteSurroundings
        from ottla.tiered.driver.stores import open_store, store_url
        from ottla.tiered.store import RemoteStoreError

        try:
            store = self._remote_store or open_store(store_url(self.config), self.config.originals)
        except (InvalidConfig, RemoteStoreError) as error:
            raise StartRefused(f"the remote store cannot be used: {error}") from error
        remote = self._remote_logs = RemoteLogsOfNode(
            RemoteSurroundings(
                config=self._settings.broker,
                filesystem=self._filesystem,
                scheduler=self._scheduler,
                chance=self._chance,
                logs=self.logs,
                settings=self._settings,
                metadata=self._metadata,
                internal=internal,
                auto_topics=services.auto_topics,
                channel=self._to_metadata,
                store=store,
                background=self._remote_background,
            )
        )
        services.remote_logs = remote.manager
        remote.load(self._metadata.image)
        self._metadata.on_image(remote.changed)

    def _serve(self, services: Services, *, of_controller: bool) -> None:
        answer = Dispatcher(services, log, of_controller=of_controller).answer
        config = self.config
        listeners = config.controller_listeners if of_controller else config.broker_listeners
        answers = dict.fromkeys((each.name for each in listeners), answer)
        self._server.start(answers, self._replicas.waiting.finish_ready)

    async def _register(self, cluster_id: str, controller: ControllerDriver) -> None:
        self._lifecycle = BrokerLifecycle(
            node_id=self.config.node_id,
            controller=controller,
            metadata=self._metadata,
            scheduler=self._scheduler,
            heartbeat_interval_ms=self.config.broker_heartbeat_interval_ms,
            log_dir_failure_timeout_ms=self.config.log_dir_failure_timeout_ms,
            on_unheard=self._failed,
        )
        online = [directory.directory_id for directory in self.logs.online_directories]
        request = registration_request(
            self.config,
            cluster_id=cluster_id,
            incarnation_id=random_uuid(self._chance),
            ports=self.ports,
            log_dirs=[directory_id for directory_id in online if directory_id is not None],
            previous_broker_epoch=self.logs.previous_broker_epoch(),
        )
        await self._lifecycle.register(request)

    def _reconfigured(self, config: BrokerConfig) -> None:
        """A dynamic setting of the broker has changed."""
        assert self._services is not None
        assert self._groups is not None
        self._services.config = config
        self._groups.reconfigured(GroupSettings.from_broker(config))
        throttles = self._settings.throttles
        self._log_moves.bytes_per_second = throttles.replica_alter_log_dirs_io_max_bytes_per_second
        if self._storage is not None:
            self._storage.cleaner.configure(CleanerSettings.of(config))
        if self._remote_logs is not None:
            self._remote_logs.reconfigured(config)
        self._server.limits.connections = config.max_connections
        self._server.limits.connections_per_ip = config.max_connections_per_ip
        log.info("settings changed", node=config.node_id)

    # When something breaks

    def _failed(self, error: BaseException) -> None:
        """The metadata log cannot be written, or nothing is left to write to: the node ends.

        A controller that goes on without its log could not keep its word.
        """
        if self.failure is not None:
            return
        log.error("the node ends", reason=repr(error))
        self.failure = error
        self.on_failure()

    def _directory_failed(self, directory: LogDirectory, lost: list[TopicPartition]) -> None:
        log.error(
            "log directory offline",
            path=directory.path,
            partitions=len(lost),
            reason=str(directory.failure),
        )
        self._replicas.fail(lost)
        # In a turn of its own: a coordinator may be in the middle of the write that has failed.
        self._scheduler.call_soon(self._on_lost, lost)
        if directory.path == self.config.metadata_log_dir or not self.logs.online_directories:
            self._failed(directory.failure or OSError("no log directory is left"))
        elif directory.directory_id is not None and self._lifecycle is not None:
            self._lifecycle.tell_offline(directory.directory_id)

    # Stop

    def stop(self) -> Promise[None]:
        return run(self._stop())

    async def _stop(self) -> None:
        self._server.close()
        if self._transactions is not None:
            self._transactions.stop()
        if self._groups is not None:
            self._groups.stop()
        if self._remote_logs is not None:
            await self._remote_logs.stop()
        if self._lifecycle is not None and self.failure is None:
            await self._lifecycle.leave()
        if self._controller is not None:
            try:
                await self._controller.stop()
            except LogDirFailed as failure:
                log.error("the metadata log was not closed", reason=failure.message)
        self._channel.close()
        for channel in (self._to_leaders, self._to_coordinators, self._to_metadata):
            channel.close()
        if self._storage is not None:
            await self._storage.stop(NO_EPOCH if self._lifecycle is None else self._lifecycle.epoch)
        else:
            self.logs.abandon()


def _tell_of_damage(topic_partition: TopicPartition, path: str, damage: Damage) -> None:
    log.error(
        "a segment is damaged; what cannot be read is refused",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        segment=path,
        position=damage.position,
        bytes=damage.end - damage.position,
        offset=damage.first_offset,
    )


def _tell_of_damaged_move(topic_partition: TopicPartition, reason: ApiError) -> None:
    log.error(
        "a log is not moved to another directory: it cannot be read",
        topic=topic_partition.topic,
        partition=topic_partition.partition,
        reason=reason.message,
    )


def _limits(config: BrokerConfig) -> SocketServerLimits:
    return SocketServerLimits(
        connections=config.max_connections,
        connections_per_ip=config.max_connections_per_ip,
        connections_per_ip_overrides=dict(config.max_connections_per_ip_overrides),
        frame_bytes=config.socket_request_max_bytes,
        idle_ms=config.connections_max_idle_ms,
        queued_request_bytes=config.queued_max_request_bytes,
    )
