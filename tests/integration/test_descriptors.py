"""A process with few descriptors, and clients that want them all."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.integration.conftest import QUICK, TARGET
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, ottla

from ottla.client.producer import Producer

LIMIT = 256
RESERVED = LIMIT // 8
LIMITED = ("sh", "-c", f'ulimit -n {LIMIT} && exec "$@"', "sh")
API_VERSIONS = bytes.fromhex("0000000a0012000000000001ffff")

pytestmark = pytest.mark.skipif(TARGET == "kafka", reason="Apache Kafka keeps no reserve")


def is_served(sock: socket.socket) -> bool:
    """Whether the broker answers on this connection, or has closed it."""
    try:
        sock.sendall(API_VERSIONS)
        return bool(sock.recv(4))
    except (BrokenPipeError, ConnectionResetError):
        return False


def dial_and_ask(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as sock:
        return is_served(sock)


def test_clients_leave_descriptors_for_logs(tmp_path: Path) -> None:
    """Each connection took one until none was left; then accept failed in every turn."""
    program = ottla()
    program = replace(program, serve_words=(*LIMITED, *program.serve_words))
    process = BrokerProcess(program, tmp_path, {**QUICK, "num.partitions": "3"})
    with process, Producer(f"127.0.0.1:{process.port}") as producer:
        producer.send("before", b"x")
        producer.flush()
        clients = [
            socket.create_connection(("127.0.0.1", process.port), timeout=20)
            for _ in range(LIMIT + 50)
        ]
        served = [is_served(client) for client in clients]
        assert served[0]
        assert not served[-1]
        assert LIMIT // 2 < sum(served) <= LIMIT - RESERVED
        for number in range(RESERVED // 2):
            producer.send("before", b"y", partition=number % 3)
        producer.send("after", b"new logs")
        producer.flush()
        for client in clients:
            client.close()
        eventually(lambda: dial_and_ask(process.port), seconds=10)
