"""Many clients refresh their metadata at once, as after a restart, and one producer is beside them.

The clients are a process of their own, so that what they take is not taken from the producer.
"""

import contextlib
import multiprocessing
import time
from multiprocessing.connection import Connection
from typing import Final

from benchmarks.light_requests import metadata_error, metadata_frame
from benchmarks.measures import LATENCY, LATENCY_TAIL, REQUESTS, Figures
from benchmarks.one_record import error_code, produce_frame
from benchmarks.small_requests import TIMEOUT, Asking, percentile
from tools.kafka_peer.broker_process import BrokerProcess

CLIENTS: Final = 2_000


def refresh_at_once(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """The latency of one-record requests, one in flight, while all clients ask again and again."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    crowd = context.Process(target=_refresh, args=(theirs, broker.port, topic, CLIENTS))
    crowd.start()
    try:
        taken = _produced(broker, topic, ours, seconds)
        refreshed = _told(ours)
    finally:
        ours.close()
        crowd.join(TIMEOUT)
    return {
        "p50": (percentile(taken, 0.5) * 1e3, LATENCY),
        "p99": (percentile(taken, 0.99) * 1e3, LATENCY_TAIL),
        "refreshes": (refreshed, REQUESTS),
    }


def _produced(broker: BrokerProcess, topic: str, crowd: Connection, seconds: float) -> list[float]:
    """Seconds of each request while the crowd is at work, from the shortest on."""
    frame = produce_frame(topic, 0)
    taken: list[float] = []
    with Asking(broker.port) as asking:
        asking.until_taken(frame, error_code)
        _told(crowd)
        crowd.send("refresh")
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            answer = asking.ask(frame)
            taken.append(time.perf_counter() - began)
            assert error_code(answer) == 0, error_code(answer)
        crowd.send("enough")
    return sorted(taken)


def _told(crowd: Connection) -> float:
    if not crowd.poll(TIMEOUT):
        raise TimeoutError("the clients say nothing")
    return float(crowd.recv())


def _refresh(parent: Connection, port: int, topic: str, clients: int) -> None:
    """Connect; then ask on all connections and read all answers, until it is enough."""
    frame = metadata_frame(topic)
    with contextlib.ExitStack() as opened:
        crowd = [opened.enter_context(Asking(port)) for _ in range(clients)]
        (size,) = {len(each.until_taken(frame, metadata_error)) + 4 for each in crowd}
        parent.send(0)
        parent.recv()
        began, rounds = time.perf_counter(), 0
        while not parent.poll():
            for each in crowd:
                each.socket.sendall(frame)
            for each in crowd:
                each.receive(size)
            rounds += 1
        parent.send(rounds * clients / (time.perf_counter() - began))
