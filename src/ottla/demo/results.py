"""What comes back: the enriched orders, read from their topic by a plain client.

The figures of the last minute are kept here, by country, by the clock of the reader: that they
move shows that the whole way is open, from the generator through Spark and back.
"""

import json
import threading
from collections import Counter, deque
from typing import Final, NamedTuple

from ottla.client.consumer import AtTimestamp, Consumer
from ottla.client.system_time import SystemTime, WaitingClock
from ottla.common.errors import ApiError
from ottla.demo.topics import ENRICHED

WINDOW_MS: Final = 60_000
STOP_SECONDS: Final = 5.0
_POLL_MS: Final = 500


class Sale(NamedTuple):
    order_id: str
    name: str
    country: str
    amount: int
    """In cents."""


class LastMinute:
    """Sales of the last minute; :meth:`add` and :meth:`forget` take the time as it goes on."""

    def __init__(self) -> None:
        self.orders = 0
        self.amount = 0
        self.newest: Sale | None = None
        self._sales: deque[tuple[int, Sale]] = deque()
        self._by_country: Counter[str] = Counter()

    def add(self, now_ms: int, sale: Sale) -> None:
        self.newest = sale
        self._sales.append((now_ms, sale))
        self.orders += 1
        self.amount += sale.amount
        self._by_country[sale.country] += sale.amount

    def forget(self, now_ms: int) -> None:
        """Drop what is older than a minute."""
        while self._sales and self._sales[0][0] <= now_ms - WINDOW_MS:
            _, sale = self._sales.popleft()
            self.orders -= 1
            self.amount -= sale.amount
            self._by_country[sale.country] -= sale.amount
            if not self._by_country[sale.country]:
                del self._by_country[sale.country]

    def by_country(self) -> list[tuple[str, int]]:
        """The most first."""
        return sorted(self._by_country.items(), key=lambda item: (-item[1], item[0]))


def parse_sale(value: bytes | None) -> Sale | None:
    """A record of the topic; None if it is none of ours."""
    try:
        order = json.loads(value or b"")
        return Sale(
            str(order["order_id"]),
            str(order.get("name") or "somebody"),
            str(order.get("country") or "?"),
            int(order["amount"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


class Results:
    """Reads in a thread; :meth:`last_minute` may be asked from another."""

    def __init__(self, bootstrap_servers: str, *, clock: WaitingClock | None = None) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._clock = clock or SystemTime()
        self._sales = LastMinute()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="results", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def last_minute(self) -> tuple[int, int, list[tuple[str, int]], Sale | None]:
        """Orders, amount, amounts by country, and the newest sale."""
        with self._lock:
            self._sales.forget(self._clock.wall_ms())
            sales = self._sales
            return sales.orders, sales.amount, sales.by_country(), sales.newest

    def _run(self) -> None:
        with Consumer(
            self._bootstrap_servers, isolation_level="read_committed", reset="earliest"
        ) as consumer:
            begin = AtTimestamp(self._clock.wall_ms() - WINDOW_MS)
            is_assigned = False
            while not self._stopping.is_set():
                try:
                    if not is_assigned:
                        consumer.assign(dict.fromkeys(consumer.partitions(ENRICHED), begin))
                        is_assigned = True
                    self._poll(consumer)
                except (ApiError, OSError):
                    # A broker that has gone comes back, or all are going.
                    self._stopping.wait(_POLL_MS / 1000)

    def _poll(self, consumer: Consumer) -> None:
        polled = consumer.poll(_POLL_MS)
        now_ms = self._clock.wall_ms()
        with self._lock:
            for records in polled.values():
                for record in records:
                    sale = parse_sale(record.value)
                    if sale is not None:
                        self._sales.add(now_ms, sale)
