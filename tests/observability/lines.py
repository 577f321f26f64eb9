"""The lines that a test has caused, as an operator would read them."""

import logging

import pytest

from ottla.observability.logging import KafkaFormatter


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    """Level, message and fields of each line, from ``level`` on; without time and logger."""
    formatter = KafkaFormatter()
    return [
        formatter.format(record).partition("] ")[2].rpartition(" (")[0]
        for record in caplog.records
        if record.levelno >= level and record.name.startswith("ottla")
    ]
