"""Three of our processes are a quorum: they elect a controller, and another when it is killed."""

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.kafka_peer.broker_process import free_ports, ottla, random_cluster_id

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
IDS = (1, 2, 3)
ACTIVE = re.compile(r"controller active node=(\d) epoch=(\d+)")


class QuorumOfThree:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self._program = ottla()
        ports = self.ports = free_ports(6)
        voters = ",".join(f"{n}@127.0.0.1:{ports[n + 2]}" for n in IDS)
        cluster_id = random_cluster_id()
        for node_id in IDS:
            lines = {
                "process.roles": "broker,controller",
                "node.id": str(node_id),
                "listeners": f"PLAINTEXT://127.0.0.1:{ports[node_id - 1]},"
                f"CONTROLLER://127.0.0.1:{ports[node_id + 2]}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(directory / f"data{node_id}"),
            }
            text = "".join(f"{key}={value}\n" for key, value in lines.items())
            self._properties(node_id).write_text(text)
            words = ["-t", cluster_id, "-c", str(self._properties(node_id))]
            subprocess.run(
                [*self._program.format_words, *words],
                check=True,
                capture_output=True,
                env=dict(self._program.environment),
            )

    def _properties(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.properties"

    def _output(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.log"

    def start(self, node_id: int) -> None:
        with self._output(node_id).open("ab") as output:
            self.processes[node_id] = subprocess.Popen(
                [*self._program.serve_words, str(self._properties(node_id))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self._program.environment),
            )

    def kill(self, node_id: int) -> None:
        process = self.processes.pop(node_id)
        process.kill()
        process.wait()

    def active_after(self, epoch: int) -> tuple[int, int]:
        """The controller that becomes active in a later epoch, and that epoch."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for node_id in self.processes:
                for found, active_epoch in ACTIVE.findall(self._output(node_id).read_text()):
                    if int(active_epoch) > epoch:
                        return int(found), int(active_epoch)
            time.sleep(0.1)
        raise AssertionError("nobody leads")


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[QuorumOfThree]:
    quorum = QuorumOfThree(tmp_path)
    yield quorum
    for node_id in list(quorum.processes):
        quorum.kill(node_id)


def test_another_controller_takes_over_when_the_active_one_is_killed(
    quorum: QuorumOfThree,
) -> None:
    for node_id in IDS:
        quorum.start(node_id)
    first, epoch = quorum.active_after(0)
    quorum.kill(first)
    second, epoch = quorum.active_after(epoch)
    assert second != first
    quorum.start(first)
    quorum.kill(second)
    third, _ = quorum.active_after(epoch)
    assert third != second
