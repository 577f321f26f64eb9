"""A node: a broker, a controller, or both in one process, put together and started in order.

Start: lock the log directories; bind the listeners; take part in the quorum of the metadata log, or
observe it; when it is known what is committed, the broker half opens its logs, registers and
serves. Stop: the broker half asks to be let go and ends, then the controller half.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import InvalidConfig
from ottla.common.promise import Promise, run
from ottla.common.topic_partition import TopicPartition
from ottla.config.authorizer import authorizer_settings
from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.service import GroupService
from ottla.coordinator.transaction.service import TransactionService
from ottla.metadata.cache import MetadataCache
from ottla.metadata.image import MetadataImage
from ottla.network.channel import NetworkChannel
from ottla.network.sockets import DiallingNetwork
from ottla.observability.logging import logger
from ottla.observability.metrics import Registry
from ottla.raft.driver import RaftDriver
from ottla.raft.stopping import in_time
from ottla.replication.replicas import Replicas
from ottla.server import node_metrics
from ottla.server.broker_server import BrokerServer
from ottla.server.condition import Condition
from ottla.server.controller_server import ControllerServer
from ottla.server.metadata_observer import MetadataObserver
from ottla.server.optional_parts import make_authorizer, make_status_server
from ottla.server.settings import Settings
from ottla.server.shared_server import SharedServer, StartRefused, cannot_listen
from ottla.storage.cleaning.worker import StartWorker
from ottla.storage.directories import LogDirFailed
from ottla.storage.files import DirectoryInUse, Filesystem
from ottla.storage.inspection import Damage
from ottla.storage.manager import LogManager
from ottla.storage.verification import Verify

if TYPE_CHECKING:
    from ottla.metadata.standard_authorizer import StandardAuthorizer
    from ottla.network.http_server import HttpServer
    from ottla.server.remote_logs import RemoteLogsOfNode
    from ottla.tiered.pool import Background
    from ottla.tiered.store import RemoteStore

log = logger(__name__)

SERVED_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Node:
    def __init__(
        self,
        config: BrokerConfig,
        *,
        filesystem: Filesystem,
        network: DiallingNetwork,
        scheduler: Scheduler,
        chance: Chance,
        on_failure: Callable[[], None],
        start_cleaner: StartWorker | None = None,
        remote_store: "RemoteStore | None" = None,
        remote_background: "Background | None" = None,
    ) -> None:
        """``on_failure`` is called when the node cannot go on and is to be stopped."""
        self.config = config
        self.ports: dict[str, int] = {}
        """The port of each listener, once it is bound."""
        self.failure: BaseException | None = None
        """Why the node ends by itself, when it does."""
        self._on_failure = on_failure
        self.metadata = MetadataCache()
        """The cluster as this node knows it, and what is told when that changes."""
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
        self._shared = SharedServer(
            config=config,
            filesystem=filesystem,
            network=network,
            scheduler=scheduler,
            chance=chance,
            metadata=self.metadata,
            logs=self.logs,
            failed=self._failed,
        )
        self._start_cleaner = start_cleaner
        self._remote_store = remote_store
        self._remote_background = remote_background
        self._channel: NetworkChannel | None = None
        self._controller: ControllerServer | None = None
        self._observer: MetadataObserver | None = None
        self._broker: BrokerServer | None = None
        self._http: HttpServer | None = None
        self._stopping = False

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node knows it."""
        return self.metadata.image

    @property
    def metrics(self) -> Registry:
        """All that is counted in this node, by Kafka's names."""
        return self._shared.metrics

    @property
    def port(self) -> int:
        """The port of the first listener for clients."""
        return self.ports[self.config.broker_listeners[0].name]

    @property
    def raft(self) -> RaftDriver | None:
        """This node's part in the quorum, once it is put together."""
        if self._controller is not None:
            return self._controller.driver.raft
        return None if self._observer is None else self._observer.raft

    @property
    def replicas(self) -> Replicas | None:
        """What a broker has of partitions; None for a controller alone."""
        return None if self._broker is None else self._broker.replicas

    @property
    def coordinators(self) -> tuple[GroupService, TransactionService] | None:
        """Those of a broker; None for a controller alone."""
        return None if self._broker is None else self._broker.coordinators

    @property
    def remote_logs(self) -> "RemoteLogsOfNode | None":
        """Of a broker whose logs have remote parts, once they are open."""
        return None if self._broker is None else self._broker.remote_logs

    # Start

    def start(self) -> Promise[None]:
        return run(self._shared.scheduler.turn, self._start())

    async def _start(self) -> None:
        self._refuse_false_safety()
        self._shared.secure()
        self._show_status()
        channel = self._channel = self._shared.raft_channel()
        authorizer = self._make_authorizer()
        try:
            self.logs.lock()
        except DirectoryInUse as error:
            raise StartRefused(str(error)) from error
        self._shared.cluster_id = self._cluster_id()
        if self.config.is_controller:
            self._controller = ControllerServer(self._shared, channel)
            self.ports.update(self._controller.ports)
        else:
            self._observer = self._make_observer(channel)
        node_metrics.register_metadata(self.metrics, self.metadata)
        node_metrics.register_storage(self.metrics, self.logs)
        if self.config.is_broker:
            self._broker = self._make_broker()
            self.ports.update(self._broker.ports)
        await self._join_quorum()
        assert self.raft is not None
        node_metrics.register_raft(self.metrics, self.raft)
        if authorizer is not None:
            authorizer.loaded()
        self._go_on()
        if self._broker is not None:
            await self._broker.register()
            self._go_on()
            self._broker.serve()
        log.info("serving", node=self.config.node_id, ports=self.ports)

    def _show_status(self) -> None:
        """From the beginning: a start may take long, and somebody waits to see why."""
        listeners = self.config.http_listeners
        if not listeners:
            return
        shared = self._shared
        http = self._http = make_status_server(
            shared.network, shared.scheduler, self.config, self.metrics, self.health, self.readiness
        )
        for listener in listeners:
            try:
                port = http.listen(listener.host, listener.port)
            except OSError as error:
                raise StartRefused(cannot_listen(listener, error)) from error
            self.ports.setdefault(listener.name, port)

    def health(self) -> Condition:
        """Whether the process is of use, as far as it knows itself."""
        reasons = () if self.failure is None else (f"the node ends: {self.failure!r}",)
        offline = [each for each in self.logs.directories if not each.is_online]
        warnings = (f"log directory {each.path} is offline: {each.failure}" for each in offline)
        return Condition(reasons, tuple(warnings))

    def readiness(self) -> Condition:
        """Whether clients are served, and what it waits for when they are not."""
        reasons, warnings = self.health()
        if self._stopping:
            return Condition((*reasons, "the node stops"), warnings)
        raft = self.raft
        if raft is None or not raft.is_caught_up:
            reasons = (*reasons, "the metadata log is not followed yet")
        elif self._broker is not None:
            reasons = (*reasons, *self._broker.unready())
        return Condition(reasons, warnings)

    def _go_on(self) -> None:
        if self._stopping:
            raise StartRefused("the node was stopped before it served")

    def _refuse_false_safety(self) -> None:
        """A client that asks for protection that is not there must not be served without it."""
        for listener in self.config.listeners:
            if listener.security_protocol not in SERVED_PROTOCOLS:
                raise StartRefused(
                    f"{listener} asks for {listener.security_protocol}, which is not served: "
                    f"only {', '.join(SERVED_PROTOCOLS)} are"
                )
        if self.config.client_quota_callback_class is not None:
            raise StartRefused(
                f"client.quota.callback.class={self.config.client_quota_callback_class} names a "
                "Java class, and there is no Java here: limit clients by quotas, or remove it"
            )

    def _make_authorizer(self) -> "StandardAuthorizer | None":
        """It hears of each image before all others: nothing is decided by ACLs of before."""
        config = self.config
        try:
            settings = authorizer_settings(config.authorizer_class_name, config.originals)
        except InvalidConfig as error:
            raise StartRefused(error.message) from error
        if settings is None:
            return None
        authorizer = make_authorizer(settings, self._shared.scheduler, self.metrics)
        self.metadata.on_image(authorizer.changed)
        self._shared.authorizer = authorizer
        return authorizer

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

    def _make_observer(self, channel: NetworkChannel) -> MetadataObserver:
        shared = self._shared
        return MetadataObserver(
            self.config,
            cluster_id=shared.cluster_id,
            directory_id=shared.metadata_directory_id(),
            filesystem=shared.filesystem,
            scheduler=shared.scheduler,
            chance=shared.chance,
            metadata=self.metadata,
            on_failure=self._failed,
            channel=channel,
        )

    def _make_broker(self) -> BrokerServer:
        assert self.raft is not None
        return BrokerServer(
            self._shared,
            self._settings,
            self.raft,
            self._controller,
            start_cleaner=self._start_cleaner,
            remote_store=self._remote_store,
            remote_background=self._remote_background,
        )

    def _join_quorum(self) -> Promise[None]:
        """Fulfilled when it is known what is committed."""
        if self._controller is not None:
            return self._controller.start()
        assert self._observer is not None
        return self._observer.start()

    # When something breaks

    def _failed(self, error: BaseException) -> None:
        """The metadata log cannot be written, or nothing is left to write to: the node ends.

        A controller that goes on without its log could not keep its word.
        """
        if self.failure is not None:
            return
        log.error("the node ends", reason=repr(error))
        self.failure = error
        self._shared.scheduler.turn.enqueue(self._on_failure)

    # Stop

    def stop(self) -> Promise[None]:
        self._stopping = True
        return run(self._shared.scheduler.turn, self._stop())

    def hurry(self) -> None:
        """While it stops: do not wait until leaderships have moved away."""
        if self._broker is not None:
            self._broker.hurry()

    async def _stop(self) -> None:
        try:
            await self._stop_halves()
        finally:
            if self._http is not None:
                self._http.close()

    async def _stop_halves(self) -> None:
        if self._broker is not None:
            if self.failure is None:
                await self._broker.leave()
            await self._broker.stop()
        if self._controller is not None:
            await self._controller.stop()
        if self._observer is not None:
            try:
                around = self._shared
                stopped = self._observer.stop()
                await in_time(stopped, around.scheduler, around.config.metadata_log_dir)
            except LogDirFailed as failure:
                log.error("the metadata log was not closed", reason=failure.message)
        if self._channel is not None:
            self._channel.close()
            self._shared.secured.close()
            self._shared.logins.stop()
        if self._broker is not None:
            await self._broker.close_logs()
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
