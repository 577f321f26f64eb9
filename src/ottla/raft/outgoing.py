"""A node's requests on their way: to an address, as Kafka's messages, and back as events."""

from typing import Protocol

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.observability.logging import logger
from ottla.protocol.message import Response
from ottla.raft.answers import AnswerReader
from ottla.raft.channel import Destination, RaftChannel
from ottla.raft.connections import FIRST_BOOTSTRAP_ID
from ottla.raft.effects import RaftRequest
from ottla.raft.events import RaftEvent, RequestFailed
from ottla.raft.log import RaftLog
from ottla.raft.node import RaftNode
from ottla.raft.requests import Sender, to_message
from ottla.raft.responses import endpoint_of
from ottla.raft.settings import RaftSettings
from ottla.raft.snapshots import SnapshotStore
from ottla.raft.voters import ReplicaKey

log = logger(__name__)


class _Driver(Protocol):
    """What carries out effects, as far as requests are concerned."""

    key: ReplicaKey
    log: RaftLog
    snapshots: SnapshotStore
    scheduler: Scheduler

    @property
    def node(self) -> RaftNode: ...

    def tell(self, event: RaftEvent) -> None: ...


class Outgoing:
    """Sends requests over a channel, and steps the node with what becomes of them."""

    __slots__ = ("_channel", "_driver", "_reader", "_sender", "_settings")

    def __init__(self, driver: _Driver, channel: RaftChannel, settings: RaftSettings) -> None:
        self._driver = driver
        self._channel = channel
        self._settings = settings
        self._reader = AnswerReader(settings.listener_name, driver.log, driver.snapshots)
        self._sender = Sender(
            settings.cluster_id,
            driver.key,
            settings.endpoints,
            settings.fetch_bytes_max,
            settings.snapshot_bytes_max,
            settings.fetch_wait_ms,
        )

    def send(self, request: RaftRequest) -> None:
        """Send; what comes of it is told as an event, never before this returns."""
        destination = self._destination(request.destination)
        if destination is None:
            self._driver.tell(RequestFailed(self._driver.scheduler.monotonic(), request))
            return
        answer = self._channel.send(destination, to_message(request, self._sender))
        answer.when_done(lambda done: self._received(request, done))

    def _destination(self, node_id: int) -> Destination | None:
        if node_id <= FIRST_BOOTSTRAP_ID:
            host, port = self._settings.bootstrap_servers[FIRST_BOOTSTRAP_ID - node_id]
            return Destination(node_id, host, port)
        node = self._driver.node
        leader = node.leader
        endpoints = leader.endpoints if node_id == leader.leader_id else ()
        found = endpoint_of(
            endpoints or node.voters.endpoints_of(node_id), self._settings.listener_name
        )
        return None if found is None else Destination(node_id, found.host, found.port)

    def _received(self, request: RaftRequest, answer: Promise[Response]) -> None:
        now = self._driver.scheduler.monotonic()
        try:
            response = answer.result()
        except Exception as error:  # noqa: BLE001 - whatever it was, there is no answer
            log.debug("no answer", request=type(request).__name__, reason=str(error))
            self._driver.tell(RequestFailed(now, request))
        else:
            self._driver.tell(self._reader.read(now, request, response))
