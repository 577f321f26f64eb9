"""Metadata's shared parts say, byte by byte, what would be worked out for each request alone."""

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.handlers.broker import CLUSTER_ID, NODE_ID, Broker, Peer
from tests.handlers.plain_metadata import PlainMetadata

from ottla.common.identifiers import LOST_DIRECTORY, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY
from ottla.common.promise import Promise
from ottla.handlers import metadata
from ottla.metadata.brokers import BrokerImage, Endpoint
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage
from ottla.protocol.generated import metadata_records as r
from ottla.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.message import to_bytes
from ottla.requests.context import RequestContext

VERSIONS = range(14)
LISTENERS = ("PLAINTEXT", "INSIDE")
NODES = (NODE_ID, 2, 3)
NAMES = ("a", "b", "__consumer_offsets", "long-" + "x" * 200)
UNKNOWN = ("nope", "bad/", "__transaction_state")
DIRECTORIES = (b"D" * 16, b"E" * 16)
NO_SUCH_ID = b"\xff" * 16
OPERATIONS_OF_CLUSTER = range(8, 11)
IDS_FROM = 12


def answer_of(broker: Broker, request: MetadataRequest, version: int, peer: Peer) -> bytes:
    frame = memoryview(to_bytes(request, version))
    context = RequestContext(version=version, correlation_id=5, peer=peer)
    answer = metadata.HANDLER.answer(frame, 0, context, broker.services)
    broker.scheduler.run_for(1)
    if isinstance(answer, Promise):
        answer = answer.result()
    return answer if isinstance(answer, bytes) else b"".join(map(bytes, answer))  # type: ignore[arg-type]


def check(broker: Broker, request: MetadataRequest, version: int, peer: Peer) -> None:
    plain = PlainMetadata(
        broker.metadata.image, version, peer.listener_name, NODE_ID, peer.local_host
    )
    body = to_bytes(plain.answer(request, CLUSTER_ID), version)
    header = pack(">iB", 5, 0) if version >= 9 else pack(">i", 5)
    expected = pack(">i", len(header) + len(body)) + header + body
    assert answer_of(broker, request, version, peer) == expected
    assert broker.mistakes.told == []


# Requests


def of_names(*names: str) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=name) for name in names]


def of_ids(*ids: bytes) -> list[MetadataRequestTopic]:
    return [MetadataRequestTopic(name=None, topic_id=topic_id) for topic_id in ids]


def topic_id_of(name: str, generation: int = 0) -> bytes:
    return (name.encode() + bytes(15))[:15] + bytes([generation])


@st.composite
def asked(draw: st.DrawFn) -> tuple[int, MetadataRequest]:
    version = draw(st.sampled_from(VERSIONS))
    names = st.lists(st.sampled_from(NAMES + UNKNOWN), max_size=4).map(lambda n: of_names(*n))
    kinds: list[st.SearchStrategy[list[MetadataRequestTopic] | None]] = [names]
    if version > 0:
        kinds.append(st.none())
    if version >= IDS_FROM:
        ids = st.sampled_from([*map(topic_id_of, NAMES), NO_SUCH_ID])
        kinds.append(st.lists(ids, max_size=4).map(lambda n: of_ids(*n)))
    return version, MetadataRequest(
        topics=draw(st.one_of(kinds)),
        allow_auto_topic_creation=version < 4,
        include_cluster_authorized_operations=(
            version in OPERATIONS_OF_CLUSTER and draw(st.booleans())
        ),
        include_topic_authorized_operations=version >= 8 and draw(st.booleans()),
    )


peers = st.builds(Peer, st.sampled_from(LISTENERS), st.sampled_from(["10.0.0.1", "10.0.0.2"]))


# Images

