"""What admin clients ask: topics, partitions, configs, records, log directories, the cluster."""

import asyncio

import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)
from kafka.admin import KafkaAdminClient
from kafka.admin import NewTopic as PythonNewTopic
from tests.integration.admin import (
    admin_client,
    alter_topic,
    create_topic,
    delete_records,
    delete_topic,
    offsets,
    topic_config,
)
from tests.integration.clients import CLIENTS, Client, Message
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

UNKNOWN_TOPIC = 3
INVALID_TOPIC = 17
TOPIC_EXISTS = 36
INVALID_PARTITIONS = 37
INVALID_REPLICATION_FACTOR = 38
INVALID_CONFIG = 40
OFFSET_OUT_OF_RANGE = 1


def code_of(error: KafkaException) -> int:
    code: int = error.args[0].code()
    return code


def test_a_topic_is_created_described_and_deleted(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(
        broker.bootstrap_servers, topic_name, partitions=4, config={"retention.ms": "7200000"}
    )
    admin = admin_client(broker.bootstrap_servers)

    described = admin.list_topics(topic_name, timeout=10).topics[topic_name]
    assert sorted(described.partitions) == [0, 1, 2, 3]
    for partition in described.partitions.values():
        assert (partition.leader, partition.replicas, partition.isrs) == (1, [1], [1])
    config = topic_config(broker.bootstrap_servers, topic_name)
    assert config["retention.ms"] == "7200000"
    assert config["cleanup.policy"] == "delete"

    delete_topic(broker.bootstrap_servers, topic_name)
    eventually(lambda: topic_name not in admin.list_topics(timeout=10).topics, "deletion")


def test_the_describing_admin_of_librdkafka_sees_topic_ids(
    broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    admin = admin_client(broker.bootstrap_servers)
    asked = confluent_kafka.TopicCollection([topic_name])

    described = admin.describe_topics(asked)[topic_name].result()

    assert described.name == topic_name
    assert str(described.topic_id) not in {"", "AAAAAAAAAAAAAAAAAAAAAA"}
    assert [each.id for each in described.partitions] == [0, 1]
    assert [each.leader.id for each in described.partitions] == [1, 1]
    assert not described.is_internal


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (NewTopic("bad/name", 1, 1), INVALID_TOPIC),
        (NewTopic("..", 1, 1), INVALID_TOPIC),
        (NewTopic("x" * 250, 1, 1), INVALID_TOPIC),
        (NewTopic("no-partitions", 0, 1), INVALID_PARTITIONS),
        (NewTopic("too-many-replicas", 1, 2), INVALID_REPLICATION_FACTOR),
        (NewTopic("unknown-config", 1, 1, config={"no.such.config": "1"}), INVALID_CONFIG),
        (NewTopic("bad-config", 1, 1, config={"retention.ms": "soon"}), INVALID_CONFIG),
    ],
    ids=lambda value: value.topic if isinstance(value, NewTopic) else str(value),
)
def test_a_topic_that_cannot_be_is_refused(
    topic: NewTopic, expected: int, broker: BrokerProcess
) -> None:
    admin = admin_client(broker.bootstrap_servers)

    with pytest.raises(KafkaException) as refused:
        admin.create_topics([topic])[topic.topic].result()

    assert code_of(refused.value) == expected
    assert topic.topic not in admin.list_topics(timeout=10).topics


def test_a_topic_is_created_once(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    with pytest.raises(KafkaException) as refused:
        create_topic(broker.bootstrap_servers, topic_name)
    assert code_of(refused.value) == TOPIC_EXISTS


def test_validate_only_creates_nothing(broker: BrokerProcess, topic_name: str) -> None:
    admin = admin_client(broker.bootstrap_servers)
    admin.create_topics([NewTopic(topic_name, 3, 1)], validate_only=True)[topic_name].result()
    assert topic_name not in admin.list_topics(timeout=10).topics


def test_a_topic_that_is_not_there_cannot_be_deleted(broker: BrokerProcess) -> None:
    with pytest.raises(KafkaException) as refused:
        delete_topic(broker.bootstrap_servers, "never-created")
    assert code_of(refused.value) == UNKNOWN_TOPIC


def test_partitions_are_added_and_never_taken_away(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name, partitions=2)
    admin = admin_client(broker.bootstrap_servers)

    admin.create_partitions([NewPartitions(topic_name, 5)])[topic_name].result()
    eventually(
        lambda: len(admin.list_topics(topic_name, timeout=10).topics[topic_name].partitions) == 5,
        "five partitions",
    )
    CLIENTS[0].produce(broker.bootstrap_servers, topic_name, [Message(b"x")], partition=4)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic_name, 3)])[topic_name].result()

    assert code_of(refused.value) == INVALID_PARTITIONS
    assert offsets(broker.bootstrap_servers, topic_name, 4) == (0, 1)


