"""A broker without sockets and without a quorum: real logs on a disk in memory, images by hand.

``ask`` runs a handler to its end and sends the answer through the codec of the request's version,
so that a test sees what a client would see.
"""

from collections.abc import Mapping
from types import ModuleType
from typing import Any, TypeVar, cast

from tests.replication.alone import alone_replicas
from tests.turns import TURN, in_turn, virtual_time

from ottla.common.authorization import ANONYMOUS, Client, EverythingAllowed, Granted
from ottla.common.buffers import Answer
from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.common.identifiers import UNASSIGNED_DIRECTORY
from ottla.common.promise import Promise, failed, fulfilled
from ottla.common.topic_partition import TopicPartition
from ottla.config.broker import BrokerConfig
from ottla.config.changes import Resource
from ottla.config.topic import TopicConfig
from ottla.metadata.brokers import BrokerImage, Endpoint
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage
from ottla.protocol.encoded import Encoded
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.replication.log_moves import LogMoves
from ottla.replication.partition import Partition
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Contract, Handler
from ottla.requests.metadata_parts import MetadataParts
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.testing.files import MemoryFilesystem

NODE_ID = 1
CLUSTER_ID = "b74TbEKpQjGDJY5u9JqGeQ"
LISTENER = "PLAINTEXT"
PATHS = ("/data/first", "/data/second")

R = TypeVar("R", bound=Message)


class Metadata:
    def __init__(self) -> None:
        self.image = MetadataImage()


class Peer:
    """A client that dialled 10.0.0.1:9092."""

    def __init__(self, listener_name: str = LISTENER, local_host: str = "10.0.0.1") -> None:
        self.listener_name = listener_name
        self.peer_host = "10.0.0.9"
        self.local_host = local_host
        self.local_port = 9092
        self.granted: Granted = {}
        self.principal = ANONYMOUS
        self.held = 0
        self.muted: list[float] = []
        """For how long it was not to be read, each time."""
        self.answered_first: list[Promise[Answer]] = []
        """What was to be answered before anything else was read."""

    def hold(self, size: int) -> None:
        self.held += size

    def let_go(self, size: int) -> None:
        self.held -= size

    def answer_first(self, answer: Promise[Answer]) -> None:
        self.answered_first.append(answer)

    def mute(self, seconds: float) -> None:
        self.muted.append(seconds)


class AutoTopicsNoted:
    """Takes note of the topics that somebody asked for, and makes none."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.clients: list[Client] = []

    def create(self, names: list[str], client: Client) -> Promise[dict[str, int]]:
        self.names += names
        self.clients.append(client)
        return Promise(TURN)

    def ensure_internal(self, name: str) -> Promise[int]:
        self.names.append(name)
        return Promise(TURN)


class ProducerIdsInOrder:
    def __init__(self) -> None:
        self._next = 4000

    def next(self) -> Promise[int]:
        promise: Promise[int] = Promise(TURN)
        self._next += 1
        promise.fulfil(self._next)
        return promise


class Quorum:
    kraft_version = 1


class Mistakes:
    """Where mistakes of ours are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def exception(self, message: str, **_fields: object) -> None:
        self.told.append(message)


class ControllerHere:
    """The active controller is in this process, and takes note of what it is asked."""

    def __init__(self) -> None:
        self.local: Any = None

    def forward(
        self, request: bytes, _context: RequestContext, _timeout_ms: int | None
    ) -> Promise[bytes]:
        raise AssertionError(f"{len(request)} bytes are sent elsewhere")


class ControllerOnOrder:
    """Takes note of what it is asked, and answers what the test has prepared."""

    def __init__(self) -> None:
        self.asked: list[Message] = []
        self.answers: list[Message | ApiError] = []
        self.waiting: list[Promise[Message]] = []

    def submit(
        self, request: Message, _client: Client | None = None, *, charge: object = None
    ) -> Promise[Message]:
        del charge
        self.asked.append(request)
        promise: Promise[Message] = Promise(TURN)
        if not self.answers:
            self.waiting.append(promise)
            return promise
        answer = self.answers.pop(0)
        if isinstance(answer, ApiError):
            promise.fail(answer)
        else:
            promise.fulfil(answer)
        return promise


