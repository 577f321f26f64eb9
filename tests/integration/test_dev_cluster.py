"""``ottla dev -n 3`` as a process: three brokers from one command, and none behind."""

import os
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.command_process import command_process, stop, wait_for
from tests.waiting import eventually

from ottla.cli.main import cli
from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.common.topic_partition import TopicPartition

pytestmark = pytest.mark.timeout(120)


def dev(*words: str, directory: Path) -> AbstractContextManager["subprocess.Popen[str]"]:
    temporary = {"TMPDIR": str(directory)}
    every = ("dev", "--any-port", *words)
    return command_process(*every, directory=directory, variables=temporary, own_session=True)


def children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return [int(word) for word in text.split()]


def is_node(pid: int) -> bool:
    try:
        return b"server.properties" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_three_brokers_serve_stop_cleanly_and_start_again_on_their_data(tmp_path: Path) -> None:
    words = ("-n", "3", "--name", "mine")
    ready = r"bootstrap\.servers=(\S+)\s+data (\S+) \(kept\)"
    with dev(*words, directory=tmp_path) as started:
        match = wait_for(started, ready)
        assert match[1].count(",") == 2
        with Admin(match[1]) as admin:
            admin.create_topics({"events": 1})
            # Another broker may hear of it a moment later.
            eventually(lambda: "events" in admin.list_topics(), "the topic")
            (described,) = admin.describe_topics(["events"])["events"].partitions
        assert sorted(described.replicas) == [1, 2, 3]
        with Producer(match[1], acks="all") as producer:
            producer.send("events", b"hello")
        nodes = children(started.pid)
        assert len(nodes) == 3
        code, rest = stop(started, signal.SIGINT)
        assert (code, "Traceback" in rest) == (0, False), rest
        assert not any(map(is_node, nodes))
    for node_id in (1, 2, 3):
        assert (Path(match[2]) / f"node-{node_id}" / "data" / ".kafka_cleanshutdown").exists()
    with dev(*words, directory=tmp_path) as started:
        match = wait_for(started, ready)
        with Consumer(match[1]) as consumer:
            partition = TopicPartition("events", 0)
            consumer.assign({partition: 0})
            assert [record.value for record in consumer.poll(10_000)[partition]] == [b"hello"]
        assert stop(started, signal.SIGTERM)[0] == 0
    for count in ("1", "2"):
        result = CliRunner().invoke(cli, ["dev", "-n", count, "--data", match[2]])
        assert result.exit_code == 2
        assert "use -n 3" in result.stderr


@pytest.mark.slow
def test_a_node_that_dies_is_told_and_a_killed_parent_leaves_nobody(tmp_path: Path) -> None:
    with dev("-n", "2", directory=tmp_path) as started:
        wait_for(started, r"bootstrap\.servers=")
        nodes = children(started.pid)
        os.kill(nodes[1], signal.SIGKILL)
        wait_for(started, r"node-2 \| ended with -9, and is not started again")
        assert started.poll() is None
        started.kill()
        started.wait()
        deadline = time.monotonic() + 60
        while is_node(nodes[0]) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not is_node(nodes[0])


@pytest.mark.slow
def test_a_second_signal_ends_everything_at_once(tmp_path: Path) -> None:
    with dev("-n", "2", directory=tmp_path) as started:
        wait_for(started, r"bootstrap\.servers=")
        nodes = children(started.pid)
        os.kill(nodes[0], signal.SIGSTOP)  # it will not stop cleanly
        started.send_signal(signal.SIGINT)
        started.send_signal(signal.SIGTERM)
        assert started.wait(30) == 1
        assert not any(map(is_node, nodes))
        assert list(tmp_path.glob("ottla-dev-*")) == []
