"""Refusals in the log: the first one by one, the rest as a number, each principal for itself."""

import logging
from collections.abc import Iterator
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.turns import virtual_time

from ottla.common.authorization import AclOperation, Principal, ResourceType
from ottla.metadata.audit import (
    DEFAULT_DENY,
    KIND_LINES_MAX,
    LOGGER,
    MINUTE_SECONDS,
    PRINCIPAL_LINES_MAX,
    PRINCIPALS_MAX,
    Audit,
)

READ, WRITE, DELETE = AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE
Fields = dict[str, str]


class Asking:
    client_id = "c"
    peer_host = "10.0.0.9"

    def __init__(self, name: str, request_name: str) -> None:
        self.principal = Principal("User", name)
        self.request_name = request_name


class Kept(logging.Handler):
    """Keeps all records."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Told:
    """An audit, and what it tells."""

    def __init__(self) -> None:
        self.scheduler = virtual_time(3)
        self.audit = Audit(self.scheduler.call_later)
        self._kept = Kept()

    def __enter__(self) -> Self:
        logging.getLogger(LOGGER).addHandler(self._kept)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger(LOGGER).removeHandler(self._kept)

    def deny(
        self,
        times: int,
        name: str = "alice",
        operation: AclOperation = READ,
        request: str = "Metadata",
    ) -> None:
        client = Asking(name, request)
        for i in range(times):
            self.audit.tell(
                client,
                operation,
                ResourceType.TOPIC,
                f"t-{i}",
                DEFAULT_DENY,
                allowed=False,
                quiet=False,
            )

    def lines(self, level: int = logging.INFO) -> list[Fields]:
        """Those since it was asked last."""
        found, self._kept.records = self._kept.records, []
        return [
            {name: str(value) for name, value in getattr(each, "ottla_fields", {}).items()}
            for each in found
            if each.levelno == level
        ]

    def end_minute(self) -> list[Fields]:
        self.scheduler.run_for(MINUTE_SECONDS + 1)
        return self.lines()


@pytest.fixture
def told() -> Iterator[Told]:
    logger = logging.getLogger(LOGGER)
    before = logger.level
    logger.setLevel(logging.INFO)
    with Told() as found:
        yield found
    logger.setLevel(before)


def test_many_refusals_of_a_kind_are_some_lines_and_a_number(told: Told) -> None:
    told.deny(5_000)
    assert [line["resource"] for line in told.lines()] == [
        f"Topic:LITERAL:t-{i}" for i in range(KIND_LINES_MAX)
    ]
    assert told.end_minute() == [
        {
            "principal": "User:alice",
            "operation": "READ",
            "resource": "Topic",
            "request": "Metadata",
            "left_out": str(5_000 - KIND_LINES_MAX),
        }
    ]
    assert told.audit.denied.value == 5_000


def test_few_refusals_have_no_line_at_the_end_and_a_minute_later_all_begins_anew(
    told: Told,
) -> None:
    told.deny(KIND_LINES_MAX)
    assert len(told.lines()) == KIND_LINES_MAX
    assert told.end_minute() == []
    told.deny(1)
    assert len(told.lines()) == 1


def test_each_kind_has_lines_of_its_own_up_to_the_bound_of_a_principal(told: Told) -> None:
    for operation in (READ, WRITE):
        for request in ("Metadata", "ListOffsets"):
            told.deny(20, operation=operation, request=request)
    assert len(told.lines()) == PRINCIPAL_LINES_MAX
    left_out = [
        (each["operation"], each["request"], each["left_out"]) for each in told.end_minute()
    ]
    assert left_out == [
        ("READ", "Metadata", "10"),
        ("READ", "ListOffsets", "10"),
        ("WRITE", "Metadata", "10"),
        ("WRITE", "ListOffsets", "20"),
    ]


def test_who_makes_noise_hides_nothing_of_another(told: Told) -> None:
    told.deny(10_000, "noisy")
    told.deny(10_000, "noisy", WRITE)
    told.deny(10_000, "noisy", DELETE)
    told.lines()
    told.deny(3, "bob")
    assert [line["principal"] for line in told.lines()] == ["User:bob"] * 3


def test_principals_are_counted_apart_up_to_a_bound(told: Told) -> None:
    for i in range(PRINCIPALS_MAX):
        told.deny(1, f"p-{i}")
    told.lines()
    for i in range(100):
        told.deny(1, f"more-{i}")
    assert len(told.lines()) == KIND_LINES_MAX
    told.deny(1, "p-0")
    assert len(told.lines()) == 1, "it was there before"
    (line,) = told.end_minute()
    assert (line["principal"], line["left_out"]) == ("User:(others)", str(100 - KIND_LINES_MAX))


def test_at_debug_each_refusal_is_told(told: Told) -> None:
    logging.getLogger(LOGGER).setLevel(logging.DEBUG)
    told.deny(100)
    assert len(told.lines(logging.DEBUG)) == 100 - KIND_LINES_MAX


def test_nothing_is_counted_where_nothing_is_told(told: Told) -> None:
    logging.getLogger(LOGGER).setLevel(logging.WARNING)
    told.deny(100)
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    assert told.end_minute() == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 60),
            st.sampled_from(["alice", "bob"]),
            st.sampled_from([READ, WRITE, DELETE]),
            st.sampled_from(["Metadata", "Produce"]),
        ),
        max_size=12,
    )
)
def test_each_refusal_is_told_or_counted(
    refusals: list[tuple[int, str, AclOperation, str]],
) -> None:
    logging.getLogger(LOGGER).setLevel(logging.INFO)
    with Told() as told:
        for each in refusals:
            told.deny(*each)
        one_by_one = told.lines()
        left_out = sum(int(line["left_out"]) for line in told.end_minute())
    for name in ("alice", "bob"):
        of_one = [each for each in one_by_one if each["principal"] == f"User:{name}"]
        assert len(of_one) <= PRINCIPAL_LINES_MAX
    assert len(one_by_one) + left_out == sum(times for times, *_ in refusals)
