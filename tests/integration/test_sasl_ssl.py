"""Clients of others over SASL_SSL, with each mechanism, at a broker with an authorizer."""

import ssl
import time
from collections.abc import Iterator

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, UserScramCredentialUpsertion
from confluent_kafka.admin import ScramMechanism as ConfluentMechanism
from tests.hostile.secured import jwt
from tests.integration.clients import run_whole
from tests.integration.secured import MODULES, librdkafka, logins, secured
from tests.security import certificates
from tools.kafka_peer.broker_process import BrokerProcess, answers_over_tls, ottla

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (*MODULES, OAUTHBEARER)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its administrator logs in by all mechanisms."""
    process = BrokerProcess(ottla(), tmp_path_factory.mktemp("secured"))
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    process.settings = {
        **secured(process),
        **logins("SECURE"),
        "listener.name.secure.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.secure.oauthbearer.sasl.jaas.config": f"{module} required;",
    }
    process.answers = answers_over_tls
    process.start()
    admin = AdminClient({**librdkafka(process.bootstrap_servers, "admin")})
    for mechanism in (ConfluentMechanism.SCRAM_SHA_256, ConfluentMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            "admin", ScramCredentialInfo(mechanism, 4096), b"admin-secret"
        )
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(10)
    yield process.bootstrap_servers
    process.kill()


def context() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=certificates.authority().certificate)


def bearer() -> str:
    return jwt(sub="admin", exp=time.time() + 600)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka(servers: str, mechanism: str) -> None:
    topic = f"librdkafka-{mechanism}"
    given = librdkafka(servers, "admin", mechanism)
    more: dict[str, object] = {}
    if mechanism == OAUTHBEARER:
        del given["sasl.username"], given["sasl.password"]
        more["oauth_cb"] = lambda _config: (bearer(), time.time() + 600)
    producer = confluent_kafka.Producer({**given, **more})
    producer.produce(topic, b"value")
    assert producer.flush(20) == 0
    reading = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({**given, **more, **reading})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


@pytest.mark.parametrize("mechanism", MODULES)
def test_kafka_python(servers: str, mechanism: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_SSL",
        ssl_context=context(),
        sasl_mechanism=mechanism,
        sasl_plain_username="admin",
        sasl_plain_password="admin-secret",
    )
    assert producer.send(f"python-{mechanism}", b"value").get(20).offset == 0
    producer.close()


class Tokens(AbstractTokenProvider):  # type: ignore[misc] # has no types
    async def token(self) -> str:
        return bearer()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(servers: str, mechanism: str) -> None:
    async def send() -> int:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            security_protocol="SASL_SSL",
            ssl_context=context(),
            sasl_mechanism=mechanism,
            sasl_plain_username="admin",
            sasl_plain_password="admin-secret",
            sasl_oauth_token_provider=Tokens() if mechanism == OAUTHBEARER else None,
        )
        async with producer:
            return int((await producer.send_and_wait(f"aio-{mechanism}", b"value")).offset)

    assert run_whole(send()) == 0
