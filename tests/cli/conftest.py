"""One broker for all tests of commands; a log and a store for those that look at files."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import Command
from tests.cli.partitions import HandMade

from ottla.testing.broker import Broker
from ottla.tiered.driver.directory import DirectoryStore


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def ottla(bootstrap: str) -> Command:
    return Command(bootstrap)


@pytest.fixture
def log(tmp_path: Path) -> HandMade:
    """Three segments: offsets 0 to 4, 5 to 8, 9 to 10."""
    made = HandMade(tmp_path / "data")
    made.segment(2, 3)
    made.segment(4)
    made.segment(1, 1)
    return made


@pytest.fixture
def store(tmp_path: Path) -> DirectoryStore:
    return DirectoryStore(str(tmp_path / "remote"))
