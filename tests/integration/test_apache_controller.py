"""Our broker leads the quorum; a controller of Apache Kafka 4.3.1 observes, votes and leaves."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, free_ports, ottla
from tools.kafka_peer.peer import run_tool

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


class ApacheController:
    """Node 3: a controller that is in no voter set until somebody adds it."""

    def __init__(self, directory: Path, broker: BrokerProcess) -> None:
        self.data = directory / "data"
        self.properties = directory / "controller.properties"
        (port,) = free_ports(1)
        directory.mkdir(parents=True)
        lines = {
            "process.roles": "controller",
            "node.id": "3",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{broker.controller_port}",
            "log.dirs": str(self.data),
        }
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        program = apache_kafka(heap=("-Xmx384M",))
        environment = dict(program.environment)
        words = [*program.format_words, "-t", broker.cluster_id, "-c", str(self.properties)]
        subprocess.run(
            [*words, "--no-initial-controllers"], check=True, env=environment, capture_output=True
        )
        with (directory / "output.log").open("wb") as output:
            self.process = subprocess.Popen(
                [*program.serve_words, str(self.properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=directory,
            )

    @property
    def directory_id(self) -> str:
        lines = (self.data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(ottla(), tmp_path / "ours")
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def controller(tmp_path: Path, broker: BrokerProcess) -> Iterator[ApacheController]:
    controller = ApacheController(tmp_path / "theirs", broker)
    yield controller
    controller.process.kill()
    controller.process.wait()


def quorum(broker: BrokerProcess, *words: str) -> str:
    address = f"127.0.0.1:{broker.controller_port}"
    done = run_tool("kafka-metadata-quorum", "--bootstrap-controller", address, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def status(broker: BrokerProcess) -> dict[int, str]:
    rows = [line.split() for line in quorum(broker, "describe", "--replication").splitlines()]
    return {int(row[0]): row[-1] for row in rows if row and row[0].isdigit()}


def create_topic(broker: BrokerProcess, name: str) -> None:
    words = ("--bootstrap-server", broker.bootstrap_servers, "--create", "--topic", name)
    done = run_tool("kafka-topics", *words)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_controller_of_apache_observes_votes_and_leaves(
    broker: BrokerProcess, controller: ApacheController
) -> None:
    eventually(lambda: status(broker) == {1: "Leader", 3: "Observer"})
    quorum(broker, "--command-config", str(controller.properties), "add-controller")
    assert status(broker) == {1: "Leader", 3: "Follower"}
    create_topic(broker, "committed-by-both")
    their_log = controller.data / SEGMENT
    eventually(lambda: b"committed-by-both" in their_log.read_bytes())
    assert (broker.log_directory / SEGMENT).read_bytes().startswith(their_log.read_bytes())
    words = ("--controller-id", "3", "--controller-directory-id", controller.directory_id)
    quorum(broker, "remove-controller", *words)
    assert status(broker) == {1: "Leader", 3: "Observer"}
    create_topic(broker, "committed-alone")
