"""``ottla server`` and ``ottla dev`` as processes: they start, serve and stop as they are told."""

import signal
from pathlib import Path

from click.testing import CliRunner
from tests.cli.command_process import command_process, stop, wait_for

from ottla.cli.main import cli
from ottla.client.admin import Admin


def topics(bootstrap: str) -> list[str]:
    with Admin(bootstrap) as admin:
        return admin.list_topics()


def create(bootstrap: str, name: str) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topics({name: 1})


def test_dev_serves_at_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with command_process("dev", "--any-port", directory=tmp_path) as started:
        match = wait_for(started, r"bootstrap\.servers=(\S+)\s+data (\S+) \(temporary\)")
        create(match[1], "events")
        assert topics(match[1]) == ["events"]
        assert Path(match[2]).exists()
        code, rest = stop(started, signal.SIGINT)
        assert code == 0
        assert f"kcat -b {match[1]}" in rest
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
            assert port in rest or "in use" in rest
        stop(first, signal.SIGINT)
