"""``ottla.processes=2``: one command, two brokers, and what becomes of them."""

import json
import os
import re
import signal
import socket
import time
from pathlib import Path

import pytest
from tests.cli.command_process import command_process, wait_for
from tests.cli.command_process import stop as stop_command
from tests.integration.machine import Machine, command, is_alive
from tests.waiting import eventually

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.common.topic_partition import TopicPartition

pytestmark = pytest.mark.timeout(180)
ALL_SERVE = "all processes serve"


def produce(bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    with Producer(bootstrap, acks="all") as producer:
        for at, value in enumerate(values):
            producer.send(topic, value, partition=at % partitions)


def consume(bootstrap: str, topic: str, partitions: int, count: int) -> list[bytes]:
    found: list[bytes] = []
    with Consumer(bootstrap) as consumer:
        consumer.assign({TopicPartition(topic, each): 0 for each in range(partitions)})
        end = time.monotonic() + 60
        while len(found) < count and time.monotonic() < end:
            for records in consumer.poll(1000).values():
                found += [record.value or b"" for record in records]
    return sorted(found)


def leaders(bootstrap: str, topic: str) -> list[int]:
    with Admin(bootstrap) as admin:
        return [each.leader for each in admin.describe_topics([topic])[topic].partitions]


def numbered(count: int) -> list[bytes]:
    return sorted(b"%05d" % each for each in range(count))


def test_two_processes_serve_survive_a_kill_and_stop_cleanly(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start() as started:
        machine.wait_for(ALL_SERVE)
        with Admin(machine.bootstrap(2)) as admin:
            admin.create_topics({"events": 4})
            described = admin.describe_cluster().brokers
        assert {broker.node_id: broker.rack for broker in described} == dict.fromkeys(
            (1, 1001), socket.gethostname()
        )
        assert sorted(leaders(machine.bootstrap(), "events")) == [1, 1, 1001, 1001]
        produce(machine.bootstrap(2), "events", numbered(100), 4)
        assert consume(machine.bootstrap(1), "events", 4, 100) == numbered(100)

        code, before = machine.status()
        assert code == 0
        second = before["processes"][1]
        assert second["listeners"] == [f"PLAINTEXT://{machine.bootstrap(2)}"]
        assert (second["state"], second["restarts"]) == ("serving", 0)
        os.kill(second["pid"], signal.SIGKILL)
        machine.wait_for(ALL_SERVE, 2)
        code, after = machine.status()
        assert (code, after["processes"][1]["restarts"]) == (0, 1)
        assert after["processes"][1]["exit_code"] == -9
        assert after["processes"][1]["pid"] != second["pid"]
        assert after["processes"][0]["pid"] == before["processes"][0]["pid"]
        assert consume(machine.bootstrap(1), "events", 4, 100) == numbered(100)

        pids = machine.pids().values()
        started.send_signal(signal.SIGTERM)
        assert started.wait(60) == 0
        assert not any(map(is_alive, pids))
    log = machine.log()
    assert log.rindex("stopped node=1001") < log.rindex("stopping node=1 "), "the controller last"
    assert "Traceback" not in log
    for directory in ("data", "data/process.2"):
        assert (tmp_path / directory / ".kafka_cleanshutdown").exists()
    assert not (tmp_path / "data" / "processes.json").exists()
    code, _, words = command("processes", "status", "-c", str(machine.file))
    assert (code, "no supervisor runs" in words) == (1, True)


def test_internal_topics_have_one_replica_where_one_machine_is_the_whole_cluster(
    tmp_path: Path,
) -> None:
    """Although their settings say three: replicas of one machine would be lost together."""
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start():
        machine.wait_for(ALL_SERVE)
        with Admin(machine.bootstrap(2)) as admin:
            admin.create_topics({"events": 2})
            eventually(lambda: "events" in admin.list_topics(), "the topic")
            admin.alter_group_offsets("g", {TopicPartition("events", 0): 0})
            (first, *_) = admin.describe_topics(["__consumer_offsets"])[
                "__consumer_offsets"
            ].partitions
        assert len(first.replicas) == 1


def test_all_are_restarted_one_by_one_with_the_settings_of_now(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start():
        machine.wait_for(ALL_SERVE)
        before = machine.pids()
        machine.write(2, "num.partitions=5\n")
        code, told, _ = command("processes", "restart", "-c", str(machine.file), "--wait", "--json")
        assert code == 0
        assert json.loads(told)["restart"]["state"] == "done"
        after = machine.pids()
        assert all(before[node_id] != after[node_id] for node_id in (1, 1001))
        with Admin(machine.bootstrap(2)) as admin:
            assert admin.create_topics({"new": -1})["new"].partitions == 5
    log = machine.log()
    assert log.index("stopping node=1001") < log.index("stopping node=1 ")


def test_a_file_that_has_become_wrong_ends_the_restart_and_nothing_else(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start() as started:
        machine.wait_for(ALL_SERVE)
        machine.write(2, "num.partitions=-1\n")
        os.kill(started.pid, signal.SIGHUP)
        machine.wait_for("the restart is given up: node 1001 does not start again")
        machine.write(2)
        machine.wait_for(ALL_SERVE, 2)
        assert "num.partitions: Value must be at least 1" in machine.log()


def test_growing_from_one_to_two_keeps_the_data_and_a_plan_moves_partitions(
    tmp_path: Path,
) -> None:
    machine = Machine(tmp_path, 1)
    machine.format("--standalone")
    with machine.start():
        machine.wait_for("Kafka Server started")
        with Admin(machine.bootstrap()) as admin:
            admin.create_topics({"events": 4})
        produce(machine.bootstrap(), "events", numbered(50), 4)

    machine.write(2)
    with machine.start() as started:
        assert started.wait(60) == 1, "the second process has no directory yet"
        assert "process.2 of node 1001: format it" in machine.log()
    machine.format("--no-initial-controllers", "--ignore-formatted")
    with machine.start():
        machine.wait_for(ALL_SERVE)
        assert consume(machine.bootstrap(2), "events", 4, 50) == numbered(50)
        assert leaders(machine.bootstrap(), "events") == [1, 1, 1, 1]
        plan = str(tmp_path / "plan.json")
        reached = ("-b", machine.bootstrap())
        done = command("reassign", "plan", "-t", "events", "-o", plan, *reached)
        assert done[0] == 0, done
        done = command("reassign", "execute", plan, "--wait", *reached)
        assert done[0] == 0, done
        eventually(
            lambda: sorted(leaders(machine.bootstrap(), "events")) == [1, 1, 1001, 1001],
            "leaders on both",
        )
        assert consume(machine.bootstrap(2), "events", 4, 50) == numbered(50)
        moved = list((tmp_path / "data" / "process.2").glob("events-*/*.log"))
        assert len(moved) == 2

    # Tools without a broker see the directories of both.
    code, told, _ = command("storage", "info", "-c", str(machine.file), "--json")
    directories = json.loads(told)["directories"]
    assert [(each["node.id"], each["cluster.id"]) for each in directories] == [
        ("1", machine.cluster_id),
        ("1001", machine.cluster_id),
    ]
    code, told, _ = command("log", "segments", "events", "-c", str(machine.file), "--json")
    assert code == 0
    assert told.count("process.2/events-") >= 2

    # What there is is not left out by mistake.
    machine.write(1)
    code, _, words = command("server", str(machine.file))
    assert (code, "leaves out" in words) == (1, True)


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with socket.socket() as other:
        other.bind(("127.0.0.1", machine.port + 2))
        other.listen()
        with machine.start() as started:
            assert started.wait(60) == 1
    log = machine.log()
    assert f"node 1001 cannot listen on PLAINTEXT://{machine.bootstrap(2)}" in log
    assert "another process has this port" in log
    assert "node-1 |" not in log


def test_one_that_cannot_start_at_first_ends_all(tmp_path: Path) -> None:
    """Its metadata log is no log: nothing that can be seen before it starts."""
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    meta = tmp_path / "data" / "process.2" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1001", "node.id=7"))
    with machine.start() as started:
        assert started.wait(60) == 1
    log = machine.log()
    assert "meta.properties is of node 7, and node.id is 1001" in log
    assert "a process cannot start and has ended with 1: all stop node=1001" in log
    # By a signal alone, where it had not got so far as to wait for one.
    assert re.search(r"stopped node=1 |a process has ended with -15 node=1 ", log)


def test_no_process_outlives_its_supervisor(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start() as started:
        machine.wait_for(ALL_SERVE)
        pids = machine.pids().values()
        with machine.start() as second:
            assert second.wait(60) == 1
        assert "is in use by another process" in machine.log()
        started.kill()
        started.wait()
        eventually(lambda: not any(map(is_alive, pids)), "the end of both")
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_lines_of_all_are_json_where_that_is_wanted(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start("--log-json"):
        machine.wait_for(ALL_SERVE)
    entries = [json.loads(line) for line in machine.log().splitlines()]
    assert {entry.get("node_id") for entry in entries} == {1, 1001, None}
    assert all("message" in entry for entry in entries)


def test_one_process_can_be_started_alone(tmp_path: Path) -> None:
    machine = Machine(tmp_path, 2)
    machine.format("--standalone")
    with machine.start("--process", "1"):
        machine.wait_for(r"\[KafkaServer id=1\] started")
        assert "node-1 |" not in machine.log()
    assert command("server", str(machine.file), "--process", "3")[0] == 2


def test_dev_takes_the_data_of_one_broker_over_to_two_processes(tmp_path: Path) -> None:
    ready = r"bootstrap\.servers=(\S+)\s+data (\S+) \(kept\)"
    words = ("dev", "--any-port", "--name", "mine")
    with command_process(*words, directory=tmp_path) as started:
        match = wait_for(started, ready)
        with Admin(match[1]) as admin:
            admin.create_topics({"old": 1})
        produce(match[1], "old", numbered(3), 1)
        assert stop_command(started, signal.SIGINT)[0] == 0
    with command_process(*words, "-p", "2", directory=tmp_path) as started:
        match = wait_for(started, ready)
        assert match[1].count(",") == 1
        with Admin(match[1]) as admin:
            admin.create_topics({"events": 4})
            eventually(lambda: "events" in admin.list_topics(), "the topic")
        assert sorted(leaders(match[1], "events")) == [1, 1, 1001, 1001]
        assert consume(match[1], "old", 1, 3) == numbered(3)
        code, rest = stop_command(started, signal.SIGINT)
        assert (code, "Traceback" in rest) == (0, False), rest
    directory = str(tmp_path / ".ottla" / "mine")
    assert "use -p 2" in command("dev", "--any-port", "--data", directory)[2]
    assert "exclude each other" in command("dev", "-n", "2", "-p", "2")[2]
