"""A cluster to talk to: our own broker, and for ``-m peer`` Apache Kafka with the same tests."""

from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka

from ottla.client.admin import Admin
from ottla.client.descriptions import NewTopic
from ottla.testing.broker import Broker

NewTopicFixture = Callable[..., str]
_numbers = count(1)


@pytest.fixture(scope="session", params=["ottla", pytest.param("kafka", marks=pytest.mark.peer)])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "ottla":
        with Broker() as broker:
            yield broker.bootstrap_servers
    else:
        program = apache_kafka(heap=("-Xmx512M",))
        with BrokerProcess(program, tmp_path_factory.mktemp("kafka")) as process:
            yield process.bootstrap_servers


@pytest.fixture
def admin(address: str) -> Iterator[Admin]:
    with Admin(address) as one:
        yield one


@pytest.fixture
def new_topic(admin: Admin) -> NewTopicFixture:
    """Makes a topic that no other test has, and waits until brokers tell of it."""

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"client-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, named)])
        eventually(lambda: name in admin.list_topics())
        return name

    return make
