"""Real clients and real nodes over TLS: they get in with the right certificate, and only then."""

import re
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient
from tests.integration.clients import run_whole
from tests.security import certificates
from tests.waiting import eventually

from ottla.testing import Broker, Cluster

LISTENERS = {
    "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
    "inter.broker.listener.name": "SSL",
    "ssl.client.auth": "required",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    """Its stores are files, which a test may replace."""
    directory = tmp_path_factory.mktemp("stores")
    issued = certificates.server()
    (directory / "keys.pem").write_text(issued.key + issued.certificate)
    (directory / "trusted.pem").write_text(certificates.authority().certificate)
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "keys.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "trusted.pem"),
    }
    with Broker(config={**LISTENERS, **stores}) as running:
        yield running, directory


def librdkafka(
    servers: str, files: tuple[str, str, str], **more: Any
) -> dict[str, str | int | float | bool]:
    trusted, certificate, key = files
    return {
        "bootstrap.servers": servers,
        "security.protocol": "ssl",
        "ssl.ca.location": trusted,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
        **more,
    }


def context(files: tuple[str, str, str]) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=files[0])
    made.load_cert_chain(files[1], files[2])
    return made


def test_librdkafka_writes_and_reads_much(broker: tuple[Broker, Path], tmp_path: Path) -> None:
    servers = broker[0].bootstrap_servers
    files = certificates.write(tmp_path, certificates.client())
    producer = confluent_kafka.Producer(librdkafka(servers, files))
    values = [f"{number}".encode() * 200 for number in range(3_000)]
    for value in values:
        producer.produce("much", value)
    assert producer.flush(30) == 0
    options = {"group.id": "g", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(librdkafka(servers, files, **options))
    consumer.subscribe(["much"])
    read: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(read) < len(values) and time.monotonic() < deadline:
        read += [message.value() for message in consumer.consume(1_000, 1.0)]
    consumer.close()
    assert read == values


def test_kafka_python_and_aiokafka_write(broker: tuple[Broker, Path], tmp_path: Path) -> None:
    servers = broker[0].bootstrap_servers
    files = certificates.write(tmp_path, certificates.client())
    producer = kafka.KafkaProducer(
        bootstrap_servers=servers, security_protocol="SSL", ssl_context=context(files)
    )
    assert producer.send("python", b"1").get(20).offset == 0
    producer.close()

    async def write() -> int:
        asynchronous = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers, security_protocol="SSL", ssl_context=context(files)
        )
        async with asynchronous:
            return int((await asynchronous.send_and_wait("python", b"2")).offset)

    assert run_whole(write()) == 1


def refused(servers: str, made: ssl.SSLContext | None) -> bool:
    """Whether nothing is answered to a client that shakes hands by ``made``, or not at all."""
    host, port = servers.rsplit(":", 1)
    api_versions = bytes.fromhex("0000000a00120000000000070000")
    try:
        with socket.create_connection((host, int(port)), 10) as plain:
            sock = plain if made is None else made.wrap_socket(plain, server_hostname=host)
            with sock:
                sock.sendall(api_versions)
                return not sock.recv(4) or made is None
    except OSError:
        return True


def test_nobody_gets_in_without_a_certificate_that_is_trusted(
    broker: tuple[Broker, Path], tmp_path: Path
) -> None:
    servers = broker[0].bootstrap_servers
    files = certificates.write(tmp_path, certificates.client())
    stranger = certificates.stranger().issue("mallory", [], certificates.NOW)
    (tmp_path / "stranger").mkdir()
    theirs = certificates.write(tmp_path / "stranger", stranger)
    assert not refused(servers, context(files))
    assert refused(servers, context(theirs))
    assert refused(servers, ssl.create_default_context(cafile=files[0]))
    assert refused(servers, None)


def test_a_thousand_half_open_handshakes_leave_others_alone(
    broker: tuple[Broker, Path], tmp_path: Path
) -> None:
    servers = broker[0].bootstrap_servers
    files = certificates.write(tmp_path, certificates.client())
    host, port = servers.rsplit(":", 1)
    idle = [socket.create_connection((host, int(port)), 10) for _ in range(1_000)]
    try:
        for sock in idle[::2]:
            sock.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a handshake
        admin = AdminClient(librdkafka(servers, files))
        assert admin.list_topics(timeout=10).brokers
    finally:
        for sock in idle:
            sock.close()


def test_a_new_certificate_is_used_when_its_file_is_replaced(broker: tuple[Broker, Path]) -> None:
    running, directory = broker
    host, port = running.bootstrap_servers.rsplit(":", 1)

    def shown() -> str:
        return ssl.get_server_certificate((host, int(port)))

    before = shown()
    renewed = certificates.authority().issue("broker", certificates.HOSTS, certificates.NOW)
    (directory / "keys.pem").write_text(renewed.key + renewed.certificate)
    eventually(lambda: shown() != before, seconds=30)
    assert shown().split() == renewed.certificate.split()


def test_three_nodes_speak_tls_among_themselves(tmp_path: Path) -> None:
    """Replication, the quorum and forwarded requests, each node with a certificate."""
    settings = {
        **certificates.settings(),
        "ssl.client.auth": "required",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SSL,CONTROLLER:SSL",
    }
    with Cluster(3, config=settings, directory=str(tmp_path / "cluster")) as cluster:
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"}
        )
        told: list[object] = []
        for number in range(500):
            producer.produce("t", f"{number}", on_delivery=lambda error, _: told.append(error))
        assert producer.flush(30) == 0
        assert told == [None] * 500
        written = (tmp_path / "cluster" / "node-1" / "server.properties").read_text()
        files = certificates.write(tmp_path, certificates.client())
        for listener in ("INTERNAL", "CONTROLLER"):
            port = re.findall(rf"{listener}\\://127\.0\.0\.1\\:(\d+)", written)[0]
            assert refused(f"127.0.0.1:{port}", None)
            assert not refused(f"127.0.0.1:{port}", context(files))
