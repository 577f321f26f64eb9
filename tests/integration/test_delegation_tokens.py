"""Delegation tokens by Apache's own tool, and logins with them by the Java client and by ours."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.test_sasl import PASSWORD, SCRAM, properties, secured
from tools.kafka_peer.peer import run_tool

from ottla.client.admin import Admin
from ottla.client.security import security_of
from ottla.common.errors import SaslAuthenticationFailed
from ottla.testing.broker import Broker

pytestmark = pytest.mark.peer
MODULE = SCRAM.removesuffix(" required;")
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """All are allowed what nobody has spoken of; topics of alice are alice's alone."""
    with Broker(
        config=secured(
            **{
                "delegation.token.secret.key": "the cluster's own",
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:admin;User:alice",
            }
        )
    ) as broker:
        yield broker


def tool(broker: Broker, tmp_path: Path, *words: str) -> str:
    file = tmp_path / "alice.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="{PASSWORD}";\n'
    )
    done = run_tool(
        "kafka-delegation-tokens", "--bootstrap-server", broker.bootstrap_servers,
        "--command-config", str(file), *words,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def created(broker: Broker, tmp_path: Path) -> tuple[str, str]:
    """The id of a new token, and its HMAC as people see it."""
    told = tool(broker, tmp_path, "--create", "--max-life-time-period", "-1",
                "--renewer-principal", "User:admin")  # fmt: skip
    row = next(line for line in told.splitlines() if "User:alice" in line).split()
    return row[0], row[1]


def by_token(token_id: str, hmac: str) -> str:
    return f'{MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'


def our_admin(broker: Broker, token_id: str, hmac: str) -> Admin:
    given = {
        **properties(broker, "SCRAM-SHA-256"),
        "sasl.jaas.config": by_token(token_id, hmac),
    }
    for name in ("sasl.username", "sasl.password"):
        del given[name]
    return Admin(broker.bootstrap_servers, security=security_of(given))


def test_apaches_tool_creates_renews_describes_and_expires(broker: Broker, tmp_path: Path) -> None:
    token_id, hmac = created(broker, tmp_path)
    described = tool(broker, tmp_path, "--describe", "--owner-principal", "User:alice")
    assert token_id in described
    assert hmac in described
    assert "User:admin" in described
    renewed = tool(broker, tmp_path, "--renew", "--renew-time-period", "5000", "--hmac", hmac)
    assert re.search(r"Completed renew operation. New expiry date", renewed)
    removed = tool(broker, tmp_path, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    assert "Completed expire operation" in removed
    assert token_id not in tool(broker, tmp_path, "--describe")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_java_client_logs_in_by_a_token_as_its_owner(
    broker: Broker, tmp_path: Path, mechanism: str
) -> None:
    token_id, hmac = created(broker, tmp_path)
    file = tmp_path / "token.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        f"sasl.jaas.config={by_token(token_id, hmac)}\n"
    )
    words = ("--bootstrap-server", broker.bootstrap_servers, "--topic", f"by-token-{mechanism}")
    sent = run_tool("kafka-console-producer", *words, "--command-config", str(file), stdin="one\n")
    assert sent.returncode == 0, sent.stderr
    read = run_tool(
        "kafka-console-consumer", *words, "--command-config", str(file), "--partition", "0",
        "--offset", "earliest", "--max-messages", "1", "--timeout-ms", "20000",
    )  # fmt: skip
    assert read.stdout == "one\n", read.stderr


def test_our_client_logs_in_until_the_token_is_taken_away(broker: Broker, tmp_path: Path) -> None:
    token_id, hmac = created(broker, tmp_path)
    with our_admin(broker, token_id, hmac) as ours:
        ours.create_topics({"by-our-client": 1})  # what alice may do, and nobody else
        assert "by-our-client" in ours.list_topics()
    with our_admin(broker, token_id, "d3Jvbmc=") as ours, pytest.raises(SaslAuthenticationFailed):
        ours.list_topics()
    tool(broker, tmp_path, "--expire", "--expiry-time-period", "-1", "--hmac", hmac)
    with our_admin(broker, token_id, hmac) as ours, pytest.raises(SaslAuthenticationFailed):
        ours.list_topics()
