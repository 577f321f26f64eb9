"""Typing errors and settings without effect are mentioned."""

from ottla.config.broker import BrokerConfig
from ottla.config.effective import EFFECTIVE, TOPIC_SETTINGS
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


def test_heartbeats_that_come_too_late_are_mentioned() -> None:
    assert any(
        "must be less than or equal to half" in line
        for line in heard(broker_heartbeat_interval_ms="5000")
    )


def test_every_effective_setting_exists() -> None:
    assert set(BrokerConfig.keys) >= EFFECTIVE
    assert set(TopicConfig.keys) >= TOPIC_SETTINGS