def test_a_topic_made_again_has_none_of_the_old_records(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"old")] * 10)
    delete_topic(broker.bootstrap_servers, topic_name)
    admin = admin_client(broker.bootstrap_servers)
    eventually(lambda: topic_name not in admin.list_topics(timeout=10).topics, "deletion")

    create_topic(broker.bootstrap_servers, topic_name)

    assert offsets(broker.bootstrap_servers, topic_name) == (0, 0)
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"new")])
    (received,) = client.consume(broker.bootstrap_servers, topic_name, 1)
    assert (received.offset, received.value) == (0, b"new")


def test_records_are_deleted_up_to_an_offset(
    client: Client, broker: BrokerProcess, topic_name: str
) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    client.produce(broker.bootstrap_servers, topic_name, [Message(b"%d" % n) for n in range(20)])

    assert delete_records(broker.bootstrap_servers, topic_name, 7) == 7

    assert offsets(broker.bootstrap_servers, topic_name) == (7, 20)
    received = client.consume(broker.bootstrap_servers, topic_name, 13, offset=7)
    assert [each.offset for each in received] == list(range(7, 20))
    with pytest.raises(Exception, match=r"(?i)out ?of ?range"):
        client.consume(broker.bootstrap_servers, topic_name, 1, offset=6)

    end = confluent_kafka.OFFSET_END
    assert delete_records(broker.bootstrap_servers, topic_name, end) == 20
    with pytest.raises(KafkaException) as refused:
        delete_records(broker.bootstrap_servers, topic_name, 21)
    assert code_of(refused.value) == OFFSET_OUT_OF_RANGE


def test_configs_of_a_topic_are_set_and_taken_back(broker: BrokerProcess, topic_name: str) -> None:
    create_topic(broker.bootstrap_servers, topic_name)
    alter_topic(
        broker.bootstrap_servers, topic_name, segment_bytes="2000000", cleanup_policy="compact"
    )
    assert topic_config(broker.bootstrap_servers, topic_name)["segment.bytes"] == "2000000"

    alter_topic(broker.bootstrap_servers, topic_name, cleanup_policy="delete")
    config = topic_config(broker.bootstrap_servers, topic_name)
    assert (config["segment.bytes"], config["cleanup.policy"]) == ("2000000", "delete")
    with pytest.raises(KafkaException) as refused:
        alter_topic(broker.bootstrap_servers, topic_name, segment_bytes="-5")
    assert code_of(refused.value) == INVALID_CONFIG


def test_the_broker_describes_its_configs(broker: BrokerProcess) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    admin = admin_client(broker.bootstrap_servers)
    found = admin.describe_configs([resource])[resource].result()
    assert found["node.id"].value == "1"
    assert found["log.dirs"].value == str(broker.log_directory)
    assert found["log.retention.check.interval.ms"].value == "200"
    assert found["num.partitions"].is_default


def test_the_cluster_is_described(broker: BrokerProcess) -> None:
    admin = admin_client(broker.bootstrap_servers)
    described = admin.describe_cluster().result()
    assert described.cluster_id == broker.cluster_id
    assert [(node.id, node.host, node.port) for node in described.nodes] == [
        (1, "127.0.0.1", broker.port)
    ]
    assert described.controller.id == 1


def test_kafka_python_administers(broker: BrokerProcess, topic_name: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_topics([PythonNewTopic(topic_name, 3, 1)])
        CLIENTS[1].produce(broker.bootstrap_servers, topic_name, [Message(b"12345")], partition=2)
        assert topic_name in admin.list_topics()
        (described,) = admin.describe_topics([topic_name])
        assert len(described["partitions"]) == 3
        deleted = admin.delete_records({kafka.TopicPartition(topic_name, 2): 1})
        assert deleted[kafka.TopicPartition(topic_name, 2)]["low_watermark"] == 1
        directories = admin.describe_log_dirs()
        assert directories
        admin.delete_topics([topic_name])
        eventually(lambda: topic_name not in admin.list_topics(), "deletion")
    finally:
        admin.close()


def test_aiokafka_administers(broker: BrokerProcess, topic_name: str) -> None:
    async def administer() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(topic_name, 2, 1)])
            (described,) = await admin.describe_topics([topic_name])
            assert len(described["partitions"]) == 2
            assert topic_name in await admin.list_topics()
            cluster = await admin.describe_cluster()
            assert cluster["cluster_id"] == broker.cluster_id
            await admin.delete_topics([topic_name])
        finally:
            await admin.close()

    asyncio.run(administer())
