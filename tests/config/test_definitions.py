"""Every setting of Apache Kafka 4.3.1 is there as Kafka defines it; golden/ holds its own words."""

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.definition import ConfigSet, Key
from ottla.config.group import GroupConfig
from ottla.config.kinds import Kind, text_of
from ottla.config.topic import TopicConfig

GOLDEN = Path(__file__).parent / "golden"
SETS: dict[str, type[ConfigSet]] = {
    "broker": BrokerConfig,
    "topic": TopicConfig,
    "group": GroupConfig,
}
NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


class Setting(NamedTuple):
    set: str
    name: str
    type: str
    default: str
    valid: str
    scope: str
    internal: str


def golden(name: str) -> list[str]:
    lines = (GOLDEN / name).read_text(encoding="utf-8").split("\n")
    return [line for line in lines if line and not line.startswith("#")]


SETTINGS = [Setting(*line.split("\t")) for line in golden("settings.tsv")]


def key_of(setting: Setting) -> Key[object]:
    return SETS[setting.set].keys[setting.name]


def kafka_default(setting: Setting) -> str | None:
    """The default as it is written in a file, out of what Java's toString makes of it."""
    text = setting.default.removeprefix("class ")
    if setting.type == "LIST" and text.startswith("["):
        text = text[1:-1].replace(", ", ",")
    return None if text in {"-", "!"} else text


def test_there_are_exactly_the_settings_of_kafka_and_those_of_our_own_name() -> None:
    for name, config_set in SETS.items():
        theirs = {each for each in config_set.keys if not each.startswith("ottla.")}
        assert theirs == {each.name for each in SETTINGS if each.set == name}
    assert len([name for name in BrokerConfig.keys if not name.startswith("ottla.")]) == 360


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting.set}-{setting.name}")
def test_a_setting_is_as_kafka_defines_it(setting: Setting) -> None:
    key = key_of(setting)
    assert key.kind is Kind[setting.type]
    assert key.required is (setting.default == "!")
    assert text_of(key.default_value) == kafka_default(setting)
    assert key.internal is bool(setting.internal)
    if setting.set == "broker":
        assert key.scope.value == setting.scope
    assert key.doc.endswith(".")
    assert len(key.doc) < 100


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: f"{setting.set}-{setting.name}")
def test_a_default_is_valid(setting: Setting) -> None:
    default = kafka_default(setting)
    if default is not None:
        key = key_of(setting)
        assert key.parse(default) == key.default_value


@pytest.mark.parametrize("line", golden("values.tsv"))
def test_a_value_is_taken_or_refused_as_kafka_does(line: str) -> None:
    set_name, name, value, verdict, text = line.split("\t")
    key = SETS[set_name].keys[name]
    if verdict == "ok":
        assert text_of(key.parse(value)) == text
    else:
        with pytest.raises(InvalidConfig) as refused:
            key.parse(value)
        assert str(refused.value) == text


@pytest.mark.parametrize("line", golden("nodes.jsonl"))
def test_the_settings_of_a_node_fit_together_as_in_kafka(line: str) -> None:
    case = json.loads(line)
    properties = {**NODE, **case["set"]}
    for name in case["unset"]:
        properties.pop(name, None)
    if not case["refusal"]:
        BrokerConfig.from_properties(properties)
    else:
        with pytest.raises(InvalidConfig) as refused:
            BrokerConfig.from_properties(properties)
        assert str(refused.value) == case["refusal"]
