"""Changes of settings are made or refused as Kafka does, in the words of a 4.3.1 broker."""

import pytest

from ottla.common.errors import ApiError, InvalidConfig, InvalidRequest
from ottla.config.broker import BrokerConfig
from ottla.config.changes import (
    Change,
    ConfigOperation,
    Resource,
    apply_changes,
    check_broker_name,
    check_broker_settings,
    check_group_settings,
    check_topic_settings,
    merged,
)
from ottla.config.client_metrics import check_client_metrics
from ottla.config.layers import Layers

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
BROKER = BrokerConfig.from_properties(NODE)
LAYERS = Layers(BROKER.originals)


def change(
    resource: Resource, current: dict[str, str], *changes: tuple[str, ConfigOperation, str | None]
) -> dict[str, str]:
    applied = apply_changes(resource, current, [Change(*each) for each in changes])
    return merged(current, applied)


def test_settings_are_set_and_deleted() -> None:
    after = change(
        Resource.TOPIC,
        {"a": "1", "b": "2"},
        ("a", ConfigOperation.DELETE, None),
        ("b", ConfigOperation.SET, "3"),
        ("c", ConfigOperation.SET, "4"),
        ("d", ConfigOperation.DELETE, ""),
    )
    assert after == {"b": "3", "c": "4"}


def test_a_list_grows_by_what_it_does_not_hold_yet() -> None:
    name = "cleanup.policy"
    assert change(Resource.TOPIC, {}, (name, ConfigOperation.APPEND, "compact")) == {
        name: "delete,compact"
    }
    assert change(Resource.TOPIC, {name: "delete"}, (name, ConfigOperation.APPEND, "delete")) == {
        name: "delete"
    }


@pytest.mark.parametrize(
    ("current", "operation", "value", "after"),
    [
        ("", ConfigOperation.APPEND, "compact", "compact"),
        ("", ConfigOperation.SUBTRACT, "delete", ""),
        (None, ConfigOperation.APPEND, "compact,", "delete,compact"),
        (None, ConfigOperation.APPEND, ",", "delete"),
        (None, ConfigOperation.APPEND, "", "delete,"),
        (None, ConfigOperation.APPEND, ",compact", "delete,,compact"),
        (None, ConfigOperation.SUBTRACT, "delete,,", ""),
    ],
)
def test_odd_lists_are_those_of_kafka(
    current: str | None, operation: ConfigOperation, value: str, after: str
) -> None:
    """An empty list is not the default; what is empty at the end of a list is nothing in Java."""
    name = "cleanup.policy"
    given = {} if current is None else {name: current}
    assert change(Resource.TOPIC, given, (name, operation, value)) == {name: after}


def test_what_a_broker_cannot_use_can_be_changed_and_removed() -> None:
    """It may be there: another release, or a broker with another file, has let it pass."""
    bad = {"log.retention.ms": "x", "background.threads": "12"}
    for layers in (LAYERS._replace(cluster=bad), LAYERS._replace(broker=bad)):
        per_broker = bool(layers.broker)
        after = check_broker_settings(layers, {"background.threads": "14"}, per_broker=per_broker)
        assert after.background_threads == 14
        other = check_broker_settings(
            layers, {"log.segment.bytes": "2000000"}, per_broker=not per_broker
        )
        assert (other.log_segment_bytes, other.background_threads) == (2_000_000, 12)
        with pytest.raises(InvalidRequest, match=r"log\.retention\.ms"):
            check_broker_settings(layers, bad, per_broker=per_broker)


