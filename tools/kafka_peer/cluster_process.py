"""Several brokers as real processes on loopback, ours or Apache Kafka's: one cluster.

Every node is broker and controller, the voters are named in the configuration, topics have three
replicas of which two must be in sync: the usual choice where nothing may be lost.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.kafka_peer.broker_process import BrokerProcess, Program, random_cluster_id

REPLICAS: Final = 3


class ClusterProcess:
    """``nodes`` combined brokers and controllers, numbered from 1, each in its own directory."""

    def __init__(
        self,
        program: Program,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        nodes: int = REPLICAS,
    ) -> None:
        self.program = program
        cluster_id = random_cluster_id()
        self.brokers = {
            number: BrokerProcess(program, directory / f"node-{number}", cluster_id=cluster_id)
            for number in range(1, nodes + 1)
        }
        voters = ",".join(
            f"{number}@127.0.0.1:{broker.controller_port}"
            for number, broker in self.brokers.items()
        )
        for number, broker in self.brokers.items():
            broker.settings = {
                "node.id": str(number),
                "controller.quorum.voters": voters,
                "controller.quorum.bootstrap.servers": "",
                **replicated(min(nodes, REPLICAS)),
                **(settings or {}),
            }

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def pids(self) -> list[int]:
        return [broker.pid for broker in self.brokers.values() if broker.is_running()]

    def start(self, *, timeout: float = 120) -> None:
        """All at once: a quorum needs most of them."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for broker in self.brokers.values():
                broker.format()
            list(pool.map(lambda broker: broker.start(timeout=timeout), self.brokers.values()))

    def stop(self) -> None:
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            list(pool.map(lambda broker: broker.stop(timeout=120), self.brokers.values()))

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    def output(self) -> str:
        """The end of what each node has written."""
        return "\n".join(
            f"--- node {number}\n{broker.output(last=2000)}"
            for number, broker in self.brokers.items()
        )


def replicated(replicas: int) -> dict[str, str]:
    """Settings of topics, the internal ones too, with so many replicas."""
    insync = str(max(1, replicas - 1))
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": insync,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": insync,
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": insync,
        "rlmm.config.remote.log.metadata.topic.replication.factor": str(replicas),
    }


@contextmanager
def running(cluster: ClusterProcess) -> Iterator[ClusterProcess]:
    """A cluster that is started, and gone in the end whatever happens."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.kill()
