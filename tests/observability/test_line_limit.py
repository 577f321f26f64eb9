"""The same line has a bound, and what is left out is counted."""

import io
import logging

from ottla.observability.line_limit import KINDS_MAX, LINES_MAX, LimitedHandler


def told(*lines: tuple[float, int, str]) -> list[str]:
    """What a handler writes of lines with a time, a level and a message."""
    stream = io.StringIO()
    handler = LimitedHandler(stream)
    form = "%(message)s %(ottla_fields)s"
    handler.setFormatter(logging.Formatter(form, defaults={"ottla_fields": ""}))
    for created, level, message in lines:
        fields = {"name": "ottla.x", "created": created, "levelno": level, "msg": message}
        handler.handle(logging.makeLogRecord(fields))
    return [line.strip() for line in stream.getvalue().splitlines()]


def test_the_same_line_has_a_bound_and_what_is_left_out_is_counted() -> None:
    storm = [(1000.0 + n / 1000, logging.INFO, "storm") for n in range(5_000)]
    after = (1060.0, logging.WARNING, "calm")
    assert told(*storm, after) == ["storm"] * LINES_MAX + ["storm {'left_out': 4970}", "calm"]


def test_every_minute_has_its_own_bound() -> None:
    slow = [(1000.0 + n, logging.INFO, "slow") for n in range(180)]
    lines = told(*slow)
    assert lines.count("slow") == 3 * LINES_MAX
    assert lines.count("slow {'left_out': 30}") == 2


def test_one_line_does_not_crowd_out_another() -> None:
    storm = [(1000.0, logging.INFO, "storm")] * 100
    other = [(1000.0, logging.INFO, "other"), (1000.0, logging.ERROR, "storm")]
    assert told(*storm, *other) == ["storm"] * LINES_MAX + ["other", "storm"]


def test_debug_has_no_bound() -> None:
    assert len(told(*[(1000.0, logging.DEBUG, "storm")] * 100)) == 100


def test_a_clock_that_is_set_back_silences_nothing() -> None:
    storm = [(1000.0, logging.INFO, "storm")] * 100
    assert told(*storm, (10.0, logging.INFO, "storm"))[-2:] == ["storm {'left_out': 70}", "storm"]


def test_messages_that_are_not_constant_have_a_bound_together() -> None:
    many = [(1000.0, logging.INFO, f"number {n}") for n in range(3_000)]
    known = (1001.0, logging.INFO, "number 0")
    lines = told(*many, known, (1060.0, logging.INFO, "calm"))
    assert len(lines) == KINDS_MAX + LINES_MAX + 3
    assert lines[-3] == "number 0", "of a known kind: it is not silenced by the others"
    assert lines[-2] == "lines of too many kinds {'left_out': 1970}"