@pytest.mark.parametrize("name", [" 1", "1 ", "1_0", "1.0", "x", "99999999999", "+"])
def test_a_broker_is_named_by_a_number(name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^Node id must be an integer, but it is: "):
        check_broker_name(name, 1)


def test_a_list_loses_one_occurrence() -> None:
    # Seen in Kafka 4.3.1: of "delete,delete,compact" one delete stays.
    name = "cleanup.policy"
    after = change(
        Resource.TOPIC,
        {name: "delete,delete,compact"},
        (name, ConfigOperation.SUBTRACT, "delete,foo"),
    )
    assert after == {name: "delete,compact"}


@pytest.mark.parametrize(
    ("resource", "changes", "refusal"),
    [
        (
            Resource.TOPIC,
            [("retention.ms", ConfigOperation.APPEND, "5")],
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            Resource.GROUP,
            [("consumer.session.timeout.ms", ConfigOperation.SUBTRACT, "5")],
            "Can't SUBTRACT to key consumer.session.timeout.ms because its type is not LIST.",
        ),
        (
            Resource.TOPIC,
            [("foo", ConfigOperation.APPEND, "5")],
            "Can't APPEND to key foo because its type is not LIST.",
        ),
        (
            Resource.BROKER,
            [("log.retention.ms", ConfigOperation.APPEND, "5")],
            "Config value append is not allowed for config key: log.retention.ms",
        ),
        (Resource.BROKER, [("foo", ConfigOperation.SUBTRACT, "5")], "Unknown config name: foo"),
        (
            Resource.CLIENT_METRICS,
            [("interval.ms", ConfigOperation.APPEND, "5")],
            "Can't APPEND to key interval.ms because its type is not LIST.",
        ),
        (
            Resource.BROKER_LOGGER,
            [("root", ConfigOperation.APPEND, "INFO")],
            "Can't APPEND to key root because its type is not LIST.",
        ),
        (
            Resource.TOPIC,
            [("a", ConfigOperation.SET, "1"), ("a", ConfigOperation.SET, "2")],
            "Error due to duplicate config keys",
        ),
        (Resource.TOPIC, [("a", ConfigOperation.SET, None)], "Null value not supported for : a"),
    ],
)
def test_changes_that_make_no_sense_are_refused(
    resource: Resource, changes: list[tuple[str, ConfigOperation, str | None]], refusal: str
) -> None:
    with pytest.raises(ApiError) as refused:
        change(resource, {}, *changes)
    assert str(refused.value) == refusal


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"foo": "1"}, "Unknown topic config name: foo"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"retention.ms": "-2"},
            "Invalid value -2 for configuration retention.ms: Value must be at least -1",
        ),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. Topic cannot be "
                "configured "
                "with remote log storage."
            ),
        ),
    ],
)
def test_settings_of_a_topic_are_refused(settings: dict[str, str | None], refusal: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_topic_settings(BROKER, settings)
    assert str(refused.value) == refusal


def test_settings_of_a_topic_are_taken() -> None:
    assert check_topic_settings(BROKER, {"retention.ms": " 70000 "}).retention_ms == 70_000
    config = check_topic_settings(BROKER, {"local.retention.ms": "10", "retention.ms": "5"})
    assert config.local_retention_ms == 10, "it matters only with tiered storage"


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"cleanup.policy": "compact"}, "only supports topics with cleanup.policy=delete"),
        ({"local.retention.ms": "10", "retention.ms": "5"}, "must not be more than retention.ms"),
        ({"local.retention.bytes": "-1", "retention.bytes": "5"}, "Value must not be -1"),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "10"},
            "the `local.retention.ms` and `retention.ms` must be set to the identical value",
        ),
        (
            {"remote.log.copy.disable": "true", "local.retention.bytes": "10"},
            "the `local.retention.bytes` and `retention.bytes` must be set to the identical value",
        ),
    ],
)
def test_a_tiered_topic_keeps_less_on_local_disk(settings: dict[str, str], refusal: str) -> None:
    tiered = BrokerConfig.from_properties({**NODE, "remote.log.storage.system.enable": "true"})
    check_topic_settings(tiered, {"remote.storage.enable": "true"})
    with pytest.raises(InvalidConfig, match=refusal):
        check_topic_settings(tiered, {"remote.storage.enable": "true", **settings})


def test_a_remote_part_is_switched_off_only_with_what_it_has() -> None:
    tiered = BrokerConfig.from_properties({**NODE, "remote.log.storage.system.enable": "true"})
    existing = {"remote.storage.enable": "true"}
    off = {"remote.storage.enable": "false"}
    for settings in ({}, off):
        with pytest.raises(InvalidConfig, match="It is invalid to disable remote storage without"):
            check_topic_settings(tiered, settings, existing)
    check_topic_settings(tiered, {**off, "remote.log.delete.on.disable": "true"}, existing)
    check_topic_settings(tiered, off, {})


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"foo": "1"}, "Unknown group config name: foo"),
        (
            {"consumer.session.timeout.ms": "1"},
            (
                "consumer.session.timeout.ms must be greater than or equal to "
                "group.consumer.min.session.timeout.ms"
            ),
        ),
        (
            {"consumer.session.timeout.ms": "500000"},
            (
                "consumer.session.timeout.ms must be less than or equal to "
                "group.consumer.max.session.timeout.ms"
            ),
        ),
        (
            {"streams.num.standby.replicas": "9"},
            (
                "streams.num.standby.replicas must be less than or equal to "
                "group.streams.max.standby.replicas"
            ),
        ),
    ],
)
def test_settings_of_a_group_are_refused(settings: dict[str, str], refusal: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        check_group_settings(BROKER, settings)
    assert str(refused.value) == refusal


def test_a_session_of_a_group_lasts_longer_than_a_heartbeat() -> None:
    wide = {"group.consumer.max.heartbeat.interval.ms": "60000"}
    broker = BrokerConfig.from_properties({**NODE, **wide})
    with pytest.raises(InvalidConfig, match=r"consumer\.session\.timeout\.ms must be greater than"):
        check_group_settings(broker, {"consumer.heartbeat.interval.ms": "50000"})
    with pytest.raises(InvalidConfig, match="must be less than group"):
        BrokerConfig.from_properties(
            {**NODE, **wide, "group.consumer.heartbeat.interval.ms": "45000"}
        )


def test_settings_of_a_group_are_taken() -> None:
    settings = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "15000"}
    assert check_group_settings(BROKER, settings).consumer_heartbeat_interval_ms == 15_000


