"""Settings that stand for a plug-in and for the remote store are checked when a node starts."""

import pytest

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.metadata_topic import METADATA_TOPIC_SETTINGS, metadata_topic_setting

PREFIX = "rlmm.config.remote.log.metadata."
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "remote.log.storage.system.enable": "true",
}


def node(settings: dict[str, str]) -> BrokerConfig:
    return BrokerConfig.from_properties({**NODE, **settings})


def test_defaults_are_those_of_kafka() -> None:
    found = {name: metadata_topic_setting(node({}), name) for name in METADATA_TOPIC_SETTINGS}
    assert found == {
        "topic.num.partitions": 50,
        "topic.replication.factor": 3,
        "topic.min.isr": 2,
        "topic.retention.ms": -1,
        "consumer.fetch.max.bytes": 8 << 20,
        "consumer.max.partition.fetch.bytes": 1 << 20,
    }
    key = f"x.{PREFIX[12:]}topic.min.isr"
    other = node({"remote.log.metadata.manager.impl.prefix": "x.", key: "7"})
    assert metadata_topic_setting(other, "topic.min.isr") == 7


@pytest.mark.parametrize("name", METADATA_TOPIC_SETTINGS)
@pytest.mark.parametrize(
    "value", ["1        # on a single broker", "", "x", "1e3", "99999999999999999999"]
)
def test_what_is_no_number_is_refused_at_the_start(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"^Invalid value {value} for configuration {PREFIX}"):
        node({PREFIX + name: value})
    node({PREFIX + name: value, "remote.log.storage.system.enable": "false"})


@pytest.mark.parametrize(
    "name", ["topic.num.partitions", "topic.replication.factor", "topic.min.isr"]
)
def test_none_of_something_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match=r"Value must be at least 1$"):
        node({PREFIX + name: "0"})


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/prefix        # or file:///dir",
        "store   # a name",
        "/a/path",
        "http://store/",
        "s3://",
        "file:///a?b",
        "file:///a#b",
        "",
    ],
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match=r"^Invalid value .* for configuration ottla\.remote\."):
        node({"ottla.remote.store.url": url})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endpoint", "127.0.0.1:9000"),
        ("endpoint", "http://a # b"),
        ("region", "eu-west-1 # near"),
        ("access.key.id", ""),
        ("allow.http", "yes"),
        ("request.timeout.ms", "0"),
    ],
)
def test_settings_of_the_store_are_checked(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=rf"configuration ottla\.remote\.store\.{name}"):
        node({f"ottla.remote.store.{name}": value})


def test_ordinary_stores_are_taken() -> None:
    for url in ("file:///var/lib/a%20b", "file:///müll", "s3://b/p/q", "gs://b", "az://c/p"):
        assert node({"ottla.remote.store.url": url}).ottla_remote_store_url == url
