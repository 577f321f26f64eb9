"""Frames that lie about their length, come in crumbs, or end too soon, on many connections."""

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pytest
from tests.differential.wire import raw_frame, request_frame
from tests.hostile.conftest import TARGET
from tests.hostile.witness import Witness, is_open
from tools.kafka_peer.broker_process import API_VERSIONS_V0, BrokerProcess

MANY: Final = 200
PREFIXES: Final = (-1, -(2**31), 0, 3, 100 * 1024 * 1024 + 1, 2**31 - 1)


@contextmanager
def connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    with ExitStack() as held:
        yield [
            held.enter_context(socket.create_connection(("127.0.0.1", port), 10))
            for _ in range(count)
        ]


def closed_within(opened: list[socket.socket], seconds: float) -> int:
    """How many connections the broker still holds after a while."""
    end = time.monotonic() + seconds
    left = opened
    while left and time.monotonic() < end:
        left = [each for each in left if is_open(each)]
        time.sleep(0.02)
    return len(left)


@pytest.mark.parametrize("length", PREFIXES)
def test_a_length_that_cannot_be_closes_the_connection(
    length: int, broker: BrokerProcess, witness: Witness
) -> None:
    with connections(broker.port, MANY) as opened:
        for each in opened:
            each.sendall(struct.pack(">i", length) + b"\x00" * 16)
        assert closed_within(opened, 10) == 0


@pytest.mark.skipif(TARGET == "kafka", reason="Apache Kafka takes all of it, and runs out")
def test_a_length_that_is_promised_takes_no_memory(broker: BrokerProcess, witness: Witness) -> None:
    """A hundred connections promise the largest frame that is allowed, and send a little of it."""
    with connections(broker.port, 100) as opened:
        for each in opened:
            each.sendall(struct.pack(">i", 100 * 1024 * 1024) + b"\x00\x00\x00\x03" * 100)
        time.sleep(2)


def test_requests_that_come_in_crumbs(broker: BrokerProcess, witness: Witness) -> None:
    """Slow clients: a byte at a time on many connections, and they are answered in the end."""
    with connections(broker.port, 50) as opened:
        for byte in API_VERSIONS_V0[:-1]:
            for each in opened:
                each.sendall(bytes([byte]))
            time.sleep(0.05)
        for each in opened:
            each.sendall(API_VERSIONS_V0[-1:])
        for each in opened:
            each.settimeout(10)
            (length,) = struct.unpack(">i", each.recv(4, socket.MSG_WAITALL))
            answer = each.recv(length, socket.MSG_WAITALL)
            assert struct.unpack_from(">ih", answer) == (1, 0)


def test_clients_that_never_read_their_answers(broker: BrokerProcess, witness: Witness) -> None:
    """Answers pile up on the client's side; the broker stops reading and remembers few of them."""
    question = request_frame("DescribeConfigs", 4, {
        "resources": [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}],
        "include_synonyms": True,
    })  # fmt: skip
    with connections(broker.port, 10) as opened:
        for each in opened:
            each.setblocking(False)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            for each in opened:
                try:
                    each.send(question * 20)
                except BlockingIOError:
                    time.sleep(0.005)


def test_a_client_that_goes_away_in_the_middle(broker: BrokerProcess, witness: Witness) -> None:
    frame = request_frame("Metadata", 12, {"topics": None})
    for cut in range(0, len(frame), 3):
        with socket.create_connection(("127.0.0.1", broker.port), 10) as connection:
            connection.sendall(frame[:cut])
            reset = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)


def test_bytes_after_the_end_do_not_disturb_the_next_request(
    broker: BrokerProcess, witness: Witness
) -> None:
    with connections(broker.port, 1) as (connection,):
        extra = raw_frame("ApiVersions", 0, b"\x00" * 100)
        connection.sendall(extra + API_VERSIONS_V0)
        connection.settimeout(10)
        stream = connection.makefile("rb")
        for _ in range(2):
            (length,) = struct.unpack(">i", stream.read(4))
            assert struct.unpack_from(">ih", stream.read(length)) == (1, 0)


def test_another_protocol_altogether(broker: BrokerProcess, witness: Witness) -> None:
    for greeting in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00" * 1000, b"\xff" * 1000,
    ):  # fmt: skip
        with connections(broker.port, 20) as opened:
            for each in opened:
                each.sendall(greeting)
            time.sleep(0.1)
