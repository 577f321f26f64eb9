"""``ottla server`` and ``ottla dev`` as processes: they start, serve and stop as they are told."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.command_process import command_process, stop, wait_for

from ottla.cli.main import cli
from ottla.client.admin import Admin
from ottla.common.topic_partition import TopicPartition


def topics(bootstrap: str) -> list[str]:
    with Admin(bootstrap) as admin:
        return admin.list_topics()


def create(bootstrap: str, name: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics({name: 1})


def test_dev_serves_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with command_process("dev", "--any-port", directory=tmp_path) as started:
        match = wait_for(started, r"bootstrap\.servers=(\S+)\s+data (\S+) \(temporary\)")
        python = wait_for(started, r"^  python +(.+)")[1]
        subprocess.run(
            [sys.executable, "-c", f"from confluent_kafka import Producer\n{python}"], check=True
        )
        words = ["consume", "events", "--from-beginning", "-n", "1", "-b", match[1]]
        assert CliRunner().invoke(cli, words).stdout == "hello\n"
        assert topics(match[1]) == ["events"]
        assert Path(match[2]).exists()
        code, rest = stop(started, signal.SIGINT)
        assert code == 0
        assert 'spark.readStream.format("ottla")' in rest
        assert "Traceback" not in rest
        assert not Path(match[2]).exists()


def test_dev_keeps_data_that_has_a_name(tmp_path: Path) -> None:
    for expected in ([], ["events"]):
        with command_process("dev", "--any-port", "--name", "mine", directory=tmp_path) as started:
            match = wait_for(started, r"bootstrap\.servers=(\S+)\s+data (\S+) \(kept\)")
            assert match[2] == str(tmp_path / ".ottla" / "mine")
            assert topics(match[1]) == expected
            if not expected:
                create(match[1], "events")
            assert stop(started, signal.SIGTERM)[0] == 0


def test_dev_takes_settings_and_says_what_has_no_effect(tmp_path: Path) -> None:
    words = ("--override", "num.partitions=3", "--override", "num.partition=3")
    with command_process("dev", "--any-port", *words, directory=tmp_path) as started:
        wait_for(
            started, r"unknown setting num\.partition is ignored; did you mean num\.partitions"
        )
        match = wait_for(started, r"bootstrap\.servers=(\S+)")
        with Admin(match[1]) as admin:
            created = admin.create_topics({"events": -1})
        assert created["events"].partitions == 3
        stop(started, signal.SIGINT)


def test_a_server_runs_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"log.dirs={tmp_path}/data\n"
    )
    with command_process("server", str(file), directory=tmp_path) as started:
        rest, _ = started.communicate(timeout=30)
        assert started.returncode == 1, "it is not formatted"
        assert "format" in rest
    done = CliRunner().invoke(cli, ["storage", "format", "-t", "c", "-c", str(file), "-s"])
    assert done.exit_code == 0, done.output
    with command_process("server", str(file), "--log-json", directory=tmp_path) as started:
        line = wait_for(started, r"\[KafkaServer id=7\] started").string
        assert line.startswith('{"time"')
        code, rest = stop(started, signal.SIGTERM)
        assert code == 0
        assert "stopped" in rest


def test_a_container_needs_only_variables(tmp_path: Path) -> None:
    variables = {
        "KAFKA_NODE_ID": "3",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_LISTENERS": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_CONTROLLER_QUORUM_BOOTSTRAP_SERVERS": "127.0.0.1:9093",
        "KAFKA_LOG_DIRS": str(tmp_path / "data"),
        "KAFKA_HEAP_OPTS": "-Xmx1G",
        "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
        "CLUSTER_ID": "4L6g3nShT-eMCtK--X86sw",
    }
    with command_process("server", "--env", directory=tmp_path, variables=variables) as started:
        wait_for(started, r"\[KafkaServer id=3\] started.*Kafka Server started")
        assert stop(started, signal.SIGTERM)[0] == 0
    assert "4L6g3nShT-eMCtK--X86sw" in (tmp_path / "data" / "meta.properties").read_text()


def test_a_server_wants_settings(tmp_path: Path) -> None:
    def code(*words: str) -> int:
        return CliRunner().invoke(cli, list(words)).exit_code

    file = tmp_path / "server.properties"
    file.write_text("node.id=x\n")
    assert code("server") == 2
    assert code("server", str(tmp_path / "missing")) == 2
    assert code("server", str(file)) == 1
    assert code("server", str(file), "--override", "x") == 2
    assert code("server", str(file), "--log-level", "LOUD") == 2
    assert code("dev", "--name", "a", "--data", str(tmp_path)) == 2


def test_a_port_that_is_taken_is_said(tmp_path: Path) -> None:
    with command_process("dev", "--any-port", directory=tmp_path) as first:
        port = wait_for(first, r"bootstrap\.servers=\S+:(\d+)")[1]
        with command_process("dev", "--port", port, directory=tmp_path) as second:
            rest, _ = second.communicate(timeout=30)
            assert second.returncode == 1
            assert "Traceback" not in rest
            assert f"port {port} of 127.0.0.1 is in use" in rest
            assert "use --port or --any-port" in rest
        file = node_file(
            tmp_path, f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0\n"
        )
        CliRunner().invoke(cli, ["storage", "format", "-t", "c", "-c", str(file), "-s"])
        with command_process("server", str(file), directory=tmp_path) as third:
            rest, _ = third.communicate(timeout=30)
            assert third.returncode == 1
            assert f"127.0.0.1:{port}: another process has this port" in rest
        stop(first, signal.SIGINT)


def test_data_in_use_is_said_by_its_directory(tmp_path: Path) -> None:
    words = ("dev", "--any-port", "--data", str(tmp_path / "kept"))
    with command_process(*words, directory=tmp_path) as first:
        wait_for(first, r"bootstrap\.servers=")
        with command_process(*words, directory=tmp_path) as second:
            rest, _ = second.communicate(timeout=30)
            assert second.returncode == 1
            assert f"{tmp_path}/kept is in use by another process: is a broker running?" in rest
        stop(first, signal.SIGINT)


def test_a_cluster_that_runs_is_left_alone_by_a_second_one(tmp_path: Path) -> None:
    words = ("dev", "-n", "3", "--data", str(tmp_path / "kept"))
    with command_process(*words, "--any-port", directory=tmp_path) as first:
        wait_for(first, r"bootstrap\.servers=")
        files = sorted((tmp_path / "kept").glob("node-*/server.properties"))
        before = [file.read_text() for file in files]
        assert len(before) == 3
        with command_process(*words, "--any-port", directory=tmp_path) as second:
            rest, _ = second.communicate(timeout=30)
            assert second.returncode == 1
            assert "node-1/data is in use by another process" in rest
        assert [file.read_text() for file in files] == before
        port = before[0].partition("PLAINTEXT\\://127.0.0.1\\:")[2].split(",")[0]
        with command_process("dev", "-n", "3", "--port", port, directory=tmp_path) as third:
            rest, _ = third.communicate(timeout=30)
            assert third.returncode == 1
            assert f"port {port} of 127.0.0.1 is in use" in rest
        assert stop(first, signal.SIGINT)[0] == 0


@pytest.mark.parametrize("name", ["../x", "a/b", "/tmp/x", "..", ".", ""])
def test_a_name_is_no_path(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["dev", "--any-port", "--name", name])
    assert result.exit_code == 2
    assert "--name takes letters" in result.stderr
    assert list(tmp_path.iterdir()) == []


def node_file(directory: Path, *lines: str) -> Path:
    file = directory / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"log.dirs={directory}/data\n{''.join(lines)}"
    )
    return file


@pytest.mark.parametrize("command", [("server",), ("storage", "info", "-c")])
def test_a_value_that_cannot_be_is_refused_with_its_line(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    name = "rlmm.config.remote.log.metadata.topic.replication.factor"
    tier = "remote.log.storage.system.enable=true\n"
    file = node_file(tmp_path, tier, f"{name}=1  # on a single broker\n")
    result = CliRunner().invoke(cli, [*command, str(file)])
    assert result.exit_code == 1
    refusal = f"Invalid value 1  # on a single broker for configuration {name}"
    assert result.stderr.splitlines() == [
        f"{refusal}: Not a number of type SHORT",
        f"{file}, line 8: {name}=1  # on a single broker",
        "a comment stands on a line of its own: behind a value it is part of it",
    ]
    file = node_file(tmp_path, "num.partitions=0\n")
    result = CliRunner().invoke(cli, ["server", str(file), "--override", "num.partitions=-1"])
    assert result.stderr == (
        "Invalid value -1 for configuration num.partitions: Value must be at least 1\n"
    )


def test_a_typing_error_in_a_key_that_must_be_there_is_found(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(node_file(tmp_path).read_text().replace("node.id", "node.idd"))
    result = CliRunner().invoke(cli, ["server", str(file)])
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        'Missing required configuration "node.id" which has no default value.',
        "unknown setting node.idd; did you mean node.id?",
    ]


def test_the_node_of_the_readme_starts(tmp_path: Path) -> None:
    """The least that a server.properties needs, with other ports and another directory."""
    text = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
    block = text.split("```properties\n")[1].split("```")[0]
    file = tmp_path / "server.properties"
    for old, new in (
        ("127.0.0.1:9092", "127.0.0.1:0"),
        ("CONTROLLER://127.0.0.1:9093", "CONTROLLER://127.0.0.1:0"),
        ("/tmp/ottla", f"{tmp_path}/data"),
    ):
        assert old in block
        block = block.replace(old, new)
    file.write_text(block)
    done = CliRunner().invoke(cli, ["storage", "format", "-t", "c", "-c", str(file), "-s"])
    assert done.exit_code == 0, done.output
    with command_process("server", str(file), directory=tmp_path) as started:
        match = wait_for(started, r"serving.*PLAINTEXT\D+(\d+)")
        bootstrap = f"127.0.0.1:{match[1]}"
        create(bootstrap, "events")
        words = ["produce", "events", "-b", bootstrap]
        assert CliRunner().invoke(cli, words, input="hello\n").exit_code == 0
        with Admin(bootstrap) as admin:
            admin.alter_group_offsets("g", {TopicPartition("events", 0): 1})
        assert stop(started, signal.SIGTERM)[0] == 0
