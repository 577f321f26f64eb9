"""A whole controller, driver, quorum and log, on a disk in memory and simulated time."""

from itertools import count
from typing import TypeVar

from tests.raft.quorums import LOG_DIR, settings

from ottla.common.chance import Chance
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.controller.driver import ControllerDriver
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.server.format import format_storage
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.storage.checkpoints import MetaProperties
from ottla.testing.files import MemoryFilesystem

T = TypeVar("T")
_INCARNATIONS = count()
CLUSTER_ID = "abcdefghijklmnopqrstug"


def formatted(config: BrokerConfig | None = None) -> MemoryFilesystem:
    filesystem = MemoryFilesystem()
    config = config or settings()
    format_storage(
        filesystem,
        config,
        CLUSTER_ID,
        standalone=not config.controller_quorum_voters,
        chance=Chance(7),
        now_ms=1,
    )
    return filesystem


class Node:
    """One life of a controller."""

    def __init__(
        self,
        filesystem: MemoryFilesystem,
        *,
        seed: int = 1,
        config: BrokerConfig | None = None,
        cluster_id: str = CLUSTER_ID,
    ) -> None:
        self.filesystem = filesystem
        self.cluster_id = cluster_id
        self.scheduler = SimulatedScheduler(Chance(seed))
        self.metadata = MetadataCache()
        self.images: list[tuple[MetadataImage, MetadataDelta]] = []
        self.metadata.on_image(lambda image, delta: self.images.append((image, delta)))
        self.failures: list[BaseException] = []
        meta = MetaProperties.decode(filesystem.read(f"{LOG_DIR}/meta.properties"))
        assert meta.directory_id is not None
        self.directory_id = meta.directory_id
        self.driver = ControllerDriver(
            config or settings(),
            cluster_id=cluster_id,
            directory_id=meta.directory_id,
            filesystem=filesystem,
            scheduler=self.scheduler,
            chance=Chance(seed),
            metadata=self.metadata,
            on_failure=self.failures.append,
        )
        self.broker_epoch = -1

    def start(self) -> "Node":
        self.wait(self.driver.start())
        return self

    def wait(self, promise: Promise[T]) -> T:
        assert self.scheduler.run_until(lambda: promise.done, 60)
        return promise.result()

    def start_broker(self, previous_epoch: int = -1) -> None:
        request = BrokerRegistrationRequest(
            broker_id=1,
            cluster_id=self.cluster_id,
            incarnation_id=b"incarnation %04d" % next(_INCARNATIONS),
            listeners=[Listener(name="PLAINTEXT", host="localhost", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[self.directory_id],
            previous_broker_epoch=previous_epoch,
        )
        self.broker_epoch = self.wait(self.driver.submit(request)).broker_epoch
        assert not self.wait(self.driver.submit(self.heartbeat())).is_fenced

    def heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatRequest:
        return BrokerHeartbeatRequest(
            broker_id=1,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.metadata.image.offset,
            want_shut_down=want_shut_down,
        )

    def create(self, name: str, partitions: int = 1) -> Promise[CreateTopicsResponse]:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        return self.driver.submit(CreateTopicsRequest(topics=[topic]))
