"""Which value wins, and what DescribeConfigs says of each."""

import pytest

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.definition import Scope
from ottla.config.describe import (
    Entry,
    Synonym,
    describe_broker,
    describe_client_metrics,
    describe_cluster_defaults,
    describe_group,
    describe_topic,
)
from ottla.config.group import GroupConfig
from ottla.config.kinds import HiddenValue, Kind
from ottla.config.layers import Layers, Source, check_scopes, scope_of, without_invalid
from ottla.config.topic import TopicConfig

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def layers(
    static: dict[str, str] | None = None,
    cluster: dict[str, str] | None = None,
    broker: dict[str, str] | None = None,
) -> Layers:
    static_config = BrokerConfig.from_properties({**NODE, **(static or {})})
    return Layers(static_config.originals, cluster or {}, broker or {})


def topic_entry(given: Layers, overrides: dict[str, str], name: str) -> Entry:
    (entry,) = describe_topic(given, given.effective(), overrides, [name])
    return entry


def broker_entry(given: Layers, name: str) -> Entry:
    (entry,) = describe_broker(given, given.effective(), [name])
    return entry


def test_each_layer_goes_before_the_one_below_it() -> None:
    given = layers({"log.segment.bytes": "2000000"})
    assert given.effective().log_segment_bytes == 2_000_000
    given = given._replace(cluster={"log.segment.bytes": "3000000"})
    assert given.effective().log_segment_bytes == 3_000_000
    given = given._replace(broker={"log.segment.bytes": "4000000"})
    assert given.effective().log_segment_bytes == 4_000_000
    topic = TopicConfig.from_broker(given.effective(), {"segment.bytes": "5000000"})
    assert topic.segment_bytes == 5_000_000


def test_a_dynamic_value_hides_the_same_in_other_units() -> None:
    given = layers({"log.roll.ms": "1000", "log.retention.minutes": "5"})
    assert given.effective().log_retention_ms == 300_000
    given = given._replace(cluster={"log.retention.ms": "7000"})
    assert given.effective().log_retention_ms == 7_000
    assert "log.retention.minutes" not in given.merged()


def test_the_finest_unit_wins() -> None:
    times = {"log.retention.hours": "1", "log.roll.hours": "2", "log.roll.jitter.hours": "3"}
    config = layers(times).effective()
    assert config.log_retention_ms == 3_600_000
    assert config.log_roll_ms == 7_200_000
    assert config.log_roll_jitter_ms == 10_800_000
    config = layers({**times, "log.retention.minutes": "2"}).effective()
    assert config.log_retention_ms == 120_000
    assert layers({**times, "log.retention.ms": "-7"}).effective().log_retention_ms == -1


def test_a_topic_follows_the_broker_in_what_it_does_not_set() -> None:
    broker = layers(
        {"log.flush.scheduler.interval.ms": "77", "message.max.bytes": "99", "log.dirs": "/a,/b"}
    ).effective()
    topic = TopicConfig.from_broker(broker, {"cleanup.policy": "compact, delete"})
    assert topic.flush_ms == 77
    assert topic.max_message_bytes == 99
    assert topic.cleanup_policy == {"compact", "delete"}
    assert topic.compacted
    assert topic.deleted
    assert broker.num_replica_alter_log_dirs_threads == 2
    assert broker.metadata_log_dir == "/a"
    assert TopicConfig.from_broker(broker, {"internal.segment.bytes": "500"}).segment_bytes == 500


def test_a_group_follows_the_broker_in_what_it_does_not_set() -> None:
    broker = layers({"group.consumer.session.timeout.ms": "50000"}).effective()
    group = GroupConfig.from_broker(broker, {"share.isolation.level": "read_committed"})
    assert group.consumer_session_timeout_ms == 50_000
    assert group.share_isolation_level == "read_committed"


