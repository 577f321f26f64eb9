"""The controller's core with up to a million partitions on 100 brokers, without log and sockets.

Each size runs in processes of its own, so that memory is that size's alone. Times are of the
processor: what one core needs, whatever else the machine does.
"""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.curves.curve import Curve, Point
from tools.kafka_peer.broker_process import resident_bytes
from tools.kafka_peer.setup import PROJECT

from ottla.common.chance import Chance
from ottla.config.broker import BrokerConfig
from ottla.controller.batches import split_into_batches
from ottla.controller.bootstrap import default_bootstrap
from ottla.controller.machine import ControllerMachine
from ottla.controller.result import ControllerResult
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import encode_record
from ottla.metadata.snapshot import container, image_to_records, read_container
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from ottla.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest

BROKERS: Final = 100
PARTITIONS_PER_TOPIC: Final = 100
REPLICAS: Final = 3
TOPICS_PER_REQUEST: Final = 90
ALTERATIONS: Final = 100
HEARTBEATS: Final = 1_000
DEAD: Final = 7
CLUSTER_ID: Final = "abcdefghijklmnopqrstug"

R = TypeVar("R")


class Controller:
    """A machine whose records are encoded, split and replayed at once, as if committed."""

    def __init__(self) -> None:
        config = BrokerConfig.from_properties(
            {
                "process.roles": "controller",
                "node.id": "1000",
                "listeners": "CONTROLLER://127.0.0.1:1",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.bootstrap.servers": "127.0.0.1:1",
            }
        )
        self.machine = ControllerMachine(config, CLUSTER_ID, Chance(1))
        self.end_offset = 0
        self.epochs: dict[int, int] = {}
        self.write(lambda: ControllerResult(None, self.machine.activate(default_bootstrap(), 0.0)))
        for broker_id in range(BROKERS):
            self._start_broker(broker_id)

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    def write(self, make: Callable[[], ControllerResult[R]]) -> R:
        self.machine.state.next_offset = self.end_offset
        result = make()
        version = self.machine.state.metadata_version
        for batch, _ in split_into_batches(result.records, version, atomic=result.atomic):
            if batch:
                self.machine.replay(batch, base_offset=self.end_offset, epoch=1, timestamp_ms=0)
                self.end_offset += len(batch)
        return result.response

    def _start_broker(self, broker_id: int) -> None:
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=b"incarnation %04d" % broker_id,
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[b"directory %06d" % broker_id],
        )
        answer = self.write(lambda: self.machine.brokers.register_broker(request, 0.0))
        self.epochs[broker_id] = answer.broker_epoch
        self.heartbeat(broker_id)

    def heartbeat(self, broker_id: int, *, want_fence: bool = False) -> None:
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=self.end_offset - 1,
            want_fence=want_fence,
        )
        self.write(lambda: self.machine.brokers.heartbeat(request, 0.0))

    def create_topics(self, count: int) -> None:
        for first in range(0, count, TOPICS_PER_REQUEST):
            request = CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name=_topic(number),
                        num_partitions=PARTITIONS_PER_TOPIC,
                        replication_factor=REPLICAS,
                    )
                    for number in range(first, min(first + TOPICS_PER_REQUEST, count))
                ]
            )
            answer = self.write(partial(self.machine.topics.create_topics, request))
            assert all(each.error_code == 0 for each in answer.topics)

    def shrink_isr(self, number: int) -> None:
        """The leader of a partition takes a follower out of the ISR, by AlterPartition."""
        index, topic_number = divmod(number, len(self.image.topics))
        topic = self.image.topics.by_name[_topic(topic_number)]
        partition = topic.partitions[index]
        isr = [each for each in partition.isr if each != partition.leader][1:]
        proposal = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=[
                BrokerState(broker_id=each, broker_epoch=self.epochs[each])
                for each in (partition.leader, *isr)
            ],
        )
        request = AlterPartitionRequest(
            broker_id=partition.leader,
            broker_epoch=self.epochs[partition.leader],
            topics=[AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[proposal])],
        )
        answer = self.write(lambda: self.machine.partitions.alter_partition(request))
        assert answer.topics[0].partitions[0].error_code == 0, answer

    def elect_preferred(self) -> None:
        elections = self.machine.partitions.preferred_elections
        self.write(lambda: ControllerResult(None, elections(1_000), atomic=False))

    def forget_index(self) -> None:
        """What a standby has when it becomes active."""
        image = self.image
        self.machine.reset(EMPTY_IMAGE)
        self.machine.reset(image)

    def make_index(self) -> None:
        assert self.machine.state.index.leads(DEAD)

    def write_snapshot(self, path: Path) -> None:
        version = self.image.features.metadata_version
        values = (encode_record(record, version) for record in image_to_records(self.image))
        with path.open("wb") as file:
            for batch in container(values, epoch=1, now_ms=0, last_contained_log_timestamp=0):
                file.write(batch)


