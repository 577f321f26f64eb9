"""The shop's events in topics, and what its pipeline must make of them, in plain Python."""

import json
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.spark.committed import committed_records
from tests.spark.pipeline_files import read_rows

from ottla.client.admin import Admin
from ottla.client.producer import Producer
from ottla.demo.shop import CUSTOMERS, ORDERS, PAGE_VIEWS, PAYMENTS, Event, Shop
from ottla.demo.topics import DEAD_LETTERS, ENRICHED, create_missing
from ottla.spark.pipelines.project import load

START_MS = 1_790_000_000_000
VISITS = 600
EVERY_MS = 100
WINDOW = timedelta(seconds=10)
LATE = timedelta(seconds=30)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Table = list[dict[str, Any]]


def open_shop(bootstrap_servers: str, seed: int = 1) -> list[Event]:
    """Topics with a minute of events; those that were written."""
    with Admin(bootstrap_servers) as admin:
        create_missing(admin)
    shop = Shop(seed)
    events = shop.opening(START_MS)
    for number in range(VISITS):
        events += shop.visit(number, START_MS + EVERY_MS * number)
    with Producer(bootstrap_servers) as producer:
        for each in events:
            producer.send(each.topic, each.value, each.key.encode(), timestamp=each.timestamp_ms)
    assert any(each.is_bad for each in events)
    return events


class Expected:
    """What the tables and topics of the template ``shop`` must hold."""

    def __init__(self, events: list[Event]) -> None:
        self.bad = sum(each.is_bad for each in events)
        good = {
            topic: [_parsed(each) for each in events if each.topic == topic and not each.is_bad]
            for topic in (CUSTOMERS, ORDERS, PAYMENTS, PAGE_VIEWS)
        }
        self.customers = _latest(good[CUSTOMERS], "customer_id")
        self.changes = len(good[ORDERS]) + len(good[PAYMENTS])
        self.order_states = _latest([*good[ORDERS], *good[PAYMENTS]], "order_id")
        self.enriched = {
            order["order_id"]: {
                **{name: order[name] for name in ("order_id", "customer_id", "amount", "at")},
                **{name: self._customer(order)[name] for name in ("name", "country")},
            }
            for order in good[ORDERS]
            if order["status"] == "placed"
        }
        sales = self.enriched.values()
        self.revenue: Counter[tuple[datetime, str]] = Counter()
        for sale in sales:
            self.revenue[_window(sale["at"]), sale["country"]] += sale["amount"]
        closed = max(view["at"] for view in good[PAGE_VIEWS]) - LATE
        self.views = Counter(
            (_window(view["at"]), view["product_id"])
            for view in good[PAGE_VIEWS]
            if _window(view["at"]) + WINDOW <= closed
        )
        assert self.views

    def _customer(self, order: dict[str, Any]) -> dict[str, Any]:
        return self.customers[order["customer_id"]]

    def check(self, directory: Path, bootstrap_servers: str) -> None:
        """Of all tables and topics that a run has left."""
        pipeline = load(directory)
        enriched = _without(read_rows(pipeline, "orders_enriched"), "items")
        assert _by(enriched, "order_id") == self.enriched
        assert len(enriched) == len(self.enriched)
        assert self._sent(bootstrap_servers) == self.enriched
        assert _by(read_rows(pipeline, "customers"), "customer_id") == self.customers
        states = read_rows(pipeline, "order_states")
        wanted = ("order_id", "customer_id", "status", "amount", "at")
        assert _by(states, "order_id") == {
            key: {name: row[name] for name in wanted} for key, row in self.order_states.items()
        }
        revenue = read_rows(pipeline, "revenue")
        assert {(row["start"], row["country"]): row["amount"] for row in revenue} == self.revenue
        assert sum(row["orders"] for row in revenue if isinstance(row["orders"], int)) == len(
            self.enriched
        )
        views = read_rows(pipeline, "popular_products")
        assert {(row["start"], row["product_id"]): row["views"] for row in views} == self.views
        assert len(views) == len(self.views)
        dead = committed_records(bootstrap_servers, DEAD_LETTERS)
        assert sum(map(len, dead.values())) == self.bad

    def _sent(self, bootstrap_servers: str) -> dict[str, dict[str, Any]]:
        sent: Table = [
            json.loads(record.value or b"")
            for records in committed_records(bootstrap_servers, ENRICHED).values()
            for record in records
        ]
        for row in sent:
            row["at"] = datetime.fromisoformat(row["at"])
        assert len(sent) == len(self.enriched)
        return _by(sent, "order_id")


def _parsed(event: Event) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(event.value)
    return {**value, "at": datetime.fromisoformat(value["at"])}


def _latest(rows: Iterable[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return _by(sorted(rows, key=lambda row: row["at"]), key)


def _by(rows: Iterable[dict[str, Any]], key: str) -> dict[str, dict[str, Any]]:
    return {row[key]: row for row in rows}


def _without(rows: Iterable[dict[str, Any]], name: str) -> Table:
    return [{key: value for key, value in row.items() if key != name} for row in rows]


def _window(at: datetime) -> datetime:
    return at - (at - EPOCH) % WINDOW
