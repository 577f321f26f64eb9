"""No secret is in anything that a node or a command writes, nor in what a broker answers.

A node as a process, with known secrets of all kinds and all of its log; clients with right and
wrong passwords; what the commands say. Then every file and every word is searched.
"""

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.security import certificates
from tools.installed import IMPORT_PATH
from tools.kafka_peer.broker_process import BrokerProcess, Program, free_ports, ottla

from ottla.config.properties import format_properties
from ottla.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE

SECRETS = {
    "node": "node-password-7d1f",
    "alice": "alice-password-93ab",
    "wrong": "wrong-password-11c0",
    "carol": "carol-password-5e2e",
    "key": "key-password-c4d8",
    "token": "token-secret-key-20f4",
    "store": "store-secret-key-8a7b",
    "altered": "altered-password-6f6f",
}
CLAIM = "unsecured-claim-of-mallory"


def encrypted_key() -> str:
    key = load_pem_private_key(certificates.server().key.encode(), None)
    made = key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(SECRETS["key"].encode())
    )
    return made.decode()


KEY = encrypted_key()


def settings(port: int, controller_port: int, secured_port: int) -> dict[str, str]:
    """A plain listener is there for the probe that waits for the start."""
    users = f'user_node="{SECRETS["node"]}" user_alice="{SECRETS["alice"]}"'
    login = f'username="node" password="{SECRETS["node"]}"'
    plain = f"{PLAIN_MODULE} required {login} {users};"
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port},"
        f"SECURED://127.0.0.1:{secured_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL,"
        "SECURED:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": plain,
        "listener.name.controller.plain.sasl.jaas.config": plain,
        "listener.name.secured.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        "listener.name.secured.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": lines(KEY),
        "ssl.keystore.certificate.chain": lines(certificates.server().certificate),
        "ssl.key.password": SECRETS["key"],
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": lines(certificates.authority().certificate),
        "delegation.token.secret.key": SECRETS["token"],
        "ottla.remote.store.access.key.id": "who",
        "ottla.remote.store.secret.access.key": SECRETS["store"],
    }


def lines(text: str) -> str:
    """As a file of properties has them."""
    return text.replace("\n", "\\n")


def debugged() -> Program:
    ours = ottla()
    return replace(ours, serve_words=(*ours.serve_words, "--log-level", "DEBUG"))


def forbidden() -> Iterator[str]:
    for secret in SECRETS.values():
        yield secret
        yield base64.b64encode(secret.encode()).decode()
    yield KEY.splitlines()[1]
    yield PLAIN_MODULE


class Talk:
    """Runs commands and clients, and keeps all that they say."""

    def __init__(self, directory: Path, servers: str) -> None:
        self._directory = directory
        self._servers = servers
        (directory / "ca.pem").write_text(certificates.authority().certificate)
        self.said: list[str] = []

    def properties(self, **more: str) -> dict[str, str]:
        common = {
            "bootstrap.servers": self._servers,
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._directory / "ca.pem"),
        }
        return common | {name.replace("_", "."): value for name, value in more.items()}

    def file(self, **more: str) -> str:
        path = self._directory / "client.properties"
        path.write_text(format_properties(self.properties(**more)))
        return str(path)

    def command(self, *words: str, stdin: str = "", code: int | None = None) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "ottla", *words],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "PYTHONPATH": IMPORT_PATH, "PYTHONWARNINGS": "default"},
        )
        self.said.append(done.stdout + done.stderr)
        assert code in (None, done.returncode), done.stdout + done.stderr

    def produce(self, **more: str) -> None:
        def tell(*told: object) -> None:
            self.said.append(str(told))

        producer = Producer({**self.properties(**more), "error_cb": tell, "log_level": 0})
        producer.produce("t", b"value", on_delivery=tell)
        producer.flush(3)
        producer.purge()
        producer.flush(1)


def talk_much(talk: Talk) -> None:
    alice = {"sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    right = talk.file(**alice, sasl_password=SECRETS["alice"])
    using = ("--command-config", right)
    talk.command("topics", "create", "t", *using, code=0)
    add = ("users", "add", "carol", "--password-file", "-", *using)
    talk.command(*add, stdin=f"{SECRETS['carol']}\n", code=0)
    talk.command("users", "list", "--json", *using, code=0)
    for form in ("json", "wide"):
        talk.command("configs", "describe", "broker", "1", "--all", "--format", form, *using)
    altered = f"listener.name.secured.ssl.key.password={SECRETS['altered']}"
    talk.command("configs", "alter", "broker", "1", "--set", altered, *using)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        for user, password in (("alice", "alice"), ("alice", "wrong"), ("carol", "carol"),
                               ("carol", "wrong"), ("nobody", "wrong")):  # fmt: skip
            login = {"sasl_mechanism": mechanism, "sasl_username": user}
            login["sasl_password"] = SECRETS[password]
            talk.produce(**login)
            talk.command("topics", "list", "--command-config", talk.file(**login))
    broken = (
        f"{PLAIN_MODULE} required username=alice password={SECRETS['wrong']}",
        f"{PLAIN_MODULE} required password='{SECRETS['wrong']}",
        SECRETS["wrong"],
        f'{PLAIN_MODULE} sometimes username="alice" password="{SECRETS["wrong"]}";',
    )
    for entry in broken:
        login = {"sasl_mechanism": "PLAIN", "sasl_jaas_config": entry}
        talk.command("topics", "list", "--command-config", talk.file(**login), code=2)
    talk.command("topics", "list", "-X", f"sasl.password:{SECRETS['wrong']}", code=2)
    secured = {**alice, "sasl_password": SECRETS["alice"], "ssl_key_password": SECRETS["key"]}
    secured |= {"ssl_keystore_key": KEY, "ssl_keystore_type": "PEM"}
    talk.command("topics", "list", "--command-config", talk.file(**secured), code=1)


def described(talk: Talk) -> str:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": "alice"}
    admin = AdminClient({**talk.properties(**login, sasl_password=SECRETS["alice"])})
    found: dict[str, str | None] = {}
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    for key, entry in future.result(20).items():
        found |= {key: entry.value, **{each: str(one) for each, one in entry.synonyms.items()}}
    return json.dumps(found)


@pytest.mark.timeout(300)
def test_nothing_that_is_written_holds_a_secret(tmp_path: Path) -> None:
    node = tmp_path / "node"
    process = BrokerProcess(debugged(), node)
    (secured_port,) = free_ports(1)
    process.settings = settings(process.port, process.controller_port, secured_port)
    with process:
        talk = Talk(tmp_path, f"127.0.0.1:{secured_port}")
        talk_much(talk)
        configs = described(talk)
    assert "ssl.key.password" in configs
    written = {"commands and clients": "\n".join(talk.said), "DescribeConfigs": configs}
    for path in node.rglob("*"):
        if path.is_file() and path != process.properties_file:
            written[str(path)] = path.read_bytes().decode("utf-8", "replace")
    assert "DEBUG" in written[str(process.output_file)]
    for secret in forbidden():
        # What is set while it runs stands in the metadata log as it is, as in Kafka.
        kept = "__cluster_metadata" if secret == SECRETS["altered"] else "\0"
        shown = [name for name, text in written.items() if secret in text and kept not in name]
        assert shown == [], (secret, shown)
