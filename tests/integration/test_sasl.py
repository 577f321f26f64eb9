"""Real clients log in by SASL; those with a wrong password do not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, UserScramCredentialUpsertion
from confluent_kafka.admin import ScramMechanism as ConfluentMechanism
from kafka import KafkaProducer
from kafka.errors import KafkaError
from kafka.net.compat import KafkaNetClient
from tests.cli.command import Command
from tests.integration.clients import run_whole

from ottla.client.admin import Admin
from ottla.client.security import security_of
from ottla.client.system_time import SystemTime
from ottla.common.errors import SaslAuthenticationFailed
from ottla.testing.broker import Broker

PLAIN_USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD = "alice-secret"


def secured(**more: str) -> dict[str, str]:
    """Logins on all listeners of a node."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.controller.plain.sasl.jaas.config": PLAIN_USERS,
        "listener.name.plaintext.scram-sha-256.sasl.jaas.config": SCRAM,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
        **more,
    }


def properties(broker: Broker, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """With alice as a user of all mechanisms."""
    with Broker(config=secured()) as broker:
        admin = AdminClient({**properties(broker, "PLAIN")})
        for mechanism in (ConfluentMechanism.SCRAM_SHA_256, ConfluentMechanism.SCRAM_SHA_512):
            wanted = UserScramCredentialUpsertion(
                "alice", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode()
            )
            for done in admin.alter_user_scram_credentials([wanted]).values():
                done.result(10)
        yield broker


def test_users_are_described_without_their_secrets(broker: Broker) -> None:
    admin = AdminClient({**properties(broker, "PLAIN")})
    described = admin.describe_user_scram_credentials(["alice"])
    assert isinstance(described, dict)
    found = described["alice"].result(10)
    infos = {(str(info.mechanism), info.iterations) for info in found.scram_credential_infos}
    assert infos == {
        ("ScramMechanism.SCRAM_SHA_256", 4096),
        ("ScramMechanism.SCRAM_SHA_512", 4096),
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(broker: Broker, mechanism: str) -> None:
    topic = f"confluent-{mechanism}"
    producer = Producer(properties(broker, mechanism))
    producer.produce(topic, b"value")
    assert producer.flush(20) == 0
    reading = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**properties(broker, mechanism), **reading})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka_with_a_wrong_password(broker: Broker, mechanism: str) -> None:
    errors: list[str] = []
    producer = Producer(
        {
            **properties(broker, mechanism, "wrong"),
            "error_cb": lambda error: errors.append(error.name()),
            "log_level": 0,
        }
    )
    producer.produce("refused", b"value")
    producer.flush(1)
    assert "_AUTHENTICATION" in errors
    producer.purge()
    producer.flush(1)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Broker, mechanism: str) -> None:
    settings = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
    }
    producer = KafkaProducer(**settings, sasl_plain_password=PASSWORD)
    assert producer.send(f"python-{mechanism}", b"value").get(20).offset == 0
    producer.close()
    with own_network() as network, pytest.raises(KafkaError):
        KafkaProducer(
            **settings,
            sasl_plain_password="wrong",
            max_block_ms=1500,
            bootstrap_timeout_ms=1500,
            kafka_client=network,
        )


@contextmanager
def own_network() -> Iterator[Callable[..., KafkaNetClient]]:
    """The network side of a client of kafka-python; one that fails to begin leaves it open."""
    made: list[KafkaNetClient] = []

    def make(**settings: object) -> KafkaNetClient:
        made.append(KafkaNetClient(**settings))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: Broker, mechanism: str) -> None:
    async def send(password: str) -> int:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=password,
        )
        try:
            await producer.start()
            sent = await producer.send_and_wait(f"aio-{mechanism}", b"value")
            return int(sent.offset)
        finally:
            await producer.stop()

    assert run_whole(send(PASSWORD)) == 0
    with pytest.raises(AioKafkaError):
        run_whole(send("wrong"))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_client(broker: Broker, mechanism: str) -> None:
    def admin(password: str) -> Admin:
        given = properties(broker, mechanism, password)
        return Admin(broker.bootstrap_servers, security=security_of(given))

    with admin(PASSWORD) as ours:
        ours.create_topics({f"ours-{mechanism}": 1})
        assert f"ours-{mechanism}" in ours.list_topics()
    with admin("wrong-secret") as ours, pytest.raises(SaslAuthenticationFailed) as refused:
        ours.list_topics()
    assert "wrong-secret" not in str(refused.value)


def test_the_command_line(broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="alice" password="{PASSWORD}";\n'
    )
    ottla = Command(broker.bootstrap_servers)
    ottla("topics", "create", "by-command", "--command-config", str(file))
    assert "by-command" in ottla.out("topics", "list", "--command-config", str(file))
    file.write_text(file.read_text().replace(PASSWORD, "wrong-secret"))
    out, err = ottla("topics", "list", "--command-config", str(file), code=1)
    assert "invalid credentials" in err
    assert "wrong-secret" not in out + err


def test_sessions_go_on(tmp_path: Path) -> None:
    """KIP-368, by librdkafka and by our own client."""
    with Broker(config=secured(**{"connections.max.reauth.ms": "1500"})) as broker:
        given = properties(broker, "PLAIN")
        producer = Producer(given)
        with Admin(broker.bootstrap_servers, security=security_of(given)) as ours:
            clock = SystemTime()
            until = clock.monotonic() + 5
            while clock.monotonic() < until:
                producer.produce("sessions", b"value")
                assert producer.flush(10) == 0
                ours.list_topics()
                clock.wait(0.3)
