"""A disk fails under a whole broker: its partitions are offline at once, all others are served.

Three log directories; the metadata log is in the first, the second one fails. Every API that is
about a partition there answers KAFKA_STORAGE_ERROR, before and after the controller has heard of
it; what waits is answered; a start without the directory leaves it so, one with it brings
everything back that was acknowledged.
"""

import errno
from typing import cast

import pytest
from tests.simulation.test_broker import TOPIC, Producer

from ottla.common.errors import ErrorCode
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.generated.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.records.batch import batches
from ottla.records.record import iterate
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient

A, B, C = "/data/a", "/data/b", "/data/c"
PARTITIONS = 6
STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
NONE = ErrorCode.NONE
CHANGES = ("write", "sync", "truncate", "rename", "create", "open", "remove", "sync directory")


class Cluster:
    """A broker with three disks and a topic on all of them, ten records in each partition."""

    def __init__(self, seed: int = 1, **configs: str) -> None:
        settings = {
            "log.dirs": f"{A},{B},{C}",
            "metadata.log.dir": A,
            "offsets.topic.num.partitions": "3",
            "log.flush.scheduler.interval.ms": "500",
            "log.initial.task.delay.ms": "100",
            "log.retention.check.interval.ms": "500",
        }
        self.broker = SimulatedBroker(seed, settings)
        self.broker.start()
        self.client = SimulatedClient(self.broker)
        self.create(TOPIC, PARTITIONS, **configs)
        self.producers = [
            Producer(self.client, self.broker.scheduler.wall_ms()) for _ in range(PARTITIONS)
        ]
        for index, producer in enumerate(self.producers):
            producer.send(self.client, [f"{index}-{n}".encode() for n in range(10)], index)

    def create(self, name: str, partitions: int, **configs: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreatableTopicConfig(name=key.replace("_", "."), value=value)
                for key, value in configs.items()
            ],
        )
        answer = self.client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
        assert answer.topics[0].error_code == NONE

    def partitions_in(self, directory: str) -> list[int]:
        prefix = f"{TOPIC}-"
        names = self.broker.files.list_directory(directory)
        return [int(name.removeprefix(prefix)) for name in names if name.startswith(prefix)]

    def fail(self, *operations: str, directory: str = B, number: int = errno.EIO) -> None:
        """From now on ``operations`` below ``directory`` give an error."""

        def fails(operation: str, path: str) -> OSError | None:
            below = path == directory or path.startswith(f"{directory}/")
            return OSError(number, "injected", path) if below and operation in operations else None

        self.broker.files.fail = fails

    def heal(self) -> None:
        self.broker.files.fail = lambda _operation, _path: None

    def run(self, seconds: float) -> None:
        self.broker.scheduler.run_for(seconds)

    # What each API says of a partition

    def produce(self, index: int) -> int:
        records = self.producers[index].batch([b"more"])
        request = ProduceRequest(
            acks=-1,
            timeout_ms=1000,
            topic_data=[
                TopicProduceData(
                    name=TOPIC, partition_data=[PartitionProduceData(index=index, records=records)]
                )
            ],
        )
        answer = self.client.ask(request, ProduceResponse, 9).responses[0].partition_responses[0]
        if answer.error_code == NONE:
            self.producers[index].sequence += 1
        return answer.error_code

    def _fetch_request(self, index: int, offset: int, wait_ms: int) -> FetchRequest:
        partition = FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        return FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
        )

    def fetch(self, index: int, offset: int = 0) -> FetchResponse:
        return self.client.ask(self._fetch_request(index, offset, 0), FetchResponse, 11)

    def values(self, index: int) -> list[bytes]:
        data = self.fetch(index).responses[0].partitions[0].records or b""
        return [
            record.value or b"" for start, _ in batches(data) for record in iterate(data, start)
        ]

    def codes(self, index: int) -> dict[str, int]:
        """The error code that each API gives for a partition."""
        ask = self.client.ask
        offsets = ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name=TOPIC,
                    partitions=[ListOffsetsPartition(partition_index=index, timestamp=5)],
                )
            ],
        )
        epochs = OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=[OffsetForLeaderPartition(partition=index, leader_epoch=0)],
                )
            ],
        )
        deletion = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=TOPIC,
                    partitions=[DeleteRecordsPartition(partition_index=index, offset=0)],
                )
            ],
            timeout_ms=1000,
        )
        producers = DescribeProducersRequest(
            topics=[TopicRequest(name=TOPIC, partition_indexes=[index])]
        )
        return {
            "produce": self.produce(index),
            "fetch": self.fetch(index).responses[0].partitions[0].error_code,
            "list offsets": ask(offsets, ListOffsetsResponse, 7).topics[0].partitions[0].error_code,
            "epochs": ask(epochs, OffsetForLeaderEpochResponse, 4)
            .topics[0]
            .partitions[0]
            .error_code,
            "delete": ask(deletion, DeleteRecordsResponse, 2).topics[0].partitions[0].error_code,
            "producers": ask(producers, DescribeProducersResponse, 0)
            .topics[0]
            .partitions[0]
            .error_code,
        }

    def directories(self) -> dict[str, int]:
        answer = self.client.ask(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        return {result.log_dir: result.error_code for result in answer.results}

    def leaders(self) -> dict[int, tuple[int, int, list[int]]]:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        topic = self.client.ask(request, MetadataResponse, 9).topics[0]
        return {
            each.partition_index: (each.error_code, each.leader_id, each.offline_replicas)
            for each in topic.partitions
        }


def check_offline(cluster: Cluster, lost: list[int]) -> None:
    for index in range(PARTITIONS):
        expected = STORAGE if index in lost else NONE
        assert set(cluster.codes(index).values()) == {expected}, index
    assert cluster.directories() == {A: NONE, B: STORAGE, C: NONE}


def check_metadata(cluster: Cluster, lost: list[int]) -> None:
    for index, (code, leader, offline) in cluster.leaders().items():
        if index in lost:
            assert (code, leader, offline) == (ErrorCode.LEADER_NOT_AVAILABLE, -1, [1])
        else:
            assert (code, leader, offline) == (NONE, 1, [])


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_takes_the_directory_offline_and_no_other(number: int) -> None:
    cluster = Cluster()
    lost = cluster.partitions_in(B)
    assert len(lost) == 2
    cluster.fail("write", number=number)
    assert cluster.produce(lost[0]) == STORAGE
    check_offline(cluster, lost)
    cluster.run(1)
    check_offline(cluster, lost)
    check_metadata(cluster, lost)


def test_what_waits_for_a_partition_is_answered_when_its_disk_fails() -> None:
    cluster = Cluster()
    first, second = cluster.partitions_in(B)
    answers: list[FetchResponse] = []
    request = cluster._fetch_request(second, 10, 60_000)
    waiting = SimulatedClient(cluster.broker).send(request, FetchResponse, 11)
    waiting.when_done(lambda done: answers.append(cast("FetchResponse", done.result())))
    cluster.run(0.5)
    assert answers == []
    cluster.fail("write")
    assert cluster.produce(first) == STORAGE
    cluster.run(0.5)
    (answer,) = answers
    assert answer.responses[0].partitions[0].error_code == STORAGE


def test_a_failed_sync_in_the_background_does_so_too() -> None:
    cluster = Cluster(flush_ms="200")
    lost = cluster.partitions_in(B)
    cluster.fail("sync")
    assert cluster.produce(lost[0]) == NONE
    cluster.run(3)
    check_offline(cluster, lost)
    check_metadata(cluster, lost)


def test_a_failed_checkpoint_does_so_too() -> None:
    cluster = Cluster()
    lost = cluster.partitions_in(B)
    cluster.fail("rename")
    assert cluster.produce(lost[0]) == NONE
    cluster.run(120)
    check_offline(cluster, lost)


def test_a_segment_that_cannot_be_made_does_so_too() -> None:
    cluster = Cluster(internal_segment_bytes="300")
    lost = cluster.partitions_in(B)
    cluster.fail("open", "create")
    codes = [cluster.produce(lost[0]) for _ in range(5)]
    assert codes[-1] == STORAGE
    check_offline(cluster, lost)


def test_a_failed_read_does_so_too() -> None:
    cluster = Cluster()
    lost = cluster.partitions_in(B)
    cluster.broker.stop()
    cluster.broker.start()
    cluster.client = SimulatedClient(cluster.broker)
    cluster.fail("read")
    assert cluster.fetch(lost[0]).responses[0].partitions[0].error_code == STORAGE
    check_offline(cluster, lost)


def test_new_partitions_go_elsewhere() -> None:
    cluster = Cluster()
    lost = cluster.partitions_in(B)
    cluster.fail(*CHANGES)
    assert cluster.produce(lost[0]) == STORAGE
    cluster.run(1)
    cluster.create("other", 4)
    cluster.heal()
    where = [cluster.broker.files.list_directory(each) for each in (A, B, C)]
    made = [[name for name in names if name.startswith("other-")] for names in where]
    assert sum(map(len, made)) == 4
    assert not made[1]


def test_a_topic_that_cannot_be_made_there_is_offline_and_the_rest_is_made() -> None:
    cluster = Cluster()
    cluster.fail(*CHANGES)
    cluster.create("other", 3)
    cluster.run(1)
    assert cluster.directories() == {A: NONE, B: STORAGE, C: NONE}
    check_offline(cluster, cluster.partitions_in(B))


@pytest.mark.parametrize("end", ["stop", "kill", "power"])
def test_a_start_without_the_directory_leaves_it_offline_and_one_with_it_brings_all_back(
    end: str,
) -> None:
    cluster = Cluster(flush_messages="1" if end == "power" else "1000000")
    lost = cluster.partitions_in(B)
    cluster.fail("write", "sync")
    assert cluster.produce(lost[0]) == STORAGE
    cluster.run(1)
    for _ in range(2):
        if end == "stop":
            cluster.broker.stop()
        elif end == "kill":
            cluster.broker.kill()
        else:
            cluster.broker.lose_power()
        cluster.fail("open", "read", "list", "create", "write")
        cluster.broker.start()
        cluster.client = SimulatedClient(cluster.broker)
        check_offline(cluster, lost)
        check_metadata(cluster, lost)
    cluster.broker.kill()
    cluster.heal()
    cluster.broker.start()
    cluster.client = SimulatedClient(cluster.broker)
    check_metadata(cluster, [])
    assert cluster.directories() == {A: NONE, B: NONE, C: NONE}
    for index in range(PARTITIONS):
        assert cluster.values(index)[:10] == [f"{index}-{n}".encode() for n in range(10)]
        assert set(cluster.codes(index).values()) == {NONE}


@pytest.mark.parametrize("directory", [A, "all"])
def test_without_the_metadata_or_any_directory_the_broker_ends(directory: str) -> None:
    cluster = Cluster()
    node = cluster.broker._node
    assert node is not None
    if directory == A:
        cluster.fail("write", directory=A)
    else:
        cluster.fail("write", directory="/data")
    for index in range(PARTITIONS):
        if node.failure is None:
            cluster.produce(index)
    assert node.failure is not None
    cluster.run(1)


def test_groups_whose_log_is_gone_have_no_coordinator() -> None:
    cluster = Cluster()
    cluster.create("__consumer_offsets", 3)
    cluster.run(1)
    groups = [f"group-{n}" for n in range(12)]

    def heard() -> set[int]:
        beats = [HeartbeatRequest(group_id=g, generation_id=1, member_id="m") for g in groups]
        return {cluster.client.ask(beat, HeartbeatResponse, 4).error_code for beat in beats}

    assert heard() == {ErrorCode.UNKNOWN_MEMBER_ID}
    cluster.fail("write")
    assert cluster.produce(cluster.partitions_in(B)[0]) == STORAGE
    cluster.run(0.1)
    assert heard() == {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NOT_COORDINATOR}