def registered(
    node_id: int,
    *,
    host: str | None = None,
    port: int = 9092,
    listeners: tuple[str, ...] = (LISTENER,),
    fenced: bool = False,
    rack: str | None = None,
    log_dirs: tuple[bytes, ...] = (),
) -> BrokerImage:
    address = f"broker-{node_id}" if host is None else host
    return BrokerImage(
        node_id=node_id,
        epoch=10 + node_id,
        incarnation_id=bytes(16),
        listeners={name: Endpoint(name, address, port, 0) for name in listeners},
        features={},
        rack=rack,
        fenced=fenced,
        in_controlled_shutdown=False,
        log_dirs=log_dirs,
    )


def topic_id_of(name: str) -> bytes:
    return (name.encode() + bytes(16))[:16]


class Broker:
    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self.scheduler = virtual_time(5)
        self.filesystem = MemoryFilesystem()
        self.filesystem.make_directory("/data")
        self.config = BrokerConfig.from_properties(
            {
                "process.roles": "broker,controller",
                "node.id": str(NODE_ID),
                "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{NODE_ID}@localhost:9093",
                "log.dirs": ",".join(PATHS),
                **(properties or {}),
            }
        )
        self.metadata = Metadata()
        self.logs = LogManager(
            self.filesystem,
            PATHS,
            clock=self.scheduler,
            chance=Chance(6),
            config_for=self._topic_config,
        )
        self.logs.start()
        self.replicas = alone_replicas(self.logs, self.scheduler, NODE_ID)
        self.moved: list[str] = []
        """Where logs were moved to."""
        self.log_moves = LogMoves(
            self.logs,
            self.replicas,
            self.scheduler,
            self.filesystem,
            moved=lambda _partition, to: self.moved.append(to.path),
            given_up=lambda _which, _why: None,
        )
        self.controller = ControllerOnOrder()
        self.auto_topics = AutoTopicsNoted()
        self.mistakes = Mistakes()
        forwarding = ControllerHere()
        self.services = forwarding.local = Services(
            node_id=NODE_ID,
            cluster_id=CLUSTER_ID,
            config=self.config,
            metadata=self.metadata,
            metadata_parts=MetadataParts(),
            controller=cast("Any", self.controller),
            forwarding=forwarding,
            raft=cast("Any", Quorum()),
            replicas=self.replicas,
            logs=self.logs,
            log_moves=self.log_moves,
            groups=cast("Any", None),
            transactions=cast("Any", None),
            verification=cast("Any", None),
            markers=cast("Any", None),
            auto_topics=self.auto_topics,
            producer_ids=ProducerIdsInOrder(),
            scheduler=self.scheduler,
            authorizer=EverythingAllowed(),
            mistakes=self.mistakes,
        )
        self.set_image(
            offset=55,
            features=FeaturesImage(metadata_version=30, finalized={"group.version": 1}),
            brokers={NODE_ID: registered(NODE_ID, host="")},
        )

    def _topic_config(self, topic: str) -> TopicConfig:
        own = self.metadata.image.configs_of(Resource.TOPIC, topic)
        return TopicConfig.from_broker(self.config, own)

    # The cluster

    def set_image(self, **changed: object) -> None:
        image = self.metadata.image
        fields = {name: getattr(image, name) for name in image.__slots__}
        self.metadata.image = MetadataImage(**{**fields, **changed})

    def add_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replicas: tuple[int, ...] = (NODE_ID,),
        leader: int = NODE_ID,
        leader_epoch: int = 0,
        **changed: Any,
    ) -> bytes:
        """Let the metadata log have a topic, and this broker its partitions."""
        state = PartitionImage(
            **{
                "replicas": replicas,
                "isr": replicas,
                "leader": leader,
                "leader_epoch": leader_epoch,
                "partition_epoch": 0,
                "directories": (UNASSIGNED_DIRECTORY,) * len(replicas),
                **changed,
            }
        )
        topic_id = topic_id_of(name)
        topic = TopicImage(name, topic_id, dict.fromkeys(range(partitions), state))
        topics = self.metadata.image.topics
        self.set_image(
            topics=TopicsImage({**topics.by_name, name: topic}, {**topics.by_id, topic_id: topic})
        )
        for index in range(partitions if NODE_ID in replicas else 0):
            self.replicas.apply(name, topic_id, index, state, is_new=True)
        return topic_id

    def set_configs(self, resource: Resource, name: str, settings: dict[str, str]) -> None:
        self.set_image(configs={**self.metadata.image.configs, (resource, name): settings})
        self.services.config = self.services.layers().effective()

    def partition(self, topic: str, index: int = 0) -> Partition:
        found = self.replicas.partition(topic, index)
        assert found is not None
        return found

    def produce(self, topic: str, index: int = 0, timestamps: tuple[int, ...] = (1,)) -> None:
        """Append one batch per timestamp."""
        for timestamp in timestamps:
            self.append(topic, index, build_batch([Record(timestamp=timestamp, value=b"v")]))

    def append(self, topic: str, index: int, batch: bytes | bytearray) -> None:
        frame = bytearray(batch)
        now_ms = self.scheduler.wall_ms()
        in_turn(self.partition(topic, index).append, memoryview(frame), 0, len(frame), -1, now_ms)

    def log_of(self, topic: str, index: int = 0) -> Log:
        return self.logs.logs[TopicPartition(topic, index)]

    # Requests

    def context(self, version: int, peer: Peer | None = None) -> RequestContext:
        peer = peer or Peer()
        return RequestContext(version=version, peer=peer, principal=peer.principal)

    def start(
        self,
        handler: ModuleType | Contract,
        request: Message,
        version: int,
        peer: Peer | None = None,
    ) -> Promise[Any]:
        contract = _contract(handler)
        assert contract.lowest <= version <= contract.highest
        asked = from_bytes(type(request), to_bytes(request, version), version)
        return started(contract, asked, self.context(version, peer), self.services)

    def ask(
        self,
        handler: ModuleType | Contract,
        request: Message,
        version: int,
        response: type[R],
        peer: Peer | None = None,
    ) -> R:
        """The answer as the client gets it; a refusal becomes an answer as in the dispatcher."""
        promise = self.start(handler, request, version, peer)
        return self.answer(handler, request, promise, version, response)

    def answer(
        self,
        handler: ModuleType | Contract,
        request: Message,
        promise: Promise[Any],
        version: int,
        response: type[R],
    ) -> R:
        try:
            answered = promise.result()
        except ApiError as error:
            answered = _contract(handler).refuse(request, error, version)
        if isinstance(answered, Encoded):
            return from_bytes(response, b"".join(answered.parts), version)
        assert type(answered) is response
        return from_bytes(response, to_bytes(answered, version), version)


def started(
    handler: Handler[Any, Any, Any], request: Message, context: RequestContext, services: Services
) -> Promise[Any]:
    """What becomes of a request: a promise, also of what is known or refused at once."""
    try:
        handled = handler.start(request, context, services)
    except ApiError as error:
        return failed(TURN, error)
    return handled if isinstance(handled, Promise) else fulfilled(TURN, handled)


def _contract(handler: ModuleType | Contract) -> Handler[Any, Any, Any]:
    """What a module of an API exports."""
    contract = handler.HANDLER if isinstance(handler, ModuleType) else handler
    assert isinstance(contract, Handler)
    return contract
