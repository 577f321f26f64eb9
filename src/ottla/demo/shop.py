"""A shop's events: visits in, records of four topics out. Seed and time are arguments.

The n-th visit and all that follows from it is a function of the seed and n: with the number
of the last visit one can go on, and with seed and times one can say what a pipeline must
have found. What follows later, a payment and a shipment, comes with later visits.

Rules:
- A customer is in the topic of customers before the first event that names it, an order before
  its payment, and only paid orders are shipped. The times of an order's events ascend.
- Some events are late: their time is up to :data:`LATE_MS` before that of their visit.
- Some records are bad: no JSON, or not of the schema. They are additional, so that what refers to
  an order finds it.
- Money is in cents.
"""

import json
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from ottla.common.chance import Chance
from ottla.demo.catalogue import PRODUCTS, TIERS, customer, product, skewed

CUSTOMERS: Final = "customers"
ORDERS: Final = "orders"
PAYMENTS: Final = "payments"
PAGE_VIEWS: Final = "page-views"

FIRST_CUSTOMERS: Final = 500
"""So many are there before the first visit."""
VISITS_PER_CUSTOMER: Final = 50
"""With every so many visits a customer joins."""
VISITS_PER_CHANGE: Final = 20
"""With every so many visits a customer changes the tier."""
SHY_VISITS: Final = 1_500
"""So many visits after it joined a customer comes for the first time."""
PAID_AFTER: Final = 60
SHIPPED_AFTER: Final = 240
"""So many visits after the order."""
LATE_MS: Final = 20_000
EVENTS_PER_VISIT: Final = 3.3
"""About."""
_ORDERS: Final = 0.25
_LATE: Final = 0.05
_BAD: Final = 0.005
_DECLINED: Final = 0.04
_METHODS: Final = ("card", "card", "card", "transfer", "on delivery")


class Event(NamedTuple):
    """A record that is to be written."""

    topic: str
    key: str
    value: bytes
    timestamp_ms: int
    """When it happened, as its value says too."""
    is_bad: bool = False


class Order(NamedTuple):
    order_id: str
    customer_id: str
    amount: int
    items: list[dict[str, Any]]
    is_paid: bool


class Shop:
    """The events of one seed."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._products = [product(seed, number) for number in range(PRODUCTS)]

    def opening(self, now_ms: int) -> list[Event]:
        """The customers that are there before the first visit."""
        return [self._joined(number, now_ms) for number in range(FIRST_CUSTOMERS)]

    def visit(self, number: int, now_ms: int) -> list[Event]:
        """All that happens with the ``number``-th visit; at least one page is viewed."""
        chance = self._chance(number)
        visitor = self._visitor(number, chance)
        events = self._customers_change(number, chance, now_ms)
        order = self._order(number)
        for _ in range(1 + chance.below(4)):
            events.append(self._page_view(number, visitor, chance, now_ms))
        if order is not None:
            at_ms = self._at(chance, now_ms)
            events.append(_order_event(order, "placed", at_ms))
            if chance.between(0, 1) < _BAD / _ORDERS:
                events.append(_spoilt(events[-1], chance))
        paid = self._order(number - PAID_AFTER)
        if paid is not None:
            events.append(_payment(paid, chance, now_ms))
        shipped = self._order(number - SHIPPED_AFTER)
        if shipped is not None and shipped.is_paid:
            events.append(_order_event(shipped, "shipped", now_ms))
        return events

    def _chance(self, visit: int, purpose: int = 0) -> Chance:
        return Chance((self._seed << 64) + (visit << 8) + purpose)

    def _known(self, visit: int) -> int:
        """So many customers are known with this visit."""
        return FIRST_CUSTOMERS + visit // VISITS_PER_CUSTOMER

    def _visitor(self, visit: int, chance: Chance) -> str:
        """Drawn first of all, so that it can be drawn again."""
        return f"c-{skewed(chance, self._known(max(0, visit - SHY_VISITS)))}"

    def _customers_change(self, visit: int, chance: Chance, now_ms: int) -> list[Event]:
        known = self._known(visit)
        if visit and visit % VISITS_PER_CUSTOMER == 0:
            return [self._joined(known - 1, now_ms)]
        if visit % VISITS_PER_CHANGE == VISITS_PER_CHANGE // 2:
            return [self._customer_event(chance.below(known), chance.choose(TIERS), now_ms)]
        return []

    def _joined(self, number: int, now_ms: int) -> Event:
        return self._customer_event(number, TIERS[0], now_ms)

    def _customer_event(self, number: int, tier: str, now_ms: int) -> Event:
        who = customer(self._seed, number)
        value = {**who._asdict(), "tier": tier, "at": time_text(now_ms)}
        return _event(CUSTOMERS, who.customer_id, value, now_ms)

    def _page_view(self, visit: int, visitor: str, chance: Chance, now_ms: int) -> Event:
        at_ms = self._at(chance, now_ms)
        seen = self._products[skewed(chance, PRODUCTS)].product_id
        value = {"visit": visit, "customer_id": visitor, "product_id": seen, "at": time_text(at_ms)}
        return _event(PAGE_VIEWS, visitor, value, at_ms)

    def _order(self, visit: int) -> Order | None:
        """The order of a visit, drawn apart from the rest: later visits ask for it again."""
        if visit < 0:
            return None
        chance = self._chance(visit, 1)
        if chance.between(0, 1) >= _ORDERS:
            return None
        items: list[dict[str, Any]] = []
        amount = 0
        for _ in range(1 + skewed(chance, 4)):
            chosen = self._products[skewed(chance, PRODUCTS)]
            quantity = 1 + skewed(chance, 3)
            amount += quantity * chosen.price
            items.append(
                {"product_id": chosen.product_id, "quantity": quantity, "price": chosen.price}
            )
        return Order(
            f"o-{visit}",
            self._visitor(visit, self._chance(visit)),
            amount,
            items,
            is_paid=chance.between(0, 1) >= _DECLINED,
        )

    @staticmethod
    def _at(chance: Chance, now_ms: int) -> int:
        is_late = chance.between(0, 1) < _LATE
        return now_ms - 1 - chance.below(LATE_MS) if is_late else now_ms


def _order_event(order: Order, status: str, at_ms: int) -> Event:
    value = {
        "order_id": order.order_id,
        "customer_id": order.customer_id,
        "status": status,
        "amount": order.amount,
        "items": order.items,
        "at": time_text(at_ms),
    }
    return _event(ORDERS, order.order_id, value, at_ms)


def _payment(order: Order, chance: Chance, now_ms: int) -> Event:
    value = {
        "order_id": order.order_id,
        "customer_id": order.customer_id,
        "status": "paid" if order.is_paid else "declined",
        "amount": order.amount,
        "method": chance.choose(_METHODS),
        "at": time_text(now_ms),
    }
    return _event(PAYMENTS, order.order_id, value, now_ms)


def _spoilt(event: Event, chance: Chance) -> Event:
    """The same once more, as something broken on the way would write it."""
    spoilt = (
        event.value[: len(event.value) // 2],
        event.value.replace(b'"amount":', b'"amount":"?","was":'),
        b"\x00\x01" + event.key.encode(),
    )
    return event._replace(value=chance.choose(spoilt), is_bad=True)


def _event(topic: str, key: str, value: dict[str, Any], at_ms: int) -> Event:
    return Event(topic, key, json.dumps(value, separators=(",", ":")).encode(), at_ms)


def time_text(at_ms: int) -> str:
    """As events write times: ISO 8601, in UTC, to the millisecond."""
    whole = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{whole:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03}Z"
