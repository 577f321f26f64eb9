"""Changes by an administrator beside all that others do: topics come, grow and go; leaders move.

Nothing here is judged by itself: what counts is that nobody else loses anything by it. A visitor
has a topic that it writes to, deletes with its records still under way, and makes again by the same
name, so that brokers have work in the background for logs that go.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar, Final

from ottla.common.errors import RETRIABLE, ErrorCode
from ottla.common.promise import run
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.generated.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.generated.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from ottla.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    TopicPartitions,
)
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.generated.metadata import MetadataRequest
from ottla.simulation.cluster_client import ClusterClient, World
from ottla.simulation.history import History, Send
from ottla.simulation.workloads.producing import Batch, Identity, produce
from ottla.simulation.workloads.workload import Workload

OWN_TOPICS: Final = 4
VISITED: Final = "visited"
WRITERS: Final = 3
VISIT_SECONDS_MAX: Final = 0.2
WRITE_SECONDS_MAX: Final = 0.05
PAUSE_SECONDS_MAX: Final = 6.0
MOVES_FACTOR: Final = 12
"""How much busier it is where replicas can move."""
TOPIC: Final = 2
"""Of a resource with configs."""


class Administration(Workload):
    NAME: ClassVar[str] = "administration"

    def __init__(self, world: World, history: History) -> None:
        super().__init__(world, history)
        self._partitions: dict[str, int] = {}
        """How many each topic of all others has, as far as is known."""
        self._brokers: list[int] = []
        self._is_writing = False

    async def prepare(self) -> None:
        """Has nothing to prepare: it works with what others have made."""

    def start(self) -> None:
        self.begin("admin", self._administer())
        self.begin("visitor", self._visit())

    async def conclude(self) -> None:
        """Has nothing to read: others tell what was lost."""

    async def _administer(self) -> None:
        client = self.client("admin")
        acts: list[Callable[[ClusterClient], Awaitable[object]]] = [
            self._create,
            self._delete,
            self._grow,
            self._configure,
            self._reassign,
            self._elect,
        ]
        if len(self.world.directories) > 1:
            acts += [self._move, self._move]
        can_move = len(self.world.bootstrap) > self.replication_factor
        longest = PAUSE_SECONDS_MAX / (MOVES_FACTOR if can_move else 1)
        while not self.is_stopping:
            await client.pause(0.0, longest)
            try:
                await self._look(client)
                await client.chance.choose(acts)(client)
            except OSError:
                await client.back_off()

    async def _visit(self) -> None:
        client = self.client("visitor")
        while not self.is_stopping:
            await client.pause(0.0, VISIT_SECONDS_MAX)
            await client.create_topic(VISITED, 2, self.replication_factor, {})
            self._is_writing = True
            writers = [run(self.world.scheduler.turn, self._write(client)) for _ in range(WRITERS)]
            await client.back_off()
            with suppress(OSError):
                await self._delete(client, VISITED)
            await client.back_off()
            self._is_writing = False
            for written in writers:
                await written

    async def _write(self, client: ClusterClient) -> None:
        """Write, as long as it is taken, so often that there is a write under way at most times."""
        place = VISITED, client.chance.below(2)
        record = Send(process=client.name, topic=VISITED, partition=place[1], value="goes soon")
        while self._is_writing:
            try:
                answer = await produce(client, Identity(-1, -1), place, Batch([record], -1))
            except OSError:
                return
            if answer.error_code == ErrorCode.NONE:
                await client.pause(client.chance.between(0.0, WRITE_SECONDS_MAX))
            elif answer.error_code in RETRIABLE:
                await client.back_off()
            else:
                return

    async def _look(self, client: ClusterClient) -> None:
        answer = await client.ask_any(MetadataRequest(topics=None))
        self._brokers = sorted(each.node_id for each in answer.brokers)
        self._partitions = {
            topic.name: len(topic.partitions) for topic in answer.topics if topic.name
        }

    def _own(self, client: ClusterClient) -> str:
        return f"{self.NAME}-{client.chance.below(OWN_TOPICS)}"

    def _any(self, client: ClusterClient) -> tuple[str, int]:
        """A partition of any topic."""
        name = client.chance.choose(sorted(self._partitions) or [self._own(client)])
        return name, client.chance.below(self._partitions.get(name, 1) or 1)

    async def _create(self, client: ClusterClient) -> None:
        await self.create_topic(client, self._own(client), 2)

    async def _delete(self, client: ClusterClient, name: str | None = None) -> None:
        topics = [DeleteTopicState(name=name or self._own(client))]
        await client.ask_any(DeleteTopicsRequest(topics=topics, timeout_ms=3000))

    async def _grow(self, client: ClusterClient) -> None:
        topics = [CreatePartitionsTopic(name=self._own(client), count=3 + client.chance.below(3))]
        request = CreatePartitionsRequest(topics=topics, timeout_ms=3000)
        await client.ask_any(request)

    async def _configure(self, client: ClusterClient) -> None:
        value = str(100_000 + client.chance.below(100_000))
        resource = AlterConfigsResource(
            resource_type=TOPIC,
            resource_name=self._own(client),
            configs=[AlterableConfig(name="max.message.bytes", config_operation=0, value=value)],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        await client.ask_any(request)

    async def _reassign(self, client: ClusterClient) -> None:
        """Other replicas, in another order, or what was to be reassigned stays as it is."""
        name, partition = self._any(client)
        first = client.chance.below(len(self._brokers) or 1)
        replicas = [*self._brokers[first:], *self._brokers[:first]][: self.replication_factor]
        wanted = ReassignablePartition(
            partition_index=partition, replicas=replicas if client.chance.below(5) else None
        )
        request = AlterPartitionReassignmentsRequest(
            topics=[ReassignableTopic(name=name, partitions=[wanted])], timeout_ms=3000
        )
        await client.ask_any(request)

    async def _move(self, client: ClusterClient) -> None:
        """To another directory of the same broker, or to where it is already."""
        name, partition = self._any(client)
        topic = AlterReplicaLogDirTopic(name=name, partitions=[partition])
        path = client.chance.choose(self.world.directories)
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=[topic])])
        await client.ask_any(request)

    async def _elect(self, client: ClusterClient) -> None:
        name, partition = self._any(client)
        request = ElectLeadersRequest(
            election_type=0,
            topic_partitions=[TopicPartitions(topic=name, partitions=[partition])],
            timeout_ms=3000,
        )
        await client.ask_any(request)
