"""What is wrong with the settings of a node is said with the line that it is on."""

from pathlib import Path

import pytest

from ottla.cli.node_config import config_of_file
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.kinds import Kind, text_of
from ottla.config.notices import notices

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}
MORE = {"advertised.listeners": "PLAINTEXT://h:1", "controller.quorum.voters": "1@localhost:9093"}


def refusal(directory: Path, properties: dict[str, str]) -> tuple[BrokerConfig | None, str]:
    """The settings of a file with a line for each, or why they are refused."""
    file = directory / "server.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    try:
        return config_of_file(str(file)), ""
    except InvalidConfig as error:
        return None, str(error).replace(str(file), "FILE")


@pytest.mark.parametrize("name", BrokerConfig.keys)
def test_a_comment_behind_any_value_is_found(name: str, tmp_path: Path) -> None:
    """It is refused with its line, or mentioned where such a value is possible."""
    key = BrokerConfig.keys[name]
    text = NODE.get(name) or MORE.get(name) or text_of(key.default_value) or "x"
    properties = {**NODE, name: f"{text}  # comment"}
    config, reason = refusal(tmp_path, properties)
    line = list(properties).index(name) + 1
    if config is None:
        assert f"FILE, line {line}: {name}={text}  # comment\n" in reason
        assert "a comment stands on a line of its own" in reason
    else:
        said = [each for each in notices(properties, config) if "comments stand on lines" in each]
        assert bool(said) == (key.kind is not Kind.PASSWORD)


def test_a_refusal_names_key_value_and_line(tmp_path: Path) -> None:
    _, reason = refusal(tmp_path, {**NODE, "num.partitions": "many"})
    assert reason.splitlines() == [
        "Invalid value many for configuration num.partitions: Not a number of type INT",
        "FILE, line 6: num.partitions=many",
    ]
    _, reason = refusal(tmp_path, {**NODE, "node.id": "x"})
    assert reason.splitlines() == [
        "Invalid value x for configuration node.id: Not a number of type INT",
        "FILE, line 2: node.id=x",
    ]
    _, reason = refusal(tmp_path, {**NODE, "listeners": "PLAINTEXT://:port"})
    assert reason.splitlines()[1:] == ["FILE, line 4: listeners=PLAINTEXT://:port"]


def test_a_secret_is_not_shown(tmp_path: Path) -> None:
    properties = {**NODE, "ssl.key.password": "hush # hush", "num.partitions": "x"}
    _, reason = refusal(tmp_path, properties)
    assert "num.partitions" in reason
    assert "hush" not in reason
