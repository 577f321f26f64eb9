"""Fixtures for pytest, found by its entry point: a broker, an address, a topic, a cluster.

    def test_it(ottla_broker, ottla_topic): ...

``@pytest.mark.ottla(config={"num.partitions": "3"})`` on a test, class or module gives it a broker
of its own with those settings. ``ottla_cluster`` is a cluster of processes for this test alone, of
three nodes unless the mark says otherwise (``brokers=5``, ``controllers=3``, ``config``); when the
test fails, what the nodes wrote is in its report. ``security="sasl_ssl"`` secures either.
"""

from collections.abc import Generator, Iterator
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker
    from ottla.testing.cluster import Cluster

_numbers = count(1)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "ottla(config, security, brokers, controllers): the broker or cluster that a test wants",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("ottla_cluster")
    if report.failed and cluster is not None:
        report.sections.append(("what the nodes wrote", cluster.report()))
    return report


@pytest.fixture(scope="session")
def _ottla_session_broker() -> Iterator["Broker"]:
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_broker(request: pytest.FixtureRequest) -> Iterator["Broker"]:
    """A running broker: the session's, or one of its own for a test that asks for settings."""
    marker = request.node.get_closest_marker("ottla")
    if marker is None:
        yield request.getfixturevalue("_ottla_session_broker")
        return
    from ottla.testing.broker import Broker

    wanted = {name: marker.kwargs.get(name) for name in ("config", "security")}
    with Broker(**wanted) as broker:
        yield broker


@pytest.fixture
def ottla_cluster(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """Three nodes that this test may kill, pause and cut off."""
    from ottla.testing.cluster import Cluster

    marker = request.node.get_closest_marker("ottla")
    wanted = {} if marker is None else dict(marker.kwargs)
    with Cluster(**wanted) as cluster:
        yield cluster


@pytest.fixture
def kafka_bootstrap_servers(ottla_broker: "Broker") -> str:
    """The address to give to any Kafka client."""
    return ottla_broker.bootstrap_servers


@pytest.fixture
def ottla_topic(ottla_broker: "Broker") -> Iterator[str]:
    """A topic that no other test has; removed afterwards."""
    from ottla.client.admin import Admin
    from ottla.common.errors import ApiError

    name = f"test-{next(_numbers)}"
    servers, security = ottla_broker.bootstrap_servers, ottla_broker.client_security()
    with Admin(servers, security=security) as admin:
        admin.create_topics({name: 1})
        yield name
        # The test may have deleted it, or stopped its broker.
        with suppress(OSError, ApiError):
            admin.delete_topics([name])