def _topic(number: int) -> str:
    return f"topic-{number:06}"


class _Stopwatch:
    """Processor time of this process, by name."""

    def __init__(self) -> None:
        self.found: Point = {}

    @contextmanager
    def __call__(self, name: str, times: int = 1, unit: float = 1.0) -> Iterator[None]:
        before = time.process_time()
        yield
        self.found[name] = (time.process_time() - before) / times * unit


def _resident() -> float:
    gc.collect()
    return resident_bytes(os.getpid()) / 1e6


def _run(partitions: int, snapshot: Path) -> Point:
    watch = _Stopwatch()
    found = watch.found
    controller = Controller()
    bare = _resident()
    with watch("create all, s"):
        controller.create_topics(partitions // PARTITIONS_PER_TOPIC)
    found["memory of image and index, MB"] = _resident() - bare
    controller.forget_index()
    with watch("index of a new active controller, s"):
        controller.make_index()
    controller.shrink_isr(0)
    with watch("one AlterPartition, ms", ALTERATIONS, 1e3):
        for number in range(1, ALTERATIONS + 1):
            controller.shrink_isr(number)
    with watch("one heartbeat, us", HEARTBEATS, 1e6):
        for number in range(HEARTBEATS):
            controller.heartbeat(number % BROKERS)
    before = controller.end_offset
    led = _led(controller.image)
    with watch("a broker dies: all leaders and ISRs, s"):
        controller.heartbeat(DEAD, want_fence=True)
    found["leaders elected then"] = led
    found["partitions changed then"] = controller.end_offset - before - 1
    assert _led(controller.image) == 0
    controller.heartbeat(DEAD)
    with watch("1,000 preferred leaders, s"):
        controller.elect_preferred()
    with watch("write a snapshot, s"):
        controller.write_snapshot(snapshot)
    found["snapshot, MB"] = snapshot.stat().st_size / 1e6
    found["peak memory, MB"] = _peak()
    return found


def _led(image: MetadataImage) -> int:
    return sum(each.leader == DEAD for topic in image.topics for each in topic.partitions.values())


def _load(snapshot: Path) -> Point:
    watch = _Stopwatch()
    data = snapshot.read_bytes()
    bare = _resident()
    with watch("load a snapshot, s"):
        image = read_container(data).image(1, 1)
    memory = _resident() - bare
    assert len(image.topics)
    return {**watch.found, "image as loaded, MB": memory, "peak of the load, MB": _peak()}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _in_process(*words: str) -> Point:
    command = [sys.executable, "-m", "benchmarks.curves.controller", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, cwd=PROJECT)
    found: Point = json.loads(done.stdout)
    return found


def measure(partitions: int) -> Point:
    with tempfile.TemporaryDirectory(prefix="bench-controller-") as directory:
        snapshot = str(Path(directory) / "snapshot")
        return {**_in_process(snapshot, str(partitions)), **_in_process(snapshot)}


CURVE: Final = Curve(
    name="controller: partitions of the cluster",
    sizes=(10_000, 100_000, 300_000, 1_000_000),
    measure=measure,
    minutes=2,
)

if __name__ == "__main__":
    path = Path(sys.argv[1])
    print(json.dumps(_run(int(sys.argv[2]), path) if len(sys.argv) > 2 else _load(path)))
