"""confluent-kafka with signed tokens: who has a good one gets in, and nobody else."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from tests.security.signing import STRANGER, claims, jwk, jwks, signed, written
from tests.server.test_signing_keys import settings

from ottla.testing.broker import Broker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    file = tmp_path_factory.mktemp("jwks") / "jwks.json"
    file.write_bytes(jwks(jwk("rsa"), jwk("ec")))
    more = {
        "sasl.oauthbearer.expected.audience": "ottla",
        "sasl.oauthbearer.expected.issuer": "https://issuer.example",
    }
    with Broker(config=settings(file.as_uri(), **more)) as broker:
        yield broker


def good(**changed: object) -> dict[str, Any]:
    named = {"aud": "ottla", "iss": "https://issuer.example", **changed}
    return claims(int(time.time()), **named)


def by_token(broker: Broker, token: Callable[[], str], **more: object) -> dict[str, Any]:
    def oauth(_config: object) -> tuple[str, float]:
        return token(), time.time() + 300

    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": oauth,
        **more,
    }


@pytest.mark.parametrize("key_id", ["rsa", "ec"])
def test_a_signed_token_lets_in(broker: Broker, key_id: str, tmp_path: Path) -> None:
    topic = f"signed-{key_id}"
    given = by_token(broker, lambda: signed(good(), key_id=key_id))
    producer = Producer(given)
    producer.produce(topic, b"value")
    assert producer.flush(20) == 0
    consumer = Consumer({**given, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    message = consumer.poll(20)
    assert message is not None
    assert message.value() == b"value"
    consumer.close()


@pytest.mark.parametrize(
    "token",
    [
        lambda: written({"alg": "none"}, good()),
        lambda: signed(good(), STRANGER),
        lambda: signed(good(), key_id="ed"),
        lambda: signed(good(aud="others")),
        lambda: signed(good(iss="others")),
        lambda: signed(claims(int(time.time()) - 3600, aud="ottla", iss="https://issuer.example")),
        lambda: signed(good(nbf=int(time.time()) + 3600)),
        lambda: signed(good(sub=None)),
    ],
    ids=["none", "key", "key id", "audience", "issuer", "expired", "not yet", "nobody"],
)
def test_a_bad_token_does_not(broker: Broker, token: Callable[[], str]) -> None:
    errors: list[str] = []
    producer = Producer(
        by_token(broker, token, error_cb=lambda error: errors.append(error.name()), log_level=0)
    )
    producer.produce("refused", b"value")
    producer.flush(1.5)
    assert "_AUTHENTICATION" in errors
    producer.purge()
    producer.flush(1)
