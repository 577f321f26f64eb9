"""All clients get in over SASL_SSL by all mechanisms, by what ``Broker(security=)`` tells."""

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as PythonTokenProvider
from tests.cli.command import Command
from tests.integration.clients import run_whole
from tools.kafka_peer import peer

from ottla.client import consumer as ours_reading
from ottla.client import producer as ours_writing
from ottla.client.admin import Admin
from ottla.client.errors import TlsFailed
from ottla.client.offsets import EARLIEST
from ottla.common.errors import SaslAuthenticationFailed
from ottla.common.topic_partition import TopicPartition
from ottla.config.properties import format_properties
from ottla.security.oauthbearer import unsecured_client
from ottla.server.local_security import MECHANISMS, PROTOCOLS
from ottla.testing import Broker, Cluster


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="sasl_ssl") as made:
        yield made


def arrives(properties: dict[str, str], topic: str) -> None:
    """By librdkafka, there and back."""
    producer = Producer(properties)
    producer.produce(topic, b"value")
    assert producer.flush(20) == 0
    consumer = Consumer({**properties, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    consumer.close()
    assert message is not None
    assert message.value() == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(broker: Broker, mechanism: str) -> None:
    arrives(broker.librdkafka_properties(mechanism=mechanism), f"confluent-{mechanism}")


@pytest.mark.parametrize("protocol", ["ssl", "sasl_plaintext"])
def test_the_other_protocols(protocol: str) -> None:
    with Broker(security=protocol) as broker:
        arrives(broker.librdkafka_properties(), "other")
        # Our own client takes librdkafka's names and Kafka's.
        for properties in (broker.librdkafka_properties("bob"), broker.client_properties("bob")):
            command = Command(broker.bootstrap_servers)
            words = [word for each in properties.items() for word in ("-X", "=".join(each))]
            assert "other" in command.out("topics", "list", *words)


def context(broker: Broker) -> ssl.SSLContext:
    assert broker.security is not None
    return ssl.create_default_context(cafile=str(broker.security.authority))


def python_settings(broker: Broker, mechanism: str) -> dict[str, Any]:
    assert broker.security is not None
    return {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_context": context(broker),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": broker.security.password("alice"),
    }


def token() -> str:
    import time

    new = unsecured_client(
        {"unsecuredLoginStringClaim_sub": "alice"}, "", lambda: int(time.time() * 1000)
    )
    first = new().first().decode()
    return first.split("Bearer ", 1)[1].split("\x01", 1)[0]


class AioTokens(AioTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return token()


class PythonTokens(PythonTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return token()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: Broker, mechanism: str) -> None:
    settings, topic = python_settings(broker, mechanism), f"python-{mechanism}"
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = PythonTokens()
    producer = KafkaProducer(**settings)
    assert producer.send(topic, b"value").get(20).offset == 0
    producer.close()
    consumer = KafkaConsumer(topic, **settings, auto_offset_reset="earliest")
    assert next(iter(consumer)).value == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(broker: Broker, mechanism: str) -> None:
    settings, topic = python_settings(broker, mechanism), f"aio-{mechanism}"
    if mechanism == "OAUTHBEARER":
        del settings["sasl_plain_username"], settings["sasl_plain_password"]
        settings["sasl_oauth_token_provider"] = AioTokens()

    async def there_and_back() -> bytes | None:
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest") as consumer:
            message = await asyncio.wait_for(consumer.getone(), 20)
            return message.value if isinstance(message.value, bytes) else None

    assert run_whole(there_and_back()) == b"value"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_own_client(broker: Broker, mechanism: str) -> None:
    security, topic = broker.client_security("alice", mechanism), f"ours-{mechanism}"
    with ours_writing.Producer(broker.bootstrap_servers, security=security) as producer:
        producer.send(topic, b"value")
    with ours_reading.Consumer(broker.bootstrap_servers, security=security) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign({where: EARLIEST})
        assert [record.value for record in consumer.poll(20_000)[where]] == [b"value"]


def test_who_does_not_belong_there_is_told_why_at_once(broker: Broker) -> None:
    assert broker.security is not None
    servers = broker.bootstrap_servers
    with Admin(servers) as admin, pytest.raises(TlsFailed, match="it speaks TLS"):
        admin.list_topics()
    with (
        Broker(security="ssl") as other,
        Admin(servers, security=other.client_security()) as admin,
        pytest.raises(TlsFailed, match="certificate is not accepted"),
    ):
        admin.list_topics()
    from ottla.client.security import security_of

    properties = broker.client_properties()
    wrong = properties["sasl.jaas.config"].replace(broker.security.password("alice"), "wrong")
    security = security_of({**properties, "sasl.jaas.config": wrong})
    with Admin(servers, security=security) as admin, pytest.raises(SaslAuthenticationFailed):
        admin.list_topics()


def test_a_secured_broker_starts_again_with_its_users(tmp_path: Path) -> None:
    for _ in range(2):
        with Broker(security="sasl_ssl", directory=str(tmp_path)) as broker:
            with Admin(broker.bootstrap_servers, security=broker.client_security()) as admin:
                admin.list_topics()
            broker.stop()
            broker.start()
            with Admin(broker.bootstrap_servers, security=broker.client_security()) as admin:
                admin.list_topics()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", [each.lower() for each in PROTOCOLS])
def test_a_secured_cluster(protocol: str) -> None:
    with Cluster(3, security=protocol) as cluster:
        arrives({**cluster.librdkafka_properties(), "acks": "all"}, "replicated")
        cluster.wait_until_in_sync()
        cluster.restart(cluster.leader("replicated"))
        cluster.wait_until_in_sync()


def test_a_broker_without_security_says_only_where_it_is() -> None:
    with Broker() as broker:
        assert broker.client_properties() == {"bootstrap.servers": broker.bootstrap_servers}
        arrives(broker.librdkafka_properties(), "plain")
    with pytest.raises(ValueError, match="one of ssl, sasl_plaintext, sasl_ssl"):
        Broker(security="tls")


@pytest.mark.peer
@pytest.mark.timeout(240)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_java_client(broker: Broker, mechanism: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(format_properties(broker.client_properties(mechanism=mechanism)))
    topic = f"java-{mechanism}"

    def tool(name: str, *words: str, stdin: str = "") -> str:
        done = subprocess.run(
            [*peer.tool_command(name), "--bootstrap-server", broker.bootstrap_servers, *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env=peer.environment(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    tool("kafka-console-producer", "--topic", topic, "--command-config", str(file), stdin="value\n")
    read = ("--from-beginning", "--max-messages", "1", "--command-config", str(file))
    assert tool("kafka-console-consumer", "--topic", topic, *read).strip() == "value"
