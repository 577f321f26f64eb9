"""How many clients a broker lets in: TLS handshakes and SASL logins, each on a new connection.

A few threads enter one after the other. Each entry is whole: a handshake resumes no session and
ends with a first answer, without which the broker may not be through. What the client takes is
told; of SCRAM it is without the hashing of the password, whose result is kept as nodes keep it.
"""

import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.measures import (
    CLIENT_PER_ENTRY,
    CPU_PER_ENTRY,
    HANDSHAKES,
    LOGINS,
    Figures,
    Measure,
)
from benchmarks.secured import SecuredBroker
from benchmarks.small_requests import TIMEOUT
from tools.kafka_peer.broker_process import API_VERSIONS_V0, cpu_seconds

CLIENTS: Final = 4


def handshakes(broker: SecuredBroker, *, seconds: float) -> Figures:
    context = broker.tls_context()

    def enter() -> None:
        with socket.create_connection(("127.0.0.1", broker.tls_port), TIMEOUT) as plain:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                connection.sendall(API_VERSIONS_V0)
                assert connection.recv(1 << 16), "the broker closed the connection"
                assert connection.version() == "TLSv1.3"
                assert not connection.session_reused

    return _entered(broker, enter, seconds, HANDSHAKES)


def logins(broker: SecuredBroker, *, mechanism: str, seconds: float) -> Figures:
    def enter() -> None:
        with broker.log_in(mechanism):
            pass

    return _entered(broker, enter, seconds, LOGINS)


def _entered(
    broker: SecuredBroker, enter: Callable[[], None], seconds: float, measure: Measure
) -> Figures:
    def go_on(end: float) -> int:
        count = 0
        while time.perf_counter() < end:
            enter()
            count += 1
        return count

    with ThreadPoolExecutor(CLIENTS) as threads:
        before, own = cpu_seconds(broker.pid), time.process_time()
        began = time.perf_counter()
        done = sum(threads.map(go_on, [began + seconds] * CLIENTS))
        elapsed = time.perf_counter() - began
        spent, own = cpu_seconds(broker.pid) - before, time.process_time() - own
    return {
        "rate": (done / elapsed, measure),
        "cpu": (spent / done * 1e6, CPU_PER_ENTRY),
        "client": (own / done * 1e6, CLIENT_PER_ENTRY),
    }