hosts = st.sampled_from(["", "h1", "h2"])
listeners = st.dictionaries(st.sampled_from(LISTENERS), hosts)
log_dirs = st.lists(st.sampled_from(DIRECTORIES), unique=True)
racks = st.none() | st.just("r")
directories = st.sampled_from(
    [*DIRECTORIES, UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY, LOST_DIRECTORY]
)


@st.composite
def brokers(draw: st.DrawFn) -> dict[int, BrokerImage]:
    return {
        node_id: BrokerImage(
            node_id=node_id,
            epoch=1,
            incarnation_id=bytes(16),
            listeners={
                name: Endpoint(name, host, 9000 + node_id, 0)
                for name, host in draw(listeners).items()
            },
            features={},
            rack=draw(racks),
            fenced=draw(st.booleans()),
            in_controlled_shutdown=draw(st.booleans()),
            log_dirs=tuple(draw(log_dirs)),
        )
        for node_id in draw(st.sets(st.sampled_from(NODES)))
    }


@st.composite
def partitions(draw: st.DrawFn) -> PartitionImage:
    replicas = tuple(draw(st.lists(st.sampled_from((*NODES, 9)), unique=True, min_size=1)))
    return PartitionImage(
        replicas=replicas,
        isr=tuple(draw(st.lists(st.sampled_from(replicas), unique=True))),
        leader=draw(st.sampled_from((*replicas, -1))),
        leader_epoch=draw(st.integers(0, 3)),
        partition_epoch=0,
        directories=tuple(draw(directories) for _ in replicas),
    )


@st.composite
def topics(draw: st.DrawFn) -> TopicsImage:
    found = [
        TopicImage(
            name,
            topic_id_of(name),
            {index: draw(partitions()) for index in draw(st.permutations(range(3)))},
        )
        for name in draw(st.sets(st.sampled_from(NAMES)))
    ]
    return TopicsImage(
        {topic.name: topic for topic in found}, {topic.topic_id: topic for topic in found}
    )


@given(
    images=st.lists(st.tuples(brokers(), topics()), min_size=1, max_size=3),
    requests=st.lists(st.tuples(asked(), peers), min_size=1, max_size=4),
)
@settings(max_examples=150)
def test_any_answer_by_any_image_is_what_the_codec_makes(
    images: list[tuple[dict[int, BrokerImage], TopicsImage]],
    requests: list[tuple[tuple[int, MetadataRequest], Peer]],
) -> None:
    broker = Broker({"auto.create.topics.enable": "false"})
    for offset, (some_brokers, some_topics) in enumerate(images):
        broker.set_image(offset=offset, brokers=some_brokers, topics=some_topics)
        for (version, request), peer in requests:
            check(broker, request, version, peer)
            check(broker, request, version, peer)


# Changes


