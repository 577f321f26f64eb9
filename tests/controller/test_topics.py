"""CreateTopics and DeleteTopics; codes and texts are those that Apache Kafka 4.3.1 answered."""

import pytest
from tests.controller.machines import Controller, directory_of, error

from ottla.common.errors import TopicDeletionDisabled
from ottla.common.identifiers import ZERO_UUID
from ottla.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.generated.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)


def create(
    controller: Controller, *topics: CreatableTopic, validate_only: bool = False
) -> CreateTopicsResponse:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return controller.apply(controller.machine.topics.create_topics(request))


def topic(name: str = "t", partitions: int = 1, factor: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=factor)


def test_a_topic_is_a_record_its_configs_and_its_partitions() -> None:
    controller = Controller(brokers=1)
    before = len(controller.records)
    result = controller.create("t", 2, configs={"retention.ms": "77"})
    topic_id = result.topic_id
    assert controller.records[before:] == [
        TopicRecord(name="t", topic_id=topic_id),
        ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="77"),
        *(
            PartitionRecord(
                partition_id=partition_id,
                topic_id=topic_id,
                replicas=[1],
                isr=[1],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[directory_of(1)],
            )
            for partition_id in range(2)
        ),
    ]
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)


def test_the_answer_tells_all_settings_and_where_they_come_from() -> None:
    controller = Controller(brokers=1, log_segment_bytes="2097152")
    result = controller.create(configs={"retention.ms": "5"})
    assert result.configs is not None
    told = {config.name: (config.value, config.config_source) for config in result.configs}
    assert len(told) == 33
    assert list(told) == sorted(told)
    assert told["retention.ms"] == ("5", 1)
    assert told["min.insync.replicas"] == ("1", 3)
    assert told["segment.bytes"] == ("2097152", 4)
    assert told["cleanup.policy"] == ("delete", 5)
    assert not any(config.read_only or config.is_sensitive for config in result.configs)


def test_only_validating_writes_nothing() -> None:
    controller = Controller(brokers=1)
    before = len(controller.records)
    (result,) = create(controller, topic("t", 3), validate_only=True).topics
    assert (result.error_code, result.num_partitions) == (0, 3)
    assert result.topic_id != ZERO_UUID
    assert len(controller.records) == before


def test_minus_one_stands_for_the_defaults_of_the_cluster() -> None:
    controller = Controller(brokers=2, num_partitions="3", default_replication_factor="2")
    result = controller.create("t", -1, -1)
    assert (result.num_partitions, result.replication_factor) == (3, 2)


def test_a_topic_may_be_placed_by_hand() -> None:
    controller = Controller(brokers=3)
    result = controller.create(assignments=[[1, 2], [3, 1]])
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert controller.partition("t", 0).replicas == (1, 2)
    assert controller.partition("t", 1).leader == 3


def test_a_replica_on_a_fenced_broker_is_not_in_sync() -> None:
    controller = Controller(brokers=2)
    controller.heartbeat(1, want_fence=True)
    controller.create(assignments=[[1, 2]])
    partition = controller.partition()
    assert (partition.isr, partition.leader) == ((2,), 2)


