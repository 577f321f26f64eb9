"""Typing errors and settings without effect are mentioned, and the list of those is honest."""

import re
from pathlib import Path

import pytest

import ottla
from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigSet
from ottla.config.effective import BROKER_SETTINGS, EFFECTIVE, TOPIC_SETTINGS
from ottla.config.metadata_topic import METADATA_TOPIC_SETTINGS
from ottla.config.notices import did_you_mean, notices
from ottla.config.topic import TopicConfig

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def heard(**settings: str) -> list[str]:
    properties = {**NODE, **{name.replace("_", "."): value for name, value in settings.items()}}
    return notices(properties, BrokerConfig.from_properties(properties))


def test_nothing_is_said_about_an_ordinary_node() -> None:
    assert heard() == []


def test_an_unknown_setting_gets_a_did_you_mean() -> None:
    assert heard(log_retnetion_ms="5") == [
        "unknown setting log.retnetion.ms is ignored; did you mean log.retention.ms?"
    ]
    assert heard(qwertz="5") == ["unknown setting qwertz is ignored"]
    assert did_you_mean("num.partition") == "num.partitions"


def test_settings_without_effect_are_named_in_one_line() -> None:
    assert heard(num_network_threads="3", ssl_provider="x") == [
        "accepted, without effect here: num.network.threads, ssl.provider"
    ]


def test_settings_of_plugins_are_not_called_unknown() -> None:
    assert heard(rsm_config_x="1", super_users="User:a", listener_name_x_ssl_provider="x") == [
        "accepted, without effect here: listener.name.x.ssl.provider, rsm.config.x, super.users"
    ]


def test_settings_of_the_topic_of_remote_segments_have_effect() -> None:
    assert heard(rlmm_config_remote_log_metadata_topic_replication_factor="1") == []
    read = re.findall(r'metadata_topic_setting\(config, "([a-z.]+)"', source_outside_config())
    assert set(read) == set(METADATA_TOPIC_SETTINGS)


def test_comments_behind_values_are_mentioned() -> None:
    assert heard(log_dirs="/data # the fast disk", broker_rack="a#b") == [
        "the value of log.dirs is '/data # the fast disk': comments stand on lines of their own"
    ]
    assert heard(ottla_remote_store_secret_access_key="a # b") == []


def test_heartbeats_that_come_too_late_are_mentioned() -> None:
    assert any(
        "must be less than or equal to half" in line
        for line in heard(broker_heartbeat_interval_ms="5000")
    )


READ_THROUGH = {
    "advertised.listeners": ("advertised_listeners", "advertised_broker_listeners"),
    "broker.id": ("node_id",),
    "controller.quorum.bootstrap.servers": ("controller_listeners",),
    "inter.broker.listener.name": ("advertised_broker_listeners",),
    "listeners": ("listeners", "broker_listeners", "controller_listeners"),
    "listener.security.protocol.map": ("listeners", "broker_listeners"),
    "log.dir": ("log_dirs",),
    "ottla.processes": ("processes",),
    "ottla.processes.node.id.step": ("processes",),
    "ottla.processes.port.step": ("processes",),
    "process.roles": ("is_broker", "is_controller"),
    "remote.log.metadata.manager.impl.prefix": ("metadata_topic",),
    "security.inter.broker.protocol": ("advertised_broker_listeners",),
}
"""Settings that code reads under another name, or that decide what another one is."""
OTHERS = {"cordoned_log_dirs"}
"""Fields of other things that are called like a setting."""


def source_outside_config() -> str:
    """Our source, less what defines settings and what is generated."""
    source = Path(ottla.__file__).parent
    return "\n".join(
        path.read_text(encoding="utf-8")
        for path in source.rglob("*.py")
        if path.relative_to(source).parts[0] != "config" and "generated" not in path.parts
    )


@pytest.mark.parametrize(
    ("config_set", "table"), [(BrokerConfig, BROKER_SETTINGS), (TopicConfig, TOPIC_SETTINGS)]
)
def test_what_is_said_to_have_effect_is_read_somewhere(
    config_set: type[ConfigSet], table: frozenset[str]
) -> None:
    text = source_outside_config()
    words = set(re.findall(r"\.([a-z][a-z0-9_]*)\b", text))
    for name in table:
        attributes = READ_THROUGH.get(name, (config_set.keys[name].attribute,))
        read = words.intersection(attributes) or f'"{name}"' in text
        assert read, f"{name} has no effect after all"


def test_what_is_read_somewhere_is_said_to_have_effect() -> None:
    owner = r"(?:config|static|\.broker|topic\(\w+\))"
    words = set(re.findall(owner + r"\.([a-z][a-z0-9_]*)\b", source_outside_config())) - OTHERS
    known = EFFECTIVE | TOPIC_SETTINGS
    for config_set in (BrokerConfig, TopicConfig):
        for name, key in config_set.keys.items():
            assert key.attribute not in words or name in known, f"{name} has an effect"


def test_every_effective_setting_exists() -> None:
    assert set(BrokerConfig.keys) >= EFFECTIVE
    assert set(TopicConfig.keys) >= TOPIC_SETTINGS
