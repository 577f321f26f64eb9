"""franz-go, whose SCRAM is Go's own, over TLS: PLAIN and both kinds of SCRAM."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, UserScramCredentialUpsertion
from confluent_kafka.admin import ScramMechanism as ConfluentMechanism
from tests.integration.secured import MODULES, librdkafka, secured
from tests.integration.test_go import executable as executable  # noqa: PLC0414 - a fixture
from tests.integration.test_go import numbered, without_place
from tests.security import certificates
from tools.kafka_peer.broker_process import BrokerProcess, answers_over_tls, ottla

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With an administrator of all mechanisms."""
    process = BrokerProcess(ottla(), tmp_path_factory.mktemp("secured"))
    process.settings, process.answers = secured(process), answers_over_tls
    process.start()
    admin = AdminClient({**librdkafka(process.bootstrap_servers, "admin")})
    for mechanism in (ConfluentMechanism.SCRAM_SHA_256, ConfluentMechanism.SCRAM_SHA_512):
        wanted = UserScramCredentialUpsertion(
            "admin", ScramCredentialInfo(mechanism, 8192), b"admin-secret"
        )
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(10)
    yield process
    process.kill()


def run(
    program: Path, node: BrokerProcess, mechanism: str, password: str, *words: str, text: str = ""
) -> "subprocess.CompletedProcess[str]":
    command, *more = words
    given = {
        "GO_CLIENT_AUTHORITY": certificates.authority().certificate,
        "GO_CLIENT_MECHANISM": mechanism,
        "GO_CLIENT_USER": "admin",
        "GO_CLIENT_PASSWORD": password,
    }
    return subprocess.run(
        [str(program), command, node.bootstrap_servers, *more],
        input=text,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
        env={**os.environ, **given},
    )


@pytest.mark.parametrize("mechanism", MODULES)
def test_it_logs_in_writes_and_reads(executable: Path, node: BrokerProcess, mechanism: str) -> None:
    topic, lines = f"go-{mechanism}", numbered("key", 100)

    def go(*words: str, text: str = "") -> list[str]:
        done = run(executable, node, mechanism, "admin-secret", *words, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    go("create", topic, "2")
    go("produce", topic, text="".join(f"{line}\n" for line in lines))
    assert without_place(go("consume", topic, topic, "consumer", "100")) == sorted(lines)
    go("transact", topic, f"{topic}-id", "commit", text="last 1\n")


@pytest.mark.parametrize("mechanism", MODULES)
def test_it_is_told_of_a_wrong_password(
    executable: Path, node: BrokerProcess, mechanism: str
) -> None:
    done = run(executable, node, mechanism, "wrong", "create", "never", "1")
    assert done.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in done.stderr