UNREACHABLE = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
    "reached because only 1 broker(s) are registered or some brokers have all their log "
    "directories cordoned."
)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (
            topic(""),
            ("INVALID_TOPIC_EXCEPTION", "Topic name is invalid: the empty string is not allowed"),
        ),
        (topic("."), ("INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '.' is not allowed")),
        (topic(".."), ("INVALID_TOPIC_EXCEPTION", "Topic name is invalid: '..' is not allowed")),
        (
            topic("a" * 250),
            (
                "INVALID_TOPIC_EXCEPTION",
                (
                    f"Topic name is invalid: the length of '{'a' * 250}' is longer than the max "
                    "allowed length 249"
                ),
            ),
        ),
        (
            topic("x!"),
            (
                "INVALID_TOPIC_EXCEPTION",
                (
                    "Topic name is invalid: 'x!' contains one or more characters other than ASCII "
                    "alphanumerics, '.', '_' and '-'"
                ),
            ),
        ),
        (topic("old"), ("TOPIC_ALREADY_EXISTS", "Topic 'old' already exists.")),
        (
            topic("a_b"),
            ("INVALID_TOPIC_EXCEPTION", "Topic 'a_b' collides with existing topic: a.b"),
        ),
        (
            topic("__cluster_metadata"),
            ("INVALID_REQUEST", "Creation of internal topic __cluster_metadata is prohibited."),
        ),
        (
            topic("t", 0),
            (
                "INVALID_PARTITIONS",
                "Number of partitions was set to an invalid non-positive value.",
            ),
        ),
        (
            topic("t", 1, 0),
            (
                "INVALID_REPLICATION_FACTOR",
                "Replication factor must be larger than 0, or -1 to use the default value.",
            ),
        ),
        (topic("t", 1, 2), ("INVALID_REPLICATION_FACTOR", UNREACHABLE)),
        (
            topic("t", 10_001),
            ("POLICY_VIOLATION", "Excessively large number of partitions per request."),
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_what_cannot_be_created_is_refused(
    wanted: CreatableTopic, expected: tuple[str, str]
) -> None:
    controller = Controller(brokers=1)
    controller.create("old")
    controller.create("a.b")
    (result,) = create(controller, wanted).topics
    assert error(result.error_code, result.error_message) == expected
    assert (result.topic_id, result.num_partitions, result.configs) == (ZERO_UUID, -1, [])


def test_the_default_number_of_partitions_counts_for_what_it_is() -> None:
    controller = Controller(brokers=1, num_partitions="1000")
    names = [f"t-{number}" for number in range(11)]
    results = create(controller, *(topic(name, -1) for name in names)).topics
    assert {error(each.error_code, each.error_message) for each in results} == {
        ("POLICY_VIOLATION", "Excessively large number of partitions per request.")
    }
    assert not controller.image.topics.by_name
    assert create(controller, *(topic(name, -1) for name in names[:9])).topics[0].error_code == 0


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([(1, [1])], "partitions should be a consecutive 0-based integer sequence"),
        ([(0, [1, 1])], "The manual partition assignment includes the broker 1 more than once."),
        ([(0, [])], "The manual partition assignment includes an empty replica list."),
        (
            [(0, [9])],
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        ([(0, [1]), (0, [1])], "Found multiple manual partition assignments for partition 0"),
        (
            [(0, [1]), (1, [1, 2])],
            (
                "The manual partition assignment includes a partition with 2 replica(s), but this "
                "is not consistent with previous partitions, which have 1 replica(s)."
            ),
        ),
        (
            [(0, [3])],
            (
                "All brokers specified in the manual partition assignment for partition 0 are "
                "fenced or in controlled shutdown."
            ),
        ),
    ],
)
def test_a_placement_by_hand_is_checked(
    assignments: list[tuple[int, list[int]]], message: str
) -> None:
    controller = Controller(brokers=3)
    controller.heartbeat(3, want_fence=True)
    wanted = topic("t", -1, -1)
    wanted.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
        for index, brokers in assignments
    ]
    (result,) = create(controller, wanted).topics
    assert error(result.error_code, result.error_message) == (
        "INVALID_REPLICA_ASSIGNMENT",
        message,
    )


@pytest.mark.parametrize(
    ("partitions", "factor", "what"),
    [(1, 1, "replication factor"), (-1, 1, "replication factor"), (1, -1, "numPartitions")],
)
def test_numbers_and_a_placement_by_hand_exclude_each_other(
    partitions: int, factor: int, what: str
) -> None:
    wanted = topic("t", partitions, factor)
    wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    (result,) = create(Controller(brokers=1), wanted).topics
    assert error(result.error_code, result.error_message) == (
        "INVALID_REQUEST",
        f"A manual partition assignment was specified, but {what} was not set to -1.",
    )


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"bla": "1"}, "Unknown topic config name: bla"),
        (
            {"retention.ms": "abc"},
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            {"retention.ms": None, "bla": None},
            "Null value not supported for topic configs: retention.ms,bla",
        ),
        (
            {"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "10"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"retention.ms": " " * 32_768 + "1"},
            (
                "The configuration value cannot be added because it exceeds the maximum value size "
                "of 32767 bytes."
            ),
        ),
    ],
)
def test_settings_are_checked(configs: dict[str, str | None], message: str) -> None:
    result = Controller(brokers=1).create(configs=configs)
    assert error(result.error_code, result.error_message) == ("INVALID_CONFIG", message)


def test_one_refused_topic_does_not_take_the_others_with_it() -> None:
    controller = Controller(brokers=1)
    results = create(controller, topic("a"), topic("!"), topic("b")).topics
    assert [(result.name, result.error_code) for result in results] == [
        ("a", 0),
        ("!", 17),
        ("b", 0),
    ]
    assert set(controller.image.topics.by_name) == {"a", "b"}


