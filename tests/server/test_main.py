"""What a process sets up around a node."""

import shutil
from pathlib import Path

import pytest

from ottla.client.producer import Producer
from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.main import SIZED_BY_SYSTEM, Running, new_event_loop, run_server
from ottla.server.node import Node
from ottla.server.prepare import prepare_storage
from ottla.testing.broker import Broker


@pytest.mark.parametrize(
    ("written", "expected"),
    [({}, SIZED_BY_SYSTEM), ({"socket.receive.buffer.bytes": "50000"}, 50_000)],
)
def test_socket_buffers_are_left_to_the_system_unless_the_file_speaks_of_them(
    written: dict[str, str], expected: int, tmp_path: object
) -> None:
    properties = {**development_properties(str(tmp_path)), **written}
    running = Running(
        BrokerConfig.from_properties(properties), new_event_loop(), on_failure=lambda: None
    )
    try:
        assert running.network.receive_buffer == expected
    finally:
        running.close()


def formatted(tmp_path: Path) -> BrokerConfig:
    """A node with two log directories."""
    directories = ",".join(str(tmp_path / name) for name in "ab")
    config = BrokerConfig.from_properties(
        {**development_properties(""), "log.dirs": directories, "log.cleaner.enable": "false"}
    )
    prepare_storage(config)
    return config


def reasons(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Why the node does not start, as its log says."""
    told = [each for each in caplog.records if each.getMessage() == "the node does not start"]
    return [vars(record)["ottla_fields"]["reason"] for record in told]


def test_a_node_that_finds_a_partition_twice_ends_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It was registered, ran on, and never served."""
    config = formatted(tmp_path)
    with (
        Broker(config=config.originals, directory=str(tmp_path)) as broker,
        Producer(broker.bootstrap_servers) as producer,
    ):
        producer.send("topic", b"x")
    (found,) = tmp_path.glob("*/topic-0")
    copy = tmp_path / ("b" if found.parent.name == "a" else "a") / "topic-0"
    shutil.copytree(found, copy)
    (copy / "leader-epoch-checkpoint").write_text("0\n1\n5 0\n")
    assert run_server(config) == 1
    (reason,) = reasons(caplog)
    assert reason.startswith("two log directories have one partition: ")
    assert str(tmp_path / "a" / "topic-0") in reason


def test_whatever_keeps_a_node_from_its_start_ends_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mistaken(_: Node) -> None:
        raise RuntimeError("nobody has thought of this")

    monkeypatch.setattr(Node, "_make_broker", mistaken)
    assert run_server(formatted(tmp_path)) == 1
    assert reasons(caplog) == ["RuntimeError: nobody has thought of this"]
