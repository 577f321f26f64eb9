"""One broker for all tests of commands that need one, and a way to what the tests share."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing.broker import Broker

PROJECT = Path(__file__).resolve().parents[2]
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers
