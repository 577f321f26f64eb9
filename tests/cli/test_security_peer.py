"""``ottla acls``, ``users``, ``quotas`` and ``tokens`` against Apache Kafka."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.config.authorizer import STANDARD_AUTHORIZER
from ottla.config.properties import format_properties

pytestmark = [pytest.mark.peer, pytest.mark.timeout(240)]
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="admin" password="admin-secret" user_admin="admin-secret" user_alice="alice-secret";'
)
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": PLAIN,
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": SCRAM,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": "not-so-secret",
}


class Kafka(Command):
    def __init__(self, bootstrap: str, file: Path) -> None:
        super().__init__(bootstrap)
        self.file = file
        self.be(mechanism="PLAIN", username="admin", password="admin-secret")

    def be(self, *, mechanism: str, username: str, password: str, **options: str) -> None:
        module = (PLAIN if mechanism == "PLAIN" else SCRAM).split(maxsplit=1)[0]
        more = " ".join(f"{name}={value}" for name, value in options.items())
        entry = f'{module} required username="{username}" password="{password}" {more};'
        login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        self.file.write_text(format_properties({**login, "sasl.jaas.config": entry}))

    def __call__(self, *words: str, code: int = 0, stdin: str | bytes = "") -> tuple[str, str]:
        more = ("--command-config", str(self.file), "--timeout", "30")
        return super().__call__(*words, *more, code=code, stdin=stdin)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("kafka")
    with BrokerProcess(apache_kafka(heap=("-Xmx512M",)), directory, SETTINGS) as process:
        yield process.bootstrap_servers


@pytest.fixture
def kafka(running: str, tmp_path: Path) -> Kafka:
    return Kafka(running, tmp_path / "client.properties")


def test_acls(kafka: Kafka) -> None:
    kafka.out("acls", "add", "--allow-principal", "alice", "--producer", "--topic", "t",
              "--transactional-id", "x")  # fmt: skip
    listed = kafka.document("acls", "list", "--topic", "t")["acls"]
    assert sorted(each["operation"] for each in listed) == ["create", "describe", "write"]
    kafka.out("acls", "check", "alice", "write", "--topic", "t", "--transactional-id", "x")
    assert len(kafka.document("acls", "remove", "--principal", "alice", "-y")["removed"]) == 5


def test_users(kafka: Kafka) -> None:
    kafka("users", "add", "carol", "--password-file", "-", stdin="carol-secret\n")
    assert kafka.document("users", "list")["users"] == [
        {"user": "carol", "mechanism": "SCRAM-SHA-512", "iterations": 4096}
    ]
    kafka.be(mechanism="SCRAM-SHA-512", username="carol", password="carol-secret")
    kafka("topics", "list")
    kafka.be(mechanism="PLAIN", username="admin", password="admin-secret")
    kafka("users", "remove", "carol", "-y")


def test_quotas(kafka: Kafka) -> None:
    rate = "producer_byte_rate=1048576"
    kafka("quotas", "set", rate, "consumer_byte_rate=2097152", "--user", "alice")
    kafka("quotas", "set", rate, "--user", "alice", "--client-id", "app")
    kafka("quotas", "set", rate, "--user-defaults")
    kafka("quotas", "set", "connection_creation_rate=5", "--ip", "127.0.0.9")
    kafka("quotas", "set", rate, "--client-id", "dry", "--dry-run")
    listed = kafka.document("quotas", "list")["quotas"]
    assert [(each["user"], each["client_id"], each["ip"], each["value"]) for each in listed] == [
        (None, None, "127.0.0.9", 5.0),
        ("<default>", None, None, 1048576.0),
        ("alice", None, None, 2097152.0),
        ("alice", None, None, 1048576.0),
        ("alice", "app", None, 1048576.0),
    ]
    of_alice = kafka.document("quotas", "list", "--user", "alice", "--exact")["quotas"]
    assert [each["quota"] for each in of_alice] == ["consumer_byte_rate", "producer_byte_rate"]
    assert "-y says yes" in kafka("quotas", "remove", "--user", "alice", code=2)[1]
    one = kafka.document("quotas", "remove", "producer_byte_rate", "--user", "alice", "-y")
    assert [each["quota"] for each in one["removed"]] == ["producer_byte_rate"]
    for whose in (("--user", "alice"), ("--user", "alice", "--client-id", "app"),
                  ("--user-defaults",), ("--ip", "127.0.0.9")):  # fmt: skip
        dry = kafka.document("quotas", "remove", *whose, "--dry-run")["removed"]
        assert [each["dry_run"] for each in dry] == [True]
        assert len(kafka.document("quotas", "remove", *whose, "-y")["removed"]) == 1
    eventually(lambda: kafka.document("quotas", "list")["quotas"] == [])


def test_tokens(kafka: Kafka) -> None:
    words = ("--renewer", "User:alice", "--max-life", "P1D")
    (made,) = kafka.document("tokens", "create", *words)["created"]
    secret = made["hmac"]
    assert base64.b64decode(secret)
    assert made["max_timestamp"] - made["issue_timestamp"] == 86_400_000
    eventually(lambda: made["token_id"] in kafka.out("tokens", "list"))
    assert secret not in kafka.out("tokens", "list", "--json")
    (renewed,) = kafka.document("tokens", "renew", made["token_id"], "--for", "PT1H")["renewed"]
    assert renewed["expiry_timestamp"] < made["expiry_timestamp"]
    kafka.be(mechanism="SCRAM-SHA-512", username=made["token_id"], password=secret,
             tokenauth="true")  # fmt: skip
    kafka("topics", "list")
    kafka.be(mechanism="PLAIN", username="admin", password="admin-secret")
    assert "there is no token" in kafka("tokens", "expire", "other", "-y", code=1)[1]
    kafka("tokens", "expire", made["token_id"], "--dry-run")
    kafka("tokens", "expire", made["token_id"], "-y")
    eventually(lambda: kafka.document("tokens", "list")["tokens"] == [])
