"""Nodes of ours as processes, from files as people write them: brokers, controllers, or both."""

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.kafka_peer.broker_process import free_ports, ottla, random_cluster_id

COMBINED: Final = dict.fromkeys((1, 2, 3), "broker,controller")
SEPARATE: Final = {**dict.fromkeys((1, 2, 3), "controller"), 4: "broker", 5: "broker"}
START_SECONDS: Final = 60.0


class Processes:
    """``roles`` has ``process.roles`` of each node; the controllers are a static quorum."""

    def __init__(self, directory: Path, roles: Mapping[int, str]) -> None:
        self.directory = directory
        self.roles = dict(roles)
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self._program = ottla()
        self.broker_ports = dict(zip(roles, free_ports(len(roles)), strict=True))
        self.controller_ports = dict(zip(roles, free_ports(len(roles)), strict=True))
        cluster_id = random_cluster_id()
        for node_id in roles:
            text = "".join(f"{k}={v}\n" for k, v in self._settings(node_id).items())
            self._properties(node_id).write_text(text)
            words = ["-t", cluster_id, "-c", str(self._properties(node_id))]
            subprocess.run(
                [*self._program.format_words, *words],
                check=True,
                capture_output=True,
                env=dict(self._program.environment),
            )

    def _settings(self, node_id: int) -> dict[str, str]:
        listeners = []
        if "broker" in self.roles[node_id]:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.broker_ports[node_id]}")
        if "controller" in self.roles[node_id]:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller_ports[node_id]}")
        voters = [f"{each}@127.0.0.1:{self.controller_ports[each]}" for each in self.controllers]
        return {
            "process.roles": self.roles[node_id],
            "node.id": str(node_id),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(voters),
            "log.dirs": str(self.directory / f"data{node_id}"),
        }

    @property
    def brokers(self) -> list[int]:
        return [node_id for node_id, roles in self.roles.items() if "broker" in roles]

    @property
    def controllers(self) -> list[int]:
        return [node_id for node_id, roles in self.roles.items() if "controller" in roles]

    def bootstrap_server(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.broker_ports[broker_id]}"

    def bootstrap_controller(self, controller_id: int) -> str:
        return f"127.0.0.1:{self.controller_ports[controller_id]}"

    def _properties(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.properties"

    def output(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.log"

    # Their lives

    def start(self, *node_ids: int, seconds: float = START_SECONDS) -> None:
        """Start nodes, all when none is named, and wait until they serve."""
        node_ids = node_ids or tuple(self.roles)
        before = {each: self._times_served(each) for each in node_ids}
        for node_id in node_ids:
            with self.output(node_id).open("ab") as output:
                self.running[node_id] = subprocess.Popen(
                    [*self._program.serve_words, str(self._properties(node_id))],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(self._program.environment),
                )
        deadline = time.monotonic() + seconds
        while any(self._times_served(each) == before[each] for each in node_ids):
            ended = [each for each in node_ids if self.running[each].poll() is not None]
            assert not ended, self.output(ended[0]).read_text()
            assert time.monotonic() < deadline, "they do not serve"
            time.sleep(0.05)

    def _times_served(self, node_id: int) -> int:
        output = self.output(node_id)
        return output.read_text().count("serving node=") if output.exists() else 0

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()

    def stop(self, node_id: int, seconds: float = 30.0) -> int:
        """Stop as people do; return the exit code."""
        process = self.running.pop(node_id)
        process.terminate()
        return process.wait(seconds)

    def close(self) -> None:
        for node_id in list(self.running):
            self.kill(node_id)

    def active_controller(self) -> int:
        """Who said last, of those that run, that it is active."""
        found: dict[int, int] = {}
        for node_id in self.controllers:
            for line in self.output(node_id).read_text().splitlines():
                if "controller active" in line and node_id in self.running:
                    found[node_id] = int(line.partition("epoch=")[2].split()[0])
        return max(found, key=lambda node_id: found[node_id])
