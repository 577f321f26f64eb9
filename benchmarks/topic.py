"""A topic that is there for one row."""

import contextlib
from collections.abc import Iterator

from confluent_kafka.admin import AdminClient, NewTopic
from tools.kafka_peer.broker_process import BrokerProcess


@contextlib.contextmanager
def topic_on(broker: BrokerProcess, name: str, partitions: int = 1) -> Iterator[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 4})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)
    try:
        yield name
    finally:
        admin.delete_topics([name])[name].result(60)
