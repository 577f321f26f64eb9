"""Lines are Kafka's or JSON, and bear the fields of their logger and their own."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest

from ottla.observability.line_limit import LINES_MAX
from ottla.observability.logging import (
    configure_logging,
    level_number,
    levels,
    logger,
    set_level,
)

LOGGER = "ottla.test.lines"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger("ottla")
    handlers, level, propagate = root.handlers[:], root.level, root.propagate
    yield
    root.handlers[:], root.propagate = handlers, propagate
    root.setLevel(level)
    set_level(LOGGER, None)


def test_a_line_looks_like_one_of_kafka() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    logger(LOGGER).info("leader elected", partition="t-0", reason="two words", empty="")
    assert re.fullmatch(
        r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] INFO leader elected partition=t-0 "
        r'reason="two words" empty="" \(ottla\.test\.lines\)\n',
        stream.getvalue(),
    )


def test_what_a_client_has_chosen_stays_in_its_line_and_commands_no_terminal() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    names = ("a\nb", "a\rb", "\x1b[2J", "\x9b2J", "\u2028", "\x7f", "\ud800", "\u202e")
    for name in names:
        logger(LOGGER).info("a member was fenced", member=name)
    lines = stream.getvalue().splitlines()
    assert len(lines) == len(names)
    assert all(line.isprintable() for line in lines)
    told = [line.partition("member=")[2].rpartition(" ")[0] for line in lines]
    assert [json.loads(each) for each in told] == list(names)


def test_who_bounds_its_lines_by_itself_has_no_other_limit() -> None:
    stream = io.StringIO()
    configure_logging(stream=stream)
    for _ in range(2 * LINES_MAX):
        logger(LOGGER).info_bounded("bounded")
        logger(LOGGER).info("limited")
    lines = stream.getvalue()
    assert (lines.count("bounded"), lines.count("limited")) == (2 * LINES_MAX, LINES_MAX)


def test_a_line_can_be_json() -> None:
    stream = io.StringIO()
    configure_logging("DEBUG", as_json=True, stream=stream)
    log = logger(LOGGER).bind(partition="t-0")
    log.debug("fetched", bytes=5, who=frozenset({1}))
    entry = json.loads(stream.getvalue())
    assert entry.pop("time")
    assert entry == {
        "level": "DEBUG",
        "logger": LOGGER,
        "message": "fetched",
        "partition": "t-0",
        "bytes": 5,
        "who": "frozenset({1})",
    }


@pytest.mark.parametrize("as_json", [False, True])
def test_an_exception_brings_its_trace(as_json: bool) -> None:
    stream = io.StringIO()
    configure_logging(as_json=as_json, stream=stream)
    try:
        raise ValueError("broken")
    except ValueError:
        logger(LOGGER).exception("it failed", index=3)
    text = stream.getvalue()
    assert "ERROR" in text
    assert "index" in text
    assert "Traceback" in text
    assert "ValueError: broken" in text


def test_levels_below_the_chosen_one_are_silent() -> None:
    stream = io.StringIO()
    configure_logging("WARN", stream=stream)
    log = logger(LOGGER)
    log.info("not heard")
    log.warning("heard")
    log.error("heard as well")
    assert [line.split("] ")[1].split()[0] for line in stream.getvalue().splitlines()] == [
        "WARN",
        "ERROR",
    ]


def test_the_level_of_one_logger_can_change_and_go_back() -> None:
    configure_logging("INFO", stream=io.StringIO())
    logger(LOGGER)
    assert levels()[LOGGER] == "INFO"
    set_level(LOGGER, "debug")
    assert levels()[LOGGER] == "DEBUG"
    set_level(LOGGER, None)
    assert levels()[LOGGER] == "INFO"


def test_configuring_twice_does_not_double_the_lines() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging(stream=first)
    configure_logging(stream=second)
    logger(LOGGER).info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_levels_have_kafkas_names_and_pythons() -> None:
    assert level_number("warning") == level_number("WARN") == logging.WARNING
    assert level_number("FATAL") == logging.CRITICAL
    assert level_number("TRACE") < logging.DEBUG
    with pytest.raises(ValueError, match="no such level: LOUD"):
        level_number("LOUD")


def test_what_happens_to_many_at_once_is_one_line_and_each_at_debug() -> None:
    stream = io.StringIO()
    configure_logging("INFO", stream=stream)
    log = logger(LOGGER)
    changed = [{"partition": f"t-{n}", "leader_epoch": n} for n in range(12)]
    log.changes("became leader", changed, records=5)
    log.changes("became leader", changed[3:4], records=5)
    log.changes("became leader", [])
    several, one = stream.getvalue().splitlines()
    named = "t-0,t-1,t-2,t-3,t-4,t-5,t-6,t-7,t-8,t-9,..."
    assert f"INFO became leader number=12 records=5 named={named} (" in several
    assert "INFO became leader partition=t-3 leader_epoch=3 (" in one
    set_level(LOGGER, "DEBUG")
    log.changes("became leader", changed, is_warning=True)
    detailed = stream.getvalue().splitlines()[2:]
    assert "WARN became leader number=12" in detailed[0]
    assert ["DEBUG" in line for line in detailed[1:]] == [True] * 12
