"""Spark reads from and writes to a secured cluster, and no secret is in anything it writes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.installed import IMPORT_PATH

from ottla.client.producer import Producer
from ottla.testing.broker import Broker

PROJECT = Path(__file__).resolve().parents[2]
WRONG = "wrong-password-that-is-a-secret-too"

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(400)]


def secrets(broker: Broker) -> Iterator[str]:
    assert broker.security is not None
    yield WRONG
    yield "LoginModule"
    for user in broker.security.users:
        yield broker.security.password(user)
        for line in broker.security.certificate(user).read_text().splitlines():
            if line and not line.startswith("-----"):
                yield line
                break  # the first of the key; certificates are no secrets


def everything_written(directory: Path) -> Iterator[tuple[str, str]]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes().decode("utf-8", "replace")


def test_no_secret_leaves_spark(tmp_path: Path) -> None:
    with Broker(security="sasl_ssl") as broker:
        with Producer(broker.bootstrap_servers, security=broker.client_security()) as producer:
            for number in range(10):
                producer.send("rows", b"%d" % number)
        assert broker.security is not None
        right = {f"kafka.{name}": value for name, value in broker.client_properties().items()}
        right |= {
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.location": str(broker.security.certificate("bob")),
        }
        pem = broker.security.certificate("bob").read_text()
        key, begin, certificate = pem.partition("-----BEGIN CERTIFICATE-----")
        inline = {
            "kafka.ssl.keystore.key": key,
            "kafka.ssl.keystore.certificate.chain": begin + certificate,
        }
        entry = right["kafka.sasl.jaas.config"]
        wrong = {
            **right,
            "kafka.sasl.jaas.config": entry.replace(broker.security.password("alice"), WRONG),
        }
        wanted = {"directory": str(tmp_path), "right": right, "bad": [wrong, {**right, **inline}]}
        path = os.pathsep.join([IMPORT_PATH, str(PROJECT)])
        with (tmp_path / "output").open("wb") as output:
            done = subprocess.run(
                [sys.executable, "-m", "tests.spark.secured_query"],
                cwd=PROJECT,
                env={**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
                input=json.dumps(wanted).encode() + b"\n",
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=380,
                check=False,
            )
        said = (tmp_path / "output").read_text(errors="replace")
        assert done.returncode == 0, said[-4000:]
        numbers = str([str(number) for number in range(10)])
        assert f"ROWS {numbers}" in said
        assert f"COPIED {numbers}" in said
        assert said.count("REFUSED ") == 9
        assert "NOT REFUSED" not in said
        assert "invalid credentials" in said
        assert "Spark would show the key" in said
        written = list(everything_written(tmp_path))
        assert any("/events/" in path for path, _ in written)
        for secret in secrets(broker):
            shown = [path for path, text in written if secret in text]
            assert shown == [], (secret, shown)
