"""SASL_SSL between all nodes: three of ours, ours among Apache Kafka's, and the way there."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Self

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from confluent_kafka.cimpl import NewTopic
from tests.integration.secured import MODULES, STORES, librdkafka, logins, secure
from tests.waiting import eventually
from tools.kafka_peer.broker_process import (
    answers_api_versions,
    answers_over_tls,
    apache_kafka,
    free_ports,
    ottla,
)
from tools.kafka_peer.cluster_process import ClusterProcess, replicated, running

pytestmark = [pytest.mark.peer, pytest.mark.timeout(500)]

Settings = dict[str, str]
TOPIC = "kept"
SCRAM = "SCRAM-SHA-512"
PATIENT = {"acks": "all", "delivery.timeout.ms": "120000", "linger.ms": "5"}


def create(settings: Settings) -> None:
    admin = AdminClient({**settings})
    for made in admin.create_topics([NewTopic(TOPIC, 3, 3)]).values():
        made.result(60)


def leaders_and_isrs(settings: Settings) -> dict[int, tuple[int, list[int]]]:
    described = AdminClient({**settings}).list_topics(TOPIC, timeout=30).topics[TOPIC]
    return {
        number: (each.leader, sorted(each.isrs)) for number, each in described.partitions.items()
    }


def has_isr(settings: Settings, *nodes: int) -> bool:
    return all(isr == list(nodes) for _, isr in leaders_and_isrs(settings).values())


class Writer:
    """Writes numbers with acks=all, and knows which of them were acknowledged."""

    def __init__(self, settings: Settings, begin: int = 0) -> None:
        self._producer = Producer({**settings, **PATIENT})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.next = begin
        self.acknowledged: list[bytes] = []
        self.refused: list[str] = []

    def _run(self) -> None:
        pause = threading.Event()
        while not self._over.is_set():
            self._producer.produce(TOPIC, str(self.next).encode(), on_delivery=self._told)
            self.next += 1
            self._producer.poll(0)
            pause.wait(0.005)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        assert value is not None
        if error is None:
            self.acknowledged.append(value)
        else:
            self.refused.append(str(error))

    def more(self, count: int) -> None:
        """Until so many more have been acknowledged."""
        wanted = len(self.acknowledged) + count
        eventually(lambda: len(self.acknowledged) >= wanted, f"{count} more writes", seconds=120)

    def stop(self) -> None:
        self._over.set()
        self._thread.join(30)
        assert self._producer.flush(60) == 0
        assert not self.refused

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def written(settings: Settings) -> set[bytes]:
    """Everything in the topic, up to its ends."""
    consumer = Consumer({**settings, "group.id": "check", "enable.partition.eof": "true",
                         "auto.offset.reset": "earliest"})  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(3)])
    found: set[bytes] = set()
    ended: set[int | None] = set()

    def has_all() -> bool:
        for message in consumer.consume(5_000, 0.5):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                found.add(message.value() or b"")
        return len(ended) == 3

    eventually(has_all, "the end of all partitions", seconds=60)
    consumer.close()
    return found


@contextmanager
def started(cluster: ClusterProcess) -> Iterator[ClusterProcess]:
    with running(cluster) as found:
        try:
            yield found
        except BaseException:
            print(found.output())
            raise


def test_three_nodes_of_ours_replicate_and_one_takes_over(tmp_path: Path) -> None:
    with started(secure(ClusterProcess(ottla(), tmp_path))) as cluster:
        admin = librdkafka(cluster.bootstrap_servers, "admin")
        create(admin)
        with Writer(admin) as writer:
            writer.more(100)
            for number, broker in cluster.brokers.items():
                broker.kill()  # each is a leader of one, and one is the active controller
                writer.more(100)
                broker.start(timeout=60)
                eventually(lambda: has_isr(admin, 1, 2, 3), f"node {number} in sync", seconds=60)
        assert written(admin) >= set(writer.acknowledged)


def test_ours_is_a_node_among_apaches(tmp_path: Path) -> None:
    """Replicas in both directions, requests in envelopes, votes; each program leads for a while."""
    apache = apache_kafka(heap=("-Xmx256M", "-Xms256M"))
    cluster = ClusterProcess(apache, tmp_path)
    cluster.brokers[3].program = ottla()
    with started(secure(cluster)):
        admin = librdkafka(cluster.bootstrap_servers, "admin")
        create(admin)
        eventually(lambda: has_isr(admin, 1, 2, 3), "all in sync", seconds=60)
        with Writer(admin) as writer:
            writer.more(100)
            for number in (1, 3):
                cluster.brokers[number].stop()
                writer.more(100)
                cluster.brokers[number].start(timeout=120)
                eventually(lambda: has_isr(admin, 1, 2, 3), "all in sync", seconds=60)
        ours = librdkafka(cluster.brokers[3].bootstrap_servers, "admin")
        assert written(ours) >= set(writer.acknowledged)


class Ports(NamedTuple):
    """Of a node: its old and its new listener for clients, and those of its controller."""

    plain: int
    secure: int
    controller: int
    secure_controller: int


ROUNDS = (
    ("PLAINTEXT,SECURE", "PLAINTEXT", "CONTROLLER,SECURED"),
    ("PLAINTEXT,SECURE", "SECURE", "SECURED,CONTROLLER"),
    ("SECURE", "SECURE", "SECURED"),
)
"""The listeners, the one between brokers, and those of controllers, of which the first is dialled.

