"""The shop's events: the same for the same seed, in good order, with some late and some bad."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.demo.catalogue import PRODUCTS, product
from ottla.demo.pace import BEHIND_MAX_MS, Pace
from ottla.demo.shop import (
    CUSTOMERS,
    EVENTS_PER_VISIT,
    FIRST_CUSTOMERS,
    LATE_MS,
    ORDERS,
    PAGE_VIEWS,
    PAYMENTS,
    Event,
    Shop,
)

START_MS = 1_790_000_000_000
SEEDS = st.integers(0, 2**32)
few = settings(max_examples=5, deadline=None)


def run(seed: int, visits: int, first: int = 0) -> list[Event]:
    shop = Shop(seed)
    events = [] if first else shop.opening(START_MS)
    for number in range(first, first + visits):
        events += shop.visit(number, START_MS + 7 * number)
    return events


def good(events: list[Event], topic: str) -> list[dict[str, Any]]:
    return [json.loads(each.value) for each in events if each.topic == topic and not each.is_bad]


@few
@given(SEEDS, st.integers(1, 400))
def test_the_same_seed_gives_the_same_events_wherever_one_begins(seed: int, first: int) -> None:
    assert run(seed, first + 50)[len(run(seed, first)) :] == run(seed, 50, first)


@few
@given(SEEDS)
def test_another_seed_gives_other_events(seed: int) -> None:
    assert run(seed, 50) != run(seed + 1, 50)


@few
@given(SEEDS)
def test_whatever_an_event_refers_to_came_before_it(seed: int) -> None:
    customers: set[str] = set()
    status: dict[str, str] = {}
    amounts: dict[str, int] = {}
    follows = {"placed": {""}, "paid": {"placed"}, "declined": {"placed"}, "shipped": {"paid"}}
    products = {product(seed, number).product_id for number in range(PRODUCTS)}
    for event in run(seed, 600):
        if event.is_bad:
            continue
        value = json.loads(event.value)
        if event.topic == CUSTOMERS:
            customers.add(value["customer_id"])
            continue
        assert value["customer_id"] in customers
        if event.topic == PAGE_VIEWS:
            assert value["product_id"] in products
            continue
        order = value["order_id"]
        assert event.key == order
        assert status.get(order, "") in follows[value["status"]]
        status[order] = value["status"]
        assert amounts.setdefault(order, value["amount"]) == value["amount"]
        if event.topic == ORDERS:
            assert {item["product_id"] for item in value["items"]} <= products
            assert value["amount"] == sum(i["quantity"] * i["price"] for i in value["items"])


@few
@given(SEEDS)
def test_the_times_of_an_order_ascend_though_some_are_late(seed: int) -> None:
    last: dict[str, str] = {}
    for event in run(seed, 600):
        if event.topic in {ORDERS, PAYMENTS} and not event.is_bad:
            value = json.loads(event.value)
            assert last.get(value["order_id"], "") < value["at"]
            last[value["order_id"]] = value["at"]


@few
@given(SEEDS)
def test_every_visit_views_a_page_and_names_itself(seed: int) -> None:
    seen = {view["visit"] for view in good(run(seed, 300), PAGE_VIEWS)}
    assert seen == set(range(300))


@few
@given(SEEDS)
def test_a_few_events_are_late_and_fewer_are_bad(seed: int) -> None:
    visits = 3_000
    shop = Shop(seed)
    events = [(START_MS + n, e) for n in range(visits) for e in shop.visit(n, START_MS + n)]
    assert abs(len(events) / visits - EVENTS_PER_VISIT) < 0.3
    late = [now - event.timestamp_ms for now, event in events if event.timestamp_ms < now]
    assert 0.02 < len(late) / len(events) < 0.07
    assert min(late) > 0
    assert max(late) <= LATE_MS
    bad = [event for _, event in events if event.is_bad]
    orders = [event for _, event in events if event.topic == ORDERS]
    assert 0.002 < len(bad) / len(orders) < 0.03


@few
@given(SEEDS)
def test_bad_records_are_no_orders(seed: int) -> None:
    bad = [event for event in run(seed, 1_500, first=1) if event.is_bad]
    assert bad
    for event in bad:
        try:
            value = json.loads(event.value)
        except ValueError:
            continue
        assert not isinstance(value["amount"], int)


def test_a_few_customers_make_most_of_the_business() -> None:
    orders = good(run(1, 4_000), ORDERS)
    tenth = {f"c-{number}" for number in range(FIRST_CUSTOMERS // 10)}
    assert sum(order["customer_id"] in tenth for order in orders) > 0.35 * len(orders)


def test_customers_join_and_change_and_the_last_record_of_each_counts() -> None:
    customers = good(run(1, 1_000), CUSTOMERS)
    names = {each["customer_id"] for each in customers}
    assert len(names) == FIRST_CUSTOMERS + 1_000 // 50 - 1
    assert len(customers) > len(names)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 2_000), st.lists(st.integers(0, 5_000), max_size=20))
def test_the_pace_is_even_and_silence_is_not_made_up_for(rate: float, pauses: list[int]) -> None:
    pace = Pace(rate, START_MS)
    now = START_MS
    before = START_MS - 1
    for pause in pauses:
        now += pause
        times = pace.due(now)
        assert times == sorted(times)
        assert all(max(before, now - BEHIND_MAX_MS) <= at <= now for at in times)
        assert len(times) <= rate * min(pause, BEHIND_MAX_MS) / 1000 + 2
        before = times[-1] if times else before


def test_the_pace_keeps_the_rate() -> None:
    pace = Pace(150, START_MS)
    assert sum(len(pace.due(START_MS + at)) for at in range(0, 60_000, 100)) in range(8_970, 9_001)
