"""A broker as a real process, and clients that others wrote: what these tests stand on.

``OTTLA_TEST_TARGET=kafka`` runs the very same tests against Apache Kafka: a test that fails there
says something about the test, not about us.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.integration.clients import CLIENTS, Client
from tools.kafka_peer.broker_process import (
    BrokerProcess,
    Program,
    apache_kafka,
    ottla,
)

TARGET = os.environ.get("OTTLA_TEST_TARGET", "ottla")
# Retention is looked at often, so that a test sees it act; old records stay unless a topic says so.
QUICK = {
    "log.retention.ms": "-1",
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "100",
    "log.flush.scheduler.interval.ms": "500",
}

NewBroker = Callable[..., BrokerProcess]


@pytest.fixture(scope="session")
def program() -> Program:
    """What is under test."""
    return apache_kafka(heap=("-Xmx512M",)) if TARGET == "kafka" else ottla()


@pytest.fixture(scope="session")
def broker(program: Program, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker for all tests that need nothing special of it."""
    process = BrokerProcess(program, tmp_path_factory.mktemp("broker"), QUICK)
    with process:
        yield process


@pytest.fixture
def new_broker(program: Program, tmp_path: Path) -> Iterator[NewBroker]:
    """Starts a broker of one's own with settings of one's own; ended with the test.

    Settings have underscores for dots; a test that names the listeners says their ``port``.
    """
    started: list[BrokerProcess] = []

    def start(*, port: int = 0, **settings: str) -> BrokerProcess:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        directory = tmp_path / f"broker-{len(started)}"
        process = BrokerProcess(program, directory, {**QUICK, **named}, port=port)
        started.append(process)
        process.start()
        return process

    yield start
    for process in started:
        process.kill()


_numbers = itertools.count()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test has."""
    words = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    return f"{words[:60]}-{os.getpid()}-{next(_numbers)}"


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each of the clients in turn."""
    chosen: Client = request.param
    return chosen


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sockets that somebody else's client leaves to the garbage collector are not our failure."""
    ignored = ("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
    for item in items:
        if item.path.parent == Path(__file__).parent:
            for rule in ignored:
                item.add_marker(pytest.mark.filterwarnings(rule))
