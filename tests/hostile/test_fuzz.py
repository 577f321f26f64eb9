"""Every API, version and field, broken in every way that a length, a number or a cut can be.

The seed is fixed, so that a run of ``make test`` repeats itself; the long run draws its own and
prints it.
"""

import os
import select
import socket
import struct
import time
from typing import Final

import pytest
from tests.differential.wire import ask, raw_frame
from tests.hostile.messages import Requests, damaged
from tests.hostile.witness import Witness
from tools.kafka_peer.broker_process import BrokerProcess

from ottla.common.chance import Chance
from ottla.handlers.envelope import seal
from ottla.protocol.api import Api
from ottla.protocol.message import to_bytes
from ottla.requests.context import RequestContext

CONNECTIONS: Final = 24
SHORT_SECONDS: Final = 20.0
CONTROLLER_SECONDS: Final = 6.0
LONG_SECONDS: Final = float(os.environ.get("OTTLA_FUZZ_SECONDS", "300"))
NOT_ANSWERED_SECONDS: Final = 0.5


class Fuzzer:
    """Keeps a number of connections busy: each sends one request and is looked at later.

    Broken requests may close the connection, be answered, or wait for something: all of these are
    allowed to them. What is not allowed is seen by the witness.
    """

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self._chance = Chance(seed)
        self._requests = Requests(self._chance)
        self._open: list[tuple[socket.socket, float]] = []
        self.sent = 0
        self.apis: set[tuple[str, int]] = set()

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._send_one()
            while len(self._open) >= CONNECTIONS:
                self._look()
        for connection, _ in self._open:
            connection.close()
        self._open.clear()

    def _send_one(self) -> None:
        api, version, encoded = self._requests.next()
        frame = self._frame(api, version, damaged(encoded, self._chance))
        connection = socket.create_connection(("127.0.0.1", self._port), 10)
        connection.sendall(frame)
        self._open.append((connection, time.monotonic() + NOT_ANSWERED_SECONDS))
        self.sent += 1
        self.apis.add((api.name, version))

    def _frame(self, api: Api, version: int, body: bytes) -> bytes:
        frame = raw_frame(api.name, version, body)
        if self._chance.below(40) == 0:  # the header is not spared
            changed = bytearray(frame)
            changed[4 + self._chance.below(10)] ^= 1 << self._chance.below(8)
            frame = bytes(changed)
        if self._chance.below(60) == 0:  # more is promised than comes
            frame = struct.pack(">i", len(frame) + self._chance.below(1000)) + frame[4:]
        return frame

    def _look(self) -> None:
        """Let go of connections that have been answered, closed or waited for long enough."""
        ready, _, _ = select.select([each for each, _ in self._open], [], [], 0.05)
        now = time.monotonic()
        for entry in list(self._open):
            connection, deadline = entry
            if connection in ready or now > deadline:
                self._open.remove(entry)
                connection.close()


class EnvelopeFuzzer(Fuzzer):
    """For a listener of the controller, where requests also come in envelopes."""

    def _frame(self, api: Api, version: int, body: bytes) -> bytes:
        if not api.forwardable or self._chance.below(2):
            return super()._frame(api, version, body)
        frame = raw_frame(api.name, version, body)
        for _ in range(2 if self._chance.below(8) == 0 else 1):  # one in another, at times
            envelope = seal(frame[4:], RequestContext(version=0))
            principal = envelope.request_principal
            if principal and self._chance.below(4) == 0:
                envelope.request_principal = principal[: self._chance.below(len(principal))]
            if self._chance.below(8) == 0:
                envelope.client_host_address = bytes(self._chance.below(20))
            frame = raw_frame("Envelope", 0, to_bytes(envelope, 0))
        return frame


def create_target(port: int) -> None:
    topic = {"name": "target", "num_partitions": 2, "replication_factor": 1}
    ask(port, "CreateTopics", 7, topics=[topic], timeout_ms=10_000)


def test_broken_requests_of_every_kind(broker: BrokerProcess, witness: Witness) -> None:
    create_target(broker.port)
    fuzzer = Fuzzer(broker.port, seed=4_3_1)
    fuzzer.run(SHORT_SECONDS)
    assert fuzzer.sent > 1_000
    assert len(fuzzer.apis) > 150


def test_broken_requests_to_the_controller(broker: BrokerProcess, witness: Witness) -> None:
    create_target(broker.port)
    fuzzer = EnvelopeFuzzer(broker.controller_port, seed=5_9_0)
    fuzzer.run(CONTROLLER_SECONDS)
    assert fuzzer.sent > 300


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS + 120)
def test_broken_requests_for_a_long_time(broker: BrokerProcess, witness: Witness) -> None:
    create_target(broker.port)
    seed = int.from_bytes(os.urandom(4), "big")
    print(f"seed {seed}")
    fuzzer = Fuzzer(broker.port, seed)
    fuzzer.run(LONG_SECONDS)
    print(f"{fuzzer.sent} requests")