def test_a_topic_that_is_named_twice_is_refused_once() -> None:
    controller = Controller(brokers=1)
    results = create(controller, topic("twice"), topic("once"), topic("twice", 2)).topics
    assert [(result.name, result.error_message) for result in results] == [
        ("once", None),
        ("twice", "Duplicate topic name."),
    ]
    assert set(controller.image.topics.by_name) == {"once"}


def test_more_records_than_a_batch_may_have_are_refused_as_a_whole() -> None:
    controller = Controller(brokers=1)
    results = create(controller, topic("a", 9_998), topic("b", 1)).topics
    assert {error(result.error_code, result.error_message) for result in results} == {
        ("POLICY_VIOLATION", "Unable to perform excessively large batch operation.")
    }
    assert len(controller.image.topics) == 0
    (result,) = create(controller, topic("a", 9_999)).topics
    assert result.error_code == 0


# DeleteTopics


def delete(controller: Controller, *wanted: tuple[str | None, bytes]) -> DeleteTopicsResponse:
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in wanted]
    )
    return controller.apply(controller.machine.topics.delete_topics(request))


def test_topics_are_deleted_by_name_and_by_id_and_their_configs_go_too() -> None:
    controller = Controller(brokers=1)
    first = controller.create("a", configs={"retention.ms": "1"}).topic_id
    second = controller.create("b").topic_id
    responses = delete(controller, ("a", ZERO_UUID), (None, second)).responses
    assert [(r.name, r.topic_id, r.error_code) for r in responses] == [
        ("a", first, 0),
        ("b", second, 0),
    ]
    assert controller.records[-2:] == [
        RemoveTopicRecord(topic_id=first),
        RemoveTopicRecord(topic_id=second),
    ]
    assert len(controller.image.topics) == 0
    assert (2, "a") not in controller.image.configs


def test_old_versions_delete_by_names() -> None:
    controller = Controller(brokers=1)
    controller.create("a")
    request = DeleteTopicsRequest(topic_names=["a", "nope"])
    responses = controller.apply(controller.machine.topics.delete_topics(request)).responses
    assert {(r.name, r.error_code) for r in responses} == {("a", 0), ("nope", 3)}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (
            [("nope", ZERO_UUID)],
            ("UNKNOWN_TOPIC_OR_PARTITION", "This server does not host this topic-partition."),
        ),
        (
            [(None, b"1" * 16)],
            ("UNKNOWN_TOPIC_ID", "This server does not host this topic ID."),
        ),
        (
            [("a", b"1" * 16)],
            ("INVALID_REQUEST", "You may not specify both topic name and topic id."),
        ),
        (
            [(None, ZERO_UUID)],
            ("INVALID_REQUEST", "Neither topic name nor id were specified."),
        ),
        ([("a", ZERO_UUID)] * 2, ("INVALID_REQUEST", "Duplicate topic name.")),
        ([(None, b"1" * 16)] * 2, ("INVALID_REQUEST", "Duplicate topic id.")),
    ],
)
def test_what_cannot_be_deleted_is_refused(
    wanted: list[tuple[str | None, bytes]], expected: tuple[str, str]
) -> None:
    controller = Controller(brokers=1)
    controller.create("a")
    (response,) = delete(controller, *wanted).responses
    assert error(response.error_code, response.error_message) == expected
    assert len(controller.image.topics) == 1


def test_a_topic_by_name_and_by_id_in_one_request_is_not_deleted() -> None:
    controller = Controller(brokers=1)
    topic_id = controller.create("a").topic_id
    (response,) = delete(controller, ("a", ZERO_UUID), (None, topic_id)).responses
    assert error(response.error_code, response.error_message) == (
        "INVALID_REQUEST",
        "The provided topic name maps to an ID that was already supplied.",
    )
    assert len(controller.image.topics) == 1


def test_deletion_can_be_switched_off() -> None:
    controller = Controller(brokers=1, delete_topic_enable="false")
    controller.create("a")
    with pytest.raises(TopicDeletionDisabled):
        delete(controller, ("a", ZERO_UUID))


def test_configs_of_a_new_topic_are_in_its_settings_at_once() -> None:
    controller = Controller(brokers=1)
    wanted = topic("t")
    wanted.configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
    create(controller, wanted)
    assert controller.image.configs_of(2, "t") == {"cleanup.policy": "compact"}
