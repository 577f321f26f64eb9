"""The admin against a running broker; each test also against Apache Kafka."""

import pytest
from tests.client.conftest import NewTopicFixture
from tests.waiting import eventually

from ottla.client.admin import Admin
from ottla.client.descriptions import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from ottla.client.errors import BrokerUnavailable, SomeRefused
from ottla.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from ottla.client.producer import Producer
from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition


def settings(admin: Admin, resource: ConfigResource, *keys: str) -> dict[str, ConfigEntry]:
    entries = admin.describe_configs([resource], keys=keys, synonyms=True)[resource]
    return {entry.name: entry for entry in entries}


def test_a_cluster_tells_of_itself(admin: Admin, address: str) -> None:
    cluster = admin.describe_cluster(fenced=True)
    assert len(cluster.cluster_id) == 22
    (broker,) = cluster.brokers
    assert cluster.controller_id == broker.node_id == 1
    assert str(broker.address) == address
    assert not broker.fenced


def test_topics_are_made_listed_described_and_deleted(admin: Admin) -> None:
    configs = {"cleanup.policy": "compact"}
    made = admin.create_topics([NewTopic("made-1", 3, 1, configs), NewTopic("made-2", 1, 1)])
    assert made["made-1"][1:] == (3, 1)
    eventually(lambda: {"made-1", "made-2"} <= set(admin.list_topics()))
    described = admin.describe_topics(["made-2", "made-1"])
    assert list(described) == ["made-2", "made-1"]
    assert described["made-1"].topic_id == made["made-1"].topic_id
    assert [item.partition for item in described["made-1"].partitions] == [0, 1, 2]
    for item in described["made-1"].partitions:
        assert (item.leader, item.replicas, item.isr) == (1, [1], [1])
    resource = ConfigResource(ResourceType.TOPIC, "made-1")
    assert settings(admin, resource, "cleanup.policy")["cleanup.policy"].value == "compact"
    admin.delete_topics(["made-1", "made-2"])
    eventually(lambda: not {"made-1", "made-2"} & set(admin.list_topics()))


def test_names_with_partitions_are_enough_to_make_topics(admin: Admin) -> None:
    assert admin.create_topics({"short": 2})["short"].partitions == 2
    admin.delete_topics(["short"])


