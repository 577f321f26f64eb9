"""One broker for all tests of commands that need one."""

from collections.abc import Iterator

import pytest
from tests.cli.command import Command

from ottla.testing.broker import Broker


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def ottla(bootstrap: str) -> Command:
    return Command(bootstrap)
