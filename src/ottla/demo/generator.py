"""Writes the shop's events to the topics, in a thread, at a rate, until it is told to stop."""

import threading
from typing import Final

from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.client.system_time import SystemTime, WaitingClock
from ottla.common.errors import ApiError
from ottla.demo.pace import Pace
from ottla.demo.shop import EVENTS_PER_VISIT, Event, Shop
from ottla.demo.topics import EVENTS, has_customers, visits_so_far

TICK_SECONDS: Final = 0.1
STOP_SECONDS: Final = 15.0


class Generator:
    """Figures may be read from other threads; they only grow."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        seed: int,
        rate: float,
        clock: WaitingClock | None = None,
    ) -> None:
        """``rate`` in events per second, of all topics together."""
        self.written = dict.fromkeys(EVENTS, 0)
        self.late = 0
        self.bad = 0
        self.trouble = ""
        self._bootstrap_servers = bootstrap_servers
        self._shop = Shop(seed)
        self._rate = rate
        self._clock = clock or SystemTime()
        self._next_visit = 0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="generator", daemon=True)

    def open(self) -> None:
        """Find out where the last run stopped; in an empty shop, let the first customers in."""
        with Admin(self._bootstrap_servers) as admin:
            is_open = has_customers(admin)
        if is_open:
            self._next_visit = visits_so_far(self._bootstrap_servers)
            return
        with Producer(self._bootstrap_servers) as producer:
            self._send(producer, self._shop.opening(self._clock.wall_ms()))

    @property
    def visits(self) -> int:
        """So many were there, of all runs."""
        return self._next_visit

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """What was begun is written to its end, unless no broker takes it."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        pace = Pace(self._rate / EVENTS_PER_VISIT, self._clock.wall_ms())
        producer = Producer(self._bootstrap_servers, compression="zstd")
        while not self._stopping.wait(TICK_SECONDS):
            try:
                for at_ms in pace.due(self._clock.wall_ms()):
                    self._send(producer, self._shop.visit(self._next_visit, at_ms), at_ms)
                    self._next_visit += 1
                producer.flush()
                self.trouble = ""
            except (ApiError, OSError) as error:
                self.trouble = str(error)
        producer.close()

    def _send(self, producer: Producer, events: list[Event], now_ms: int | None = None) -> None:
        for event in events:
            producer.send(
                event.topic, event.value, event.key.encode(), timestamp=event.timestamp_ms
            )
            self.written[event.topic] += 1
            self.late += now_ms is not None and event.timestamp_ms < now_ms
            self.bad += event.is_bad