class ChangingCluster(RuleBasedStateMachine):
    """Records change the image, as they do in a cluster; all answers stay true."""

    def __init__(self) -> None:
        super().__init__()
        self.broker = Broker({"auto.create.topics.enable": "false"})
        self.broker.set_image(brokers={})
        self.generations = dict.fromkeys(NAMES, 0)
        self.epochs: dict[int, int] = {}

    def replay(self, *records: MetadataRecord) -> None:
        image = self.broker.metadata.image
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)
        self.broker.metadata.image = delta.apply(image.offset + 1, 1)
        self.broker.services.metadata_parts.applied(self.broker.metadata.image, delta)

    @rule(
        node_id=st.sampled_from(NODES),
        at=listeners,
        rack=racks,
        dirs=log_dirs,
        fenced=st.booleans(),
    )
    def register(
        self, node_id: int, at: dict[str, str], rack: str | None, dirs: list[bytes], fenced: bool
    ) -> None:
        self.epochs[node_id] = self.epochs.get(node_id, 0) + 1
        self.replay(
            r.RegisterBrokerRecord(
                broker_id=node_id,
                broker_epoch=self.epochs[node_id],
                incarnation_id=bytes(16),
                end_points=[
                    r.BrokerEndpoint(name=name, host=host, port=9000 + node_id)
                    for name, host in at.items()
                ],
                rack=rack,
                fenced=fenced,
                log_dirs=dirs,
            )
        )

    @rule(node_id=st.sampled_from(NODES), fenced=st.booleans(), dirs=log_dirs)
    def change_broker(self, node_id: int, fenced: bool, dirs: list[bytes]) -> None:
        if node_id in self.broker.metadata.image.brokers:
            self.replay(
                r.BrokerRegistrationChangeRecord(
                    broker_id=node_id,
                    broker_epoch=self.epochs[node_id],
                    fenced=1 if fenced else -1,
                    log_dirs=dirs,
                )
            )

    @rule(node_id=st.sampled_from(NODES))
    def unregister(self, node_id: int) -> None:
        if node_id in self.broker.metadata.image.brokers:
            epoch = self.epochs[node_id]
            self.replay(r.UnregisterBrokerRecord(broker_id=node_id, broker_epoch=epoch))

    @rule(name=st.sampled_from(NAMES), delete_first=st.booleans(), made=partitions())
    def make_topic(self, name: str, delete_first: bool, made: PartitionImage) -> None:
        """Also under the name of one that is deleted in the same moment."""
        records: list[MetadataRecord] = []
        old = self.broker.metadata.image.topics.by_name.get(name)
        if old is not None:
            if not delete_first:
                return
            records.append(r.RemoveTopicRecord(topic_id=old.topic_id))
        self.generations[name] += 1
        topic_id = topic_id_of(name, self.generations[name])
        self.replay(
            *records,
            r.TopicRecord(name=name, topic_id=topic_id),
            self._partition(topic_id, 0, made),
        )

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        topic = self.broker.metadata.image.topics.by_name.get(name)
        if topic is not None:
            self.replay(r.RemoveTopicRecord(topic_id=topic.topic_id))

    @rule(name=st.sampled_from(NAMES), added=partitions())
    def add_partition(self, name: str, added: PartitionImage) -> None:
        topic = self.broker.metadata.image.topics.by_name.get(name)
        if topic is not None:
            self.replay(self._partition(topic.topic_id, len(topic.partitions), added))

    @rule(name=st.sampled_from(NAMES), changed=partitions())
    def change_partition(self, name: str, changed: PartitionImage) -> None:
        topic = self.broker.metadata.image.topics.by_name.get(name)
        if topic is not None:
            self.replay(
                r.PartitionChangeRecord(
                    partition_id=0,
                    topic_id=topic.topic_id,
                    isr=list(changed.isr),
                    replicas=list(changed.replicas),
                    leader=changed.leader,
                    directories=list(changed.directories),
                )
            )

    @rule()
    def nothing(self) -> None:
        self.replay(r.NoOpRecord())

    def _partition(
        self, topic_id: bytes, index: int, partition: PartitionImage
    ) -> r.PartitionRecord:
        return r.PartitionRecord(
            partition_id=index,
            topic_id=topic_id,
            replicas=list(partition.replicas),
            isr=list(partition.isr),
            leader=partition.leader,
            leader_epoch=partition.leader_epoch,
            directories=list(partition.directories),
        )

    @invariant()
    def answers_are_true(self) -> None:
        ids = [topic_id_of(name, number) for name, number in self.generations.items()]
        for version, listener in ((0, LISTENERS[0]), (5, LISTENERS[1]), (9, LISTENERS[0])):
            peer = Peer(listener)
            check(self.broker, MetadataRequest(topics=of_names(*NAMES)), version, peer)
        for listener in LISTENERS:
            peer = Peer(listener)
            for topics in (None, of_names(NAMES[0]), of_ids(*ids)):
                check(self.broker, MetadataRequest(topics=topics), 13, peer)


TestChangingCluster = ChangingCluster.TestCase
TestChangingCluster.settings = settings(max_examples=40, stateful_step_count=25)
