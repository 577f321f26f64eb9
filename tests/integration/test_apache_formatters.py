"""The internal topics, consumed by Apache's console consumer with its own formatters."""

import json
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.admin import create_topic
from tests.integration.conftest import NewBroker
from tests.integration.test_apache_tools import tool
from tools.kafka_peer.broker_process import BrokerProcess

pytestmark = pytest.mark.peer
FORMATTERS = "org.apache.kafka.tools.consumer."
SECONDS = 30


def printed(broker: BrokerProcess, topic: str, formatter: str) -> list[dict[str, Any]]:
    """What the formatter makes of the records of an internal topic; it passes over the others."""
    text = tool(
        broker, "kafka-console-consumer", "--topic", topic, "--from-beginning",
        "--formatter", FORMATTERS + formatter, "--timeout-ms", "5000",
    )  # fmt: skip
    found, decoder = [], json.JSONDecoder()
    while text.startswith("{"):
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def test_offsets_groups_and_transactions_are_printed(new_broker: NewBroker) -> None:
    broker = new_broker(offsets_topic_num_partitions="1", transaction_state_log_num_partitions="1")
    servers = broker.bootstrap_servers
    create_topic(servers, "t")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "copier"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce("t", b"v", partition=0)
    producer.commit_transaction(SECONDS)
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["t"])
    assert consumer.poll(SECONDS) is not None
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()

    offset, *_ = printed(broker, "__consumer_offsets", "OffsetsMessageFormatter")
    assert offset["key"]["data"] == {"group": "readers", "topic": "t", "partition": 0}
    assert offset["value"]["data"]["offset"] == 1
    groups = printed(broker, "__consumer_offsets", "GroupMetadataMessageFormatter")
    # The console consumer has a group of its own.
    ours = [each["value"] for each in groups if each["key"]["data"]["group"] == "readers"]
    assert "consumer" in {value["data"]["protocolType"] for value in ours}
    states = printed(broker, "__transaction_state", "TransactionLogMessageFormatter")
    assert {each["key"]["data"]["transactionalId"] for each in states} == {"copier"}
    assert [each["value"]["data"]["transactionStatus"] for each in states] == [0, 1, 2, 4]
    del producer