@pytest.mark.parametrize(
    ("settings", "per_broker", "refusal"),
    [
        (
            {"num.partitions": "2"},
            True,
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            {"log.retention.ms": "x"},
            False,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            {"cordoned.log.dirs": "x"},
            False,
            (
                "Cannot update these configs at default cluster level, broker id must be "
                "specified: "
                "[cordoned.log.dirs]"
            ),
        ),
        (
            {"cordoned.log.dirs": "x"},
            True,
            (
                "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. Missing "
                "entries : x"
            ),
        ),
        (
            {"listeners": "PLAINTEXT://127.0.0.1:1"},
            True,
            (
                "controller.listener.names must only contain values appearing in the 'listeners' "
                "configuration when running the KRaft controller role"
            ),
        ),
        (
            {"leader.replication.throttled.rate": "-10"},
            False,
            (
                "Invalid value -10 for configuration leader.replication.throttled.rate: Value "
                "must be "
                "at least 0"
            ),
        ),
        (
            {"log.local.retention.ms": "50", "log.retention.ms": "10"},
            True,
            (
                "Invalid value 50 for configuration log.local.retention.ms: Value must not be more "
                "than log.retention.ms property value: 10"
            ),
        ),
        (
            {"num.io.threads": "100"},
            True,
            (
                "Dynamic thread count update validation failed for num.io.threads=100, value "
                "should "
                "not be greater than double the current value 8"
            ),
        ),
        (
            {"background.threads": "1"},
            False,
            (
                "Dynamic thread count update validation failed for background.threads=1, value "
                "should "
                "be at least half the current value 10"
            ),
        ),
    ],
)
def test_settings_of_a_broker_are_refused(
    settings: dict[str, str], per_broker: bool, refusal: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        check_broker_settings(LAYERS, settings, per_broker=per_broker)
    assert str(refused.value) == refusal


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        (
            {"log.cleaner.threads": "9"},
            "Log cleaner threads cannot be increased to more than double the current value 4",
        ),
        (
            {"log.cleaner.threads": "1"},
            "Log cleaner threads cannot be reduced to less than half the current value 4",
        ),
        ({"log.cleaner.threads": "0"}, "Log cleaner threads should be at least 1"),
        (
            {"log.local.retention.bytes": "-1"},
            (
                "Invalid value -1 for configuration log.local.retention.bytes: Value must not be "
                "-1 as log.retention.bytes value is set as 5000000."
            ),
        ),
        (
            {"group.consumer.assignment.interval.ms": "20000"},
            (
                "group.consumer.assignment.interval.ms must be less than or equal to "
                "group.consumer.max.assignment.interval.ms"
            ),
        ),
    ],
)
def test_a_running_broker_changes_in_small_steps(settings: dict[str, str], refusal: str) -> None:
    properties = {**NODE, "log.cleaner.threads": "4", "log.retention.bytes": "5000000"}
    layers = Layers(BrokerConfig.from_properties(properties).originals)
    with pytest.raises(InvalidRequest) as refused:
        check_broker_settings(layers, settings, per_broker=False)
    assert str(refused.value) == refusal


def test_settings_of_a_broker_are_taken_even_when_unknown() -> None:
    settings = {"foo": "1", "log.retention.ms": "600000", "num.io.threads": "16"}
    config = check_broker_settings(LAYERS, settings, per_broker=False)
    assert config.log_retention_ms == 600_000
    assert config.num_io_threads == 16


def test_a_broker_changes_only_its_own_settings() -> None:
    check_broker_name("", 1)
    check_broker_name("1", 1)
    for name, refusal in (
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
    ):
        with pytest.raises(InvalidRequest) as refused:
            check_broker_name(name, 1)
        assert str(refused.value) == refusal


@pytest.mark.parametrize(
    ("name", "settings", "refusal"),
    [
        ("", {"interval.ms": "1000"}, "Subscription name can't be empty"),
        ("m", {"foo": "1"}, "Unknown client metrics configuration: foo"),
        (
            "m",
            {"interval.ms": "1"},
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        ("m", {"match": "x"}, "Illegal client matching pattern: x"),
        ("m", {"match": "client_id=["}, "Illegal client matching pattern: client_id=["),
        ("m", {"match": "foo=1"}, "Illegal client matching pattern: foo=1"),
    ],
)
def test_a_metrics_subscription_is_refused(
    name: str, settings: dict[str, str], refusal: str
) -> None:
    with pytest.raises(ApiError) as refused:
        check_client_metrics(name, settings)
    assert str(refused.value) == refusal


def test_a_metrics_subscription_is_taken() -> None:
    check_client_metrics("m", {"match": "client_id=x.*", "interval.ms": "1000", "metrics": "org."})
