"""The controller learns where partitions lie: what differs, once, and again if it was not heard."""

from tests.replication.alone import alone
from tests.turns import TURN, virtual_time

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode, NotController
from ottla.common.identifiers import UNASSIGNED_DIRECTORY
from ottla.common.promise import Promise
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from ottla.protocol.generated.metadata_records import PartitionRecord, TopicRecord
from ottla.replication.partition import Partition
from ottla.server.directory_assignments import RETRY_SECONDS, DirectoryAssignments
from ottla.storage.checkpoints import META_PROPERTIES, MetaProperties
from ottla.storage.manager import LogManager
from ottla.testing.files import MemoryFilesystem

NODE_ID = 1
PATHS = ("/data/a", "/data/b")
DIRECTORIES = {"/data/a": b"A" * 16, "/data/b": b"B" * 16}
TOPIC_ID = b"T" * 16
Told = dict[bytes, list[tuple[bytes, int]]]


class ControllerThatListens:
    def __init__(self) -> None:
        self.requests: list[AssignReplicasToDirsRequest] = []
        self._promises: list[Promise[AssignReplicasToDirsResponse]] = []

    def submit(self, request: AssignReplicasToDirsRequest) -> Promise[AssignReplicasToDirsResponse]:
        self.requests.append(request)
        self._promises.append(Promise(TURN))
        return self._promises[-1]

    def answer(self, code: ErrorCode = ErrorCode.NONE) -> None:
        request = self.requests[-1]
        self._promises.pop(0).fulfil(
            AssignReplicasToDirsResponse(
                directories=[
                    AssignReplicasToDirsResponseDirectoryData(
                        id=directory.id,
                        topics=[
                            AssignReplicasToDirsResponseTopicData(
                                topic_id=topic.topic_id,
                                partitions=[
                                    AssignReplicasToDirsResponsePartitionData(
                                        partition_index=partition.partition_index, error_code=code
                                    )
                                    for partition in topic.partitions
                                ],
                            )
                            for topic in directory.topics
                        ],
                    )
                    for directory in request.directories
                ]
            )
        )

    def be_gone(self) -> None:
        self._promises.pop(0).fail(NotController())


class Broker:
    """Two directories with ids, and a topic of three partitions in them."""

    def __init__(self) -> None:
        self.scheduler = virtual_time(1)
        filesystem = MemoryFilesystem()
        for path, directory_id in DIRECTORIES.items():
            filesystem.make_directory(path)
            meta = MetaProperties("cluster", NODE_ID, directory_id)
            filesystem.write_atomically(f"{path}/{META_PROPERTIES}", meta.encode())
        self.logs = LogManager(
            filesystem,
            PATHS,
            clock=self.scheduler,
            chance=Chance(2),
            config_for=lambda _topic: TopicConfig({}),
        )
        self.logs.start()
        self.metadata = MetadataCache()
        registered = BrokerImage(
            node_id=NODE_ID,
            epoch=9,
            incarnation_id=bytes(16),
            listeners={},
            features={},
            rack=None,
            fenced=False,
            in_controlled_shutdown=False,
            log_dirs=tuple(DIRECTORIES.values()),
        )
        self.metadata.image = MetadataImage(offset=0, brokers={NODE_ID: registered})
        self.controller = ControllerThatListens()
        self.assignments = DirectoryAssignments(
            self.controller, self.metadata, self.logs, self.scheduler, node_id=NODE_ID
        )

    def add(self, index: int, path: str, directory: bytes = UNASSIGNED_DIRECTORY) -> None:
        """Let the metadata log have a partition, and this broker its log in ``path``."""
        self.logs.get_or_create(
            TopicPartition("t", index), TOPIC_ID, directory_id=DIRECTORIES[path]
        )
        self.change(index, directory)

    def change(self, index: int, directory: bytes) -> None:
        delta = MetadataDelta(self.metadata.image)
        if TOPIC_ID not in self.metadata.image.topics.by_id:
            delta.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
        delta.replay(
            PartitionRecord(
                partition_id=index,
                topic_id=TOPIC_ID,
                replicas=[NODE_ID],
                isr=[NODE_ID],
                leader=NODE_ID,
                directories=[directory],
            )
        )
        image = delta.apply(self.metadata.image.offset + 1, 1, 0)
        self.metadata.publish(image, delta)
        self.assignments.changed(image, delta)

    def told(self) -> list[Told]:
        return [
            {
                directory.id: [
                    (topic.topic_id, partition.partition_index)
                    for topic in directory.topics
                    for partition in topic.partitions
                ]
                for directory in request.directories
            }
            for request in self.controller.requests
        ]