def test_settings_do_not_change() -> None:
    config = layers().effective()
    with pytest.raises(AttributeError):
        config.num_partitions = 3
    with pytest.raises(AttributeError):
        del config.num_partitions
    assert config.num_partitions == 1


def test_a_password_does_not_show_itself() -> None:
    config = layers({"ssl.key.password": "secret"}).effective()
    assert config.ssl_key_password == HiddenValue("secret")
    assert "secret" not in repr(config.ssl_key_password)
    entry = broker_entry(layers({"ssl.key.password": "secret"}), "ssl.key.password")
    assert entry.is_sensitive
    assert entry.value is None
    assert entry.synonyms == (Synonym("ssl.key.password", None, Source.STATIC_BROKER_CONFIG),)


def test_the_synonyms_of_a_topic_setting_go_from_the_strongest_layer_to_the_weakest() -> None:
    given = layers(
        {"log.segment.bytes": "2000000"},
        {"log.segment.bytes": "3000000"},
        {"log.segment.bytes": "4000000"},
    )
    entry = topic_entry(given, {"segment.bytes": "5000000"}, "segment.bytes")
    assert entry.value == "5000000"
    assert entry.source is Source.TOPIC_CONFIG
    assert entry.kind == Kind.INT
    assert not entry.read_only
    assert entry.synonyms == (
        Synonym("segment.bytes", "5000000", Source.TOPIC_CONFIG),
        Synonym("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER_CONFIG),
        Synonym("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Synonym("log.segment.bytes", "2000000", Source.STATIC_BROKER_CONFIG),
        Synonym("log.segment.bytes", "1073741824", Source.DEFAULT_CONFIG),
    )


def test_a_topic_setting_without_anything_said_of_its_first_synonym_has_none() -> None:
    # Seen in Kafka 4.3.1: log.retention.hours does not count as a synonym of retention.ms.
    entry = topic_entry(layers({"log.retention.hours": "2"}), {}, "retention.ms")
    assert (entry.value, entry.source, entry.synonyms) == ("7200000", Source.DEFAULT_CONFIG, ())
    entry = topic_entry(
        layers({"log.retention.hours": "2"}, broker={"log.retention.ms": "600000"}),
        {},
        "retention.ms",
    )
    assert entry.synonyms == (
        Synonym("log.retention.ms", "600000", Source.DYNAMIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "2", Source.STATIC_BROKER_CONFIG),
        Synonym("log.retention.hours", "168", Source.DEFAULT_CONFIG),
    )


def test_an_internal_setting_shows_only_when_it_is_set() -> None:
    given = layers()
    names = {entry.name for entry in describe_topic(given, given.effective(), {})}
    assert len(names) == 33
    assert "internal.segment.bytes" not in names
    assert (
        topic_entry(given, {"internal.segment.bytes": "9"}, "internal.segment.bytes").value == "9"
    )


def test_a_broker_shows_its_settings_and_those_that_it_does_not_know() -> None:
    given = layers({"foo.bar": "x"})
    entries = {entry.name: entry for entry in describe_broker(given, given.effective())}
    assert entries["foo.bar"].value is None, "what is not known might be a secret"
    assert entries["foo.bar"].kind == 0
    assert entries["foo.bar"].read_only
    assert entries["broker.id"].value == "1"
    assert entries["broker.id"].source is Source.STATIC_BROKER_CONFIG
    assert entries["num.partitions"].read_only
    assert not entries["num.io.threads"].read_only
    assert entries["log.cleaner.io.max.bytes.per.second"].value == "1.7976931348623157E308"
    assert "unstable.api.versions.enable" not in entries
    assert entries["log.flush.interval.ms"].value is None
    assert entries["log.flush.interval.ms"].documentation


def test_the_cluster_wide_settings_are_only_those_that_are_set() -> None:
    given = layers(
        cluster={"log.retention.ms": "5000", "foo": "1"}, broker={"max.connections": "3"}
    )
    entries = describe_cluster_defaults(given, given.effective())
    assert [(entry.name, entry.value, entry.source) for entry in entries] == [
        ("foo", None, Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ("log.retention.ms", "5000", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ]
    assert describe_cluster_defaults(given, given.effective(), ["max.connections"]) == []


def test_a_group_is_described_with_the_broker_behind_it() -> None:
    given = layers()
    entries = {
        entry.name: entry
        for entry in describe_group(
            given, given.effective(), {"consumer.session.timeout.ms": "50000"}
        )
    }
    assert entries["consumer.session.timeout.ms"].synonyms == (
        Synonym("consumer.session.timeout.ms", "50000", Source.GROUP_CONFIG),
        Synonym("group.consumer.session.timeout.ms", "45000", Source.DEFAULT_CONFIG),
    )
    assert entries["share.auto.offset.reset"].synonyms == (
        Synonym("share.auto.offset.reset", "latest", Source.DEFAULT_CONFIG),
    )


def test_a_metrics_subscription_is_described() -> None:
    entries = {entry.name: entry for entry in describe_client_metrics({"interval.ms": "1000"})}
    assert entries["interval.ms"].source is Source.CLIENT_METRICS_CONFIG
    assert entries["match"].synonyms == ()


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("num.partitions", Scope.READ_ONLY),
        ("listeners", Scope.PER_BROKER),
        ("log.retention.ms", Scope.CLUSTER_WIDE),
        ("leader.replication.throttled.rate", Scope.CLUSTER_WIDE),
        ("listener.name.x.ssl.keystore.location", Scope.PER_BROKER),
        ("listener.name.x.max.connections", Scope.CLUSTER_WIDE),
        ("listener.name.x.scram-sha-256.sasl.jaas.config", Scope.PER_BROKER),
        ("listener.name.x.foo", Scope.CLUSTER_WIDE),
        ("foo", Scope.CLUSTER_WIDE),
    ],
)
def test_where_a_setting_may_be_changed(name: str, scope: Scope) -> None:
    assert scope_of(name) is scope


def test_a_store_of_keys_changes_only_for_one_listener() -> None:
    check_scopes(["listener.name.x.ssl.keystore.location"], per_broker=True)
    with pytest.raises(InvalidConfig, match="only per-listener"):
        check_scopes(["ssl.keystore.location"], per_broker=True)


def test_a_broker_starts_without_the_dynamic_settings_that_it_cannot_use() -> None:
    kept, reasons = without_invalid(
        {"log.retention.ms": "x", "num.partitions": "3", "listeners": "A://:1", "foo": "1"},
        per_broker=False,
    )
    assert kept == {"foo": "1"}
    assert reasons == [
        "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        "Cannot update these configs dynamically: [num.partitions]",
        (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[listeners]"
        ),
    ]


def test_what_does_not_fit_the_file_of_this_broker_is_left_out() -> None:
    """A broker with another file has let it pass, for all brokers."""
    file = {"log.cleaner.dedupe.buffer.size": str(3 << 20)}
    given = layers(file, {"log.cleaner.threads": "3", "background.threads": "12"})
    with pytest.raises(InvalidConfig, match=r"at least 1MB per cleaner thread"):
        given.effective()
    usable, reasons = given.usable()
    assert usable.cluster == {"background.threads": "12"}
    assert usable.effective().log_cleaner_threads == 1
    (reason,) = reasons
    assert reason.startswith("log.cleaner.threads: log.cleaner.dedupe.buffer.size must be")
    own = given._replace(broker={"log.cleaner.threads": "2", "log.retention.ms": "x"})
    usable, reasons = own.usable()
    assert usable.broker == {"log.cleaner.threads": "2"}
    assert usable.cluster == given.cluster, "this broker's own hides what does not fit"
    (reason,) = reasons
    assert "log.retention.ms" in reason
    fine = layers({}, {"log.cleaner.threads": "2"})
    assert fine.usable() == (fine, [])
