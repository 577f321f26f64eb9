"""One broker as a real process on loopback: ours or Apache Kafka's, from the same properties.

The two programs take the same commands (format the storage, serve a file), so a test or a benchmark
names the program and nothing else. A process is stopped by its own id, never by its name.
"""

import base64
import contextlib
import os
import secrets
import signal
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tools.installed import IMPORT_PATH
from tools.kafka_peer import peer

FIRST_PORT: Final = 20_000
LAST_PORT: Final = 29_999
PROBE_SECONDS: Final = 0.005
API_VERSIONS_V0: Final = bytes.fromhex("0000000a0012000000000001ffff")


@dataclass(frozen=True, slots=True)
class Program:
    """A broker that can be started: its name, and the words of its two commands."""

    name: str
    format_words: tuple[str, ...]
    serve_words: tuple[str, ...]
    environment: Mapping[str, str]


def ottla() -> Program:
    """Our own broker, as this interpreter has it: the installed wheel, or this work tree."""
    return _ottla("ottla", sys.executable, {**os.environ, "PYTHONPATH": IMPORT_PATH})


def ottla_of(python: str) -> Program:
    """Another build of our own broker: the one that is installed for that interpreter."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return _ottla("other", python, environment)


def _ottla(name: str, python: str, environment: Mapping[str, str]) -> Program:
    words = (python, "-m", "ottla")
    return Program(name, (*words, "storage", "format"), (*words, "server"), environment)


def apache_kafka(*, heap: tuple[str, ...] = ("-Xmx1G", "-Xms1G")) -> Program:
    """Apache's broker with the flags and, unless told otherwise, the heap of its own script."""
    serve = peer.java(
        peer.TOOLS["kafka-server-start"],
        flags=(*heap, *peer.JVM_FLAGS),
        logging="broker-log4j2.yaml",
    )
    return Program(
        "kafka",
        (*peer.tool_command("kafka-storage"), "format"),
        tuple(serve),
        peer.environment(),
    )


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now, below those that the kernel hands out by itself."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
            trial = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def random_cluster_id() -> str:
    while True:
        text = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def answers_api_versions(port: int, *, timeout: float = 5) -> bool:
    """Whether an ApiVersions request is answered without an error."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection:
            connection.sendall(API_VERSIONS_V0)
            answer = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (1, 0)


def answers_over_tls(port: int, *, timeout: float = 5) -> bool:
    """The same behind TLS; what certificate is shown does not matter."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout) as plain,
            context.wrap_socket(plain) as connection,
        ):
            connection.sendall(API_VERSIONS_V0)
            answer = connection.recv(10)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">ih", answer[4:]) == (1, 0)


@dataclass(slots=True)
class BrokerProcess:
    """A combined broker and controller in ``directory``; ``settings`` win over the defaults."""

    program: Program
    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    cluster_id: str = field(default_factory=random_cluster_id)
    port: int = 0
    controller_port: int = 0
    process: "subprocess.Popen[bytes] | None" = None
    answers: Callable[[int], bool] = answers_api_versions
    """Whether the broker at a port is up."""

    def __post_init__(self) -> None:
        port, self.controller_port = free_ports(2)
        self.port = self.port or port
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None, "the broker is not running"
        return self.process.pid

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    @property
    def log_directory(self) -> Path:
        return self.directory / "data"

    @property
    def output_file(self) -> Path:
        return self.directory / f"{self.program.name}.log"

    def properties(self) -> dict[str, str]:
        """The whole configuration: a node alone, internal topics with one replica."""
        defaults = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "log.dirs": str(self.log_directory),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "4",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "share.coordinator.state.topic.num.partitions": "4",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "4",
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        return {**defaults, **self.settings}

    def write_properties(self) -> None:
        lines = [f"{key}={value}\n" for key, value in self.properties().items() if value]
        self.properties_file.write_text("".join(lines))

    def format(self) -> None:
        """Format the storage, unless it is formatted already."""
        self.write_properties()
        first = self.properties()["log.dirs"].split(",")[0]
        if (Path(first) / "meta.properties").exists():
            return
        words = [*self.program.format_words, "-t", self.cluster_id, "-c", str(self.properties_file)]
        if "controller.quorum.voters" not in self.settings:
            words.append("--standalone")
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=dict(self.program.environment)
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")

    def start(self, *, timeout: float = 60) -> float:
        """Start, wait for the first answer, and say how many seconds that took."""
        assert self.process is None, "the broker is running already"
        self.format()
        with self.output_file.open("ab") as output:
            began = time.perf_counter()
            self.process = subprocess.Popen(
                [*self.program.serve_words, str(self.properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(self.program.environment),
                cwd=self.directory,
            )
        while not self.answers(self.port):
            if self.process.poll() is not None:
                code, self.process = self.process.returncode, None
                raise RuntimeError(f"{self.program.name} ended with {code}:\n{self.output()}")
            if time.perf_counter() - began > timeout:
                self.kill()
                raise TimeoutError(f"no answer within {timeout} s:\n{self.output()}")
            time.sleep(PROBE_SECONDS)
        return time.perf_counter() - began

    def output(self, *, last: int = 6000) -> str:
        """The end of what the process has written."""
        text = self.output_file.read_text(errors="replace") if self.output_file.exists() else ""
        return text[-last:]

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, *, timeout: float = 60) -> int:
        """Ask it to stop as an operator would; its exit code."""
        return self._end(signal.SIGTERM, timeout)

    def kill(self) -> int:
        """Give it no time at all."""
        return self._end(signal.SIGKILL, 30)

    def _end(self, sign: signal.Signals, timeout: float) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(sign)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_tree(root: int) -> list[int]:
    """A process, those that it has started, those that they have started, and so on."""
    found = [root]
    for pid in found:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            found += map(int, children.read_text().split())
    return found


def resident_bytes(pid: int) -> int:
    """Memory that a process holds now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