def test_of_several_topics_those_that_can_are_made(
    admin: Admin, new_topic: NewTopicFixture
) -> None:
    old = new_topic()
    with pytest.raises(SomeRefused) as refusal:
        admin.create_topics({old: 1, "not/a name": 1, f"{old}-new": 1})
    refused = {name: error.code for name, error in refusal.value.refused.items()}
    assert refused == {
        old: ErrorCode.TOPIC_ALREADY_EXISTS,
        "not/a name": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert list(refusal.value.done) == [f"{old}-new"]
    eventually(lambda: f"{old}-new" in admin.list_topics())


def test_a_trial_makes_nothing(admin: Admin) -> None:
    assert admin.create_topics({"trial": 5}, validate_only=True)["trial"].partitions == 5
    assert "trial" not in admin.list_topics()


def test_replicas_may_be_placed_by_hand(admin: Admin, new_topic: NewTopicFixture) -> None:
    name = f"{new_topic()}-placed"
    made = admin.create_topics([NewTopic(name, assignments={0: [1], 1: [1]})])
    assert made[name][1:] == (2, 1)
    with pytest.raises(SomeRefused) as refusal:
        admin.create_topics([NewTopic(f"{name}-wrong", assignments={0: [77]})])
    assert refusal.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_what_does_not_exist_is_refused_by_name(admin: Admin) -> None:
    for action in (
        lambda: admin.describe_topics(["nowhere"]),
        lambda: admin.delete_topics(["nowhere"]),
        lambda: admin.create_partitions({"nowhere": 3}),
        lambda: admin.list_offsets({TopicPartition("nowhere", 0): LATEST}),
    ):
        with pytest.raises(SomeRefused) as refusal:
            action()
        assert refusal.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "nowhere" in str(next(iter(refusal.value.refused)))


def test_partitions_are_added_and_never_taken_away(
    admin: Admin, new_topic: NewTopicFixture
) -> None:
    name = new_topic(2)
    admin.create_partitions({name: 9}, validate_only=True)
    admin.create_partitions({name: 5})
    eventually(lambda: len(admin.describe_topics([name])[name].partitions) == 5)
    with pytest.raises(SomeRefused) as refusal:
        admin.create_partitions({name: 3})
    assert refusal.value.code is ErrorCode.INVALID_PARTITIONS


def test_many_partitions_are_described_page_by_page(
    admin: Admin, new_topic: NewTopicFixture
) -> None:
    names = [new_topic(12), new_topic(25), new_topic(1)]
    described = admin.describe_topics(names, page_partitions=10)
    counts = {name: [item.partition for item in described[name].partitions] for name in names}
    assert list(counts.values()) == [list(range(12)), list(range(25)), [0]]


def test_settings_are_changed_one_by_one(admin: Admin, new_topic: NewTopicFixture) -> None:
    resource = ConfigResource(ResourceType.TOPIC, new_topic(retention_ms="5000"))
    admin.alter_configs({resource: [ConfigChange("max.message.bytes", "7000")]})
    keys = ("max.message.bytes", "retention.ms")
    eventually(lambda: settings(admin, resource, *keys)["max.message.bytes"].value == "7000")
    now = settings(admin, resource, *keys)
    assert now["retention.ms"].value == "5000"
    assert now["max.message.bytes"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert [one.name for one in now["max.message.bytes"].synonyms] == [
        "max.message.bytes",
        "message.max.bytes",
    ]
    back = ConfigChange("max.message.bytes", operation=ConfigOperation.DELETE)
    admin.alter_configs({resource: [back]})
    eventually(lambda: settings(admin, resource, *keys)["max.message.bytes"].value == "1048588")


def test_values_are_added_to_lists_and_taken_from_them(
    admin: Admin, new_topic: NewTopicFixture
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, new_topic(cleanup_policy="delete"))

    def change(operation: ConfigOperation, value: str) -> None:
        admin.alter_configs({resource: [ConfigChange("cleanup.policy", value, operation)]})

    def value() -> str | None:
        return settings(admin, resource, "cleanup.policy")["cleanup.policy"].value

    change(ConfigOperation.APPEND, "compact")
    eventually(lambda: value() == "delete,compact")
    change(ConfigOperation.SUBTRACT, "delete")
    eventually(lambda: value() == "compact")


def test_wrong_settings_are_refused_and_trials_change_nothing(
    admin: Admin, new_topic: NewTopicFixture
) -> None:
    resource = ConfigResource(ResourceType.TOPIC, new_topic())
    with pytest.raises(SomeRefused) as refusal:
        admin.alter_configs({resource: [ConfigChange("max.message.bytes", "many")]})
    assert refusal.value.code is ErrorCode.INVALID_CONFIG
    admin.alter_configs({resource: [ConfigChange("max.message.bytes", "7000")]}, validate_only=True)
    assert settings(admin, resource, "max.message.bytes")["max.message.bytes"].value == "1048588"


def test_a_broker_tells_its_own_settings(admin: Admin) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    entries = settings(admin, resource, "node.id", "log.retention.ms")
    assert entries["node.id"].value == "1"
    assert entries["node.id"].read_only
    documented = admin.describe_configs([resource], keys=["node.id"], documentation=True)
    assert documented[resource][0].documentation
    with pytest.raises(BrokerUnavailable, match="no broker 12, only 1"):
        admin.describe_configs([ConfigResource(ResourceType.BROKER, "12")])


def test_resources_with_settings_are_listed(admin: Admin, new_topic: NewTopicFixture) -> None:
    name = new_topic()
    assert ConfigResource(ResourceType.TOPIC, name) in admin.list_config_resources()
    brokers = admin.list_config_resources([ResourceType.BROKER])
    assert brokers == [ConfigResource(ResourceType.BROKER, "1")]


def test_records_are_deleted_up_to_an_offset(
    admin: Admin, address: str, new_topic: NewTopicFixture
) -> None:
    partition = TopicPartition(new_topic(), 0)
    with Producer(address) as producer:
        for number in range(10):
            producer.send(partition.topic, b"v", timestamp=1000 + number)
    assert admin.delete_records({partition: 4}) == {partition: 4}
    assert admin.list_offsets({partition: EARLIEST})[partition].offset == 4
    assert admin.delete_records({partition: -1}) == {partition: 10}
    with pytest.raises(SomeRefused) as refusal:
        admin.delete_records({partition: 11})
    assert refusal.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_are_found_by_time(admin: Admin, address: str, new_topic: NewTopicFixture) -> None:
    partition = TopicPartition(new_topic(), 0)
    with Producer(address) as producer:
        for timestamp in (1000, 3000, 2000):
            producer.send(partition.topic, b"v", timestamp=timestamp)

    def at(time: int) -> tuple[int, int]:
        return admin.list_offsets({partition: time})[partition][:2]

    assert at(EARLIEST) == (0, -1)
    assert at(LATEST) == (3, -1)
    assert at(1001) == (1, 3000)
    assert at(MAX_TIMESTAMP) == (1, 3000)
    assert at(9000) == (-1, -1)


def test_directories_tell_the_size_of_their_replicas(
    admin: Admin, address: str, new_topic: NewTopicFixture
) -> None:
    name = new_topic(2)
    with Producer(address) as producer:
        producer.send(name, bytes(1000), partition=1)
    (directory,) = admin.describe_log_dirs()[1]
    assert directory.error_code == 0
    assert directory.total_bytes > directory.usable_bytes > 0
    sizes = {
        replica.partition: replica.size for replica in directory.replicas if replica.topic == name
    }
    assert sizes[0] == 0
    assert sizes[1] > 1000
    (one,) = admin.describe_log_dirs([1], partitions=[TopicPartition(name, 1)])[1]
    assert [(replica.topic, replica.partition) for replica in one.replicas] == [(name, 1)]