The new ones are added, then they are used, then the old ones go.
"""


def roll(cluster: ClusterProcess, ports: dict[int, Ports], number: int, place: int) -> None:
    """Start a node again as a round has it."""
    broker, own = cluster.brokers[number], ports[number]
    listeners, between, controllers = ROUNDS[place]
    at = {"PLAINTEXT": own.plain, "SECURE": own.secure,
          "CONTROLLER": own.controller, "SECURED": own.secure_controller}  # fmt: skip
    is_new = controllers.startswith("SECURED")
    voters = (
        f"{each}@127.0.0.1:{found.secure_controller if is_new else found.controller}"
        for each, found in ports.items()
    )
    named = f"{listeners},{controllers}".split(",")
    broker.stop()
    broker.settings = {
        **broker.settings,
        **STORES,
        **logins("SECURE"),
        **logins("SECURED"),
        "listeners": ",".join(f"{name}://127.0.0.1:{at[name]}" for name in named),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,"
        "CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        "inter.broker.listener.name": between,
        "controller.listener.names": controllers,
        "controller.quorum.voters": ",".join(voters),
        "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
    }
    if "PLAINTEXT" not in listeners:
        broker.port, broker.answers = own.secure, answers_over_tls
    broker.start(timeout=60)


def test_a_cluster_is_secured_node_by_node_without_a_lost_write(tmp_path: Path) -> None:
    """Brokers and controllers: listeners are added, then spoken by, then the old ones go."""
    cluster = ClusterProcess(ottla(), tmp_path)
    ports = {
        number: Ports(broker.port, new, broker.controller_port, new_controller)
        for number, broker in cluster.brokers.items()
        for new, new_controller in (free_ports(2),)
    }
    with started(cluster):
        plain = {"bootstrap.servers": cluster.bootstrap_servers}
        servers = ",".join(f"127.0.0.1:{each.secure}" for each in ports.values())
        admin = librdkafka(servers, "admin")
        create(plain)
        with Writer(plain) as writer:
            writer.more(100)
            for place in (0, 1):
                for number in cluster.brokers:
                    roll(cluster, ports, number, place)
                    writer.more(50)
                    eventually(lambda: has_isr(plain, 1, 2, 3), "all in sync", seconds=60)
        with Writer(admin, writer.next) as secured:
            for number in cluster.brokers:
                roll(cluster, ports, number, 2)
                secured.more(50)
                eventually(lambda: has_isr(admin, 1, 2, 3), "all in sync", seconds=60)
        assert written(admin) >= {*writer.acknowledged, *secured.acknowledged}
        for each in ports.values():
            assert not answers_api_versions(each.plain, timeout=1)
            assert not answers_api_versions(each.controller, timeout=1)
            assert answers_over_tls(each.secure_controller)


def test_brokers_log_in_by_scram_among_themselves(tmp_path: Path) -> None:
    """With a password that is there from the start, as ``--add-scram`` writes it."""
    added = f"{SCRAM}=[name=admin,password=admin-secret]"
    program = ottla()
    formatting = (*program.format_words, "--add-scram", added)
    cluster = ClusterProcess(replace(program, format_words=formatting), tmp_path)
    for broker in secure(cluster).brokers.values():
        entry = f'{MODULES[SCRAM]} required username="admin" password="admin-secret";'
        broker.settings = {
            **broker.settings,
            "sasl.mechanism.inter.broker.protocol": SCRAM,
            f"listener.name.secure.{SCRAM.lower()}.sasl.jaas.config": entry,
        }
    with started(cluster):
        admin = librdkafka(cluster.bootstrap_servers, "admin", SCRAM)
        create(admin)
        with Writer(admin) as writer:
            writer.more(100)
            eventually(lambda: has_isr(admin, 1, 2, 3), "all in sync", seconds=60)
        assert written(admin) >= set(writer.acknowledged)


def test_a_broker_and_a_controller_apart(tmp_path: Path) -> None:
    """What a client asks of the broker goes to the controller with the name of the client."""
    cluster = secure(ClusterProcess(ottla(), tmp_path, replicated(1), nodes=2))
    controller, broker = cluster.brokers.values()
    voters = f"1@127.0.0.1:{controller.controller_port}"
    for node, role, listener in ((controller, "controller", 1), (broker, "broker", 0)):
        node.settings = {
            **node.settings,
            "process.roles": role,
            "controller.quorum.voters": voters,
            "listeners": node.settings["listeners"].split(",")[listener],
        }
    controller.settings = {**controller.settings, "inter.broker.listener.name": ""}
    controller.port = controller.controller_port
    with started(cluster):
        alice = AdminClient({**librdkafka(broker.bootstrap_servers, "alice")})
        admin = AdminClient({**librdkafka(broker.bootstrap_servers, "admin")})

        def code(client: AdminClient) -> int:
            (made,) = client.create_topics([NewTopic("apart", 1, 1)]).values()
            try:
                made.result(30)
            except KafkaException as refused:
                return int(refused.args[0].code())
            return 0

        assert code(alice) == KafkaError.TOPIC_AUTHORIZATION_FAILED
        right = AclBinding(ResourceType.TOPIC, "apart", ResourcePatternType.LITERAL, "User:alice",
                           "*", AclOperation.CREATE, AclPermissionType.ALLOW)  # fmt: skip
        for added in admin.create_acls([right]).values():
            added.result(30)
        eventually(lambda: code(alice) != KafkaError.TOPIC_AUTHORIZATION_FAILED, "the right")
        assert code(admin) == KafkaError.TOPIC_ALREADY_EXISTS
