"""What the operator's guide promises: copies that can be started, work without a quorum."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.testing import Broker, Cluster


def test_a_copy_of_a_stopped_node_is_sound_and_starts(tmp_path: Path) -> None:
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    with Broker(directory=str(original)) as broker, Producer(broker.bootstrap_servers) as producer:
        for number in range(100):
            producer.send("kept", b"%d" % number)
    shutil.copytree(original, copy)
    (log_directory,) = {path.parent.parent for path in copy.rglob("kept-0/*.log")}
    verified = CliRunner().invoke(cli, ["log", "verify", "--log-dir", str(log_directory)])
    assert verified.exit_code == 0, verified.output
    with Broker(directory=str(copy)) as broker, Consumer(broker.bootstrap_servers) as consumer:
        partitions = consumer.partitions("kept")
        assert sum(consumer.end_offsets(partitions).values()) == 100


@pytest.mark.timeout(180)
def test_brokers_go_on_without_a_quorum() -> None:
    with Cluster(brokers=2, controllers=3) as cluster:
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("before", b"x")
        for controller in (101, 102):
            cluster.kill(controller)
        with Producer(cluster.bootstrap_servers) as producer:
            sent = [producer.send("before", b"y") for _ in range(10)]
        assert all(each.result().offset >= 0 for each in sent)