A, B = DIRECTORIES.values()


def test_where_new_partitions_lie_is_told_together() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.add(1, "/data/b")
    broker.add(2, "/data/a")
    broker.scheduler.run_for(0.1)
    assert broker.told() == [{A: [(TOPIC_ID, 0), (TOPIC_ID, 2)], B: [(TOPIC_ID, 1)]}]
    (request,) = broker.controller.requests
    assert (request.broker_id, request.broker_epoch) == (NODE_ID, 9)


def test_what_the_metadata_says_already_is_not_told() -> None:
    broker = Broker()
    broker.add(0, "/data/a", A)
    broker.scheduler.run_for(10.0)
    assert broker.told() == []


def test_what_was_heard_is_not_told_again() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.scheduler.run_for(0.1)
    broker.controller.answer()
    broker.scheduler.run_for(10.0)
    assert len(broker.told()) == 1


def test_what_was_not_heard_is_told_again_a_little_later() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.scheduler.run_for(0.1)
    broker.controller.be_gone()
    broker.scheduler.run_for(RETRY_SECONDS)
    broker.controller.answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    broker.scheduler.run_for(RETRY_SECONDS)
    assert broker.told() == [{A: [(TOPIC_ID, 0)]}] * 3


def test_of_a_topic_that_is_gone_nothing_is_told_again() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.scheduler.run_for(0.1)
    broker.controller.answer(ErrorCode.UNKNOWN_TOPIC_ID)
    broker.scheduler.run_for(10.0)
    assert len(broker.told()) == 1


def test_one_request_is_under_way_at_a_time() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.scheduler.run_for(0.1)
    broker.add(1, "/data/b")
    broker.scheduler.run_for(10.0)
    assert len(broker.told()) == 1
    broker.controller.answer()
    broker.scheduler.run_for(RETRY_SECONDS)
    assert broker.told()[1:] == [{B: [(TOPIC_ID, 1)]}]


def test_what_becomes_true_meanwhile_is_not_told_any_more() -> None:
    broker = Broker()
    broker.add(0, "/data/a")
    broker.scheduler.run_for(0.1)
    broker.controller.be_gone()
    broker.change(0, A)
    broker.scheduler.run_for(10.0)
    assert len(broker.told()) == 1


def test_a_partition_that_was_moved_is_told_of() -> None:
    broker = Broker()
    broker.add(0, "/data/a", A)
    log = broker.logs.logs[TopicPartition("t", 0)]
    partition = Partition(NODE_ID, "t", TOPIC_ID, 0, log, alone())
    broker.assignments.moved(partition, broker.logs.directories[1])
    broker.scheduler.run_for(0.1)
    assert broker.told() == [{B: [(TOPIC_ID, 0)]}]


def test_at_the_start_everything_is_compared() -> None:
    broker = Broker()
    broker.add(0, "/data/a", A)
    broker.add(1, "/data/b", A)
    fresh = DirectoryAssignments(
        broker.controller, broker.metadata, broker.logs, broker.scheduler, node_id=NODE_ID
    )
    broker.controller.requests.clear()
    fresh.load(broker.metadata.image)
    broker.scheduler.run_for(0.1)
    assert {B: [(TOPIC_ID, 1)]} in broker.told()


def test_a_broker_that_is_not_registered_waits() -> None:
    broker = Broker()
    image = broker.metadata.image
    broker.metadata.image = MetadataImage(offset=image.offset)
    broker.add(0, "/data/a")
    broker.scheduler.run_for(2.0)
    assert broker.told() == []
