"""A broker that others use while it is given what no client would send."""

import os
from collections.abc import Iterator

import pytest
from tests.hostile.secured import SecuredBroker
from tests.hostile.witness import Witness
from tools.kafka_peer.broker_process import (
    BrokerProcess,
    answers_api_versions,
    apache_kafka,
    ottla,
)

TARGET = os.environ.get("OTTLA_TEST_TARGET", "ottla")
SETTINGS = {"log.retention.ms": "-1", "connections.max.idle.ms": "60000"}


@pytest.fixture(scope="module")
def one_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    program = apache_kafka(heap=("-Xmx512M",)) if TARGET == "kafka" else ottla()
    process = BrokerProcess(program, tmp_path_factory.mktemp("hostile"), SETTINGS)
    process.start()
    yield process
    process.kill()


@pytest.fixture
def broker(one_broker: BrokerProcess) -> BrokerProcess:
    """The module's broker; started again when an earlier test has brought it down or to a halt."""
    if not one_broker.is_running() or not answers_api_versions(one_broker.port, timeout=3):
        one_broker.kill()
        one_broker.start()
    return one_broker


@pytest.fixture
def witness(broker: BrokerProcess) -> Iterator[Witness]:
    """Another client, served all the while; judges the broker when the test is over."""
    other = Witness(broker, strict=TARGET == "ottla")
    other.start()
    yield other
    other.judge()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """The broker with listeners of all kinds; ours, since only we promise what is asked of it."""
    process = SecuredBroker(ottla(), tmp_path_factory.mktemp("secured"))
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def bystander(secured: SecuredBroker) -> Iterator[Witness]:
    """The witness of all that a module does to the secured broker."""
    other = Witness(secured, strict=True)
    other.start()
    yield other
    other.judge()
