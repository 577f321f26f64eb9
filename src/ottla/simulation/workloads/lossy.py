"""A topic whose leaders may be elected uncleanly: what such an election loses is allowed to go.

While none has happened it is judged as any other. The topic with the metadata of the remote store
may be such a one too; then nobody can say what of the topics in that store is found again.
"""

from typing import ClassVar, Final

from ottla.common.errors import ErrorCode
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.protocol.generated.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.history import Policy, UseTopic
from ottla.simulation.workloads.records import Records
from ottla.simulation.workloads.workload import Workload

UNCLEAN: Final = "unclean.leader.election.enable"
_TOPIC: Final = 2
_ELECTION: Final = 1


class LossyRecords(Records):
    NAME: ClassVar[str] = "lossy"
    CONFIGS: ClassVar[dict[str, str]] = {UNCLEAN: "true", "min.insync.replicas": "1"}

    def start(self) -> None:
        super().start()
        self.begin("elector", self._elect())

    async def _elect(self) -> None:
        """An impatient administrator; where there is a leader it has no effect."""
        client = self.client("elector")
        partitions = [index for _, index in self.places]
        while not self.is_stopping:
            await client.pause(0.0, 2.0)
            request = ElectLeadersRequest(
                election_type=_ELECTION,
                topic_partitions=[TopicPartitions(topic=self.NAME, partitions=partitions)],
                timeout_ms=3000,
            )
            try:
                await client.ask_any(request)
            except OSError:
                await client.back_off()

    async def conclude(self) -> None:
        await super().conclude()
        if self.NAME in self.world.lost:
            self.history.add(UseTopic(process="admin", topic=self.NAME, policy=Policy.LOSE))


class LossyTier(Workload):
    """Lets the metadata of the remote store have unclean elections, as soon as it is there."""

    NAME: ClassVar[str] = "lossy-tier"

    async def prepare(self) -> None:
        """The topic is made by the brokers, when they need it."""

    def start(self) -> None:
        self.begin("admin", self._allow())

    async def conclude(self) -> None:
        """Has nothing to read: the workloads of the topics in the store judge."""

    async def _allow(self) -> None:
        client = self.client("admin")
        while not self.is_stopping and not await configure(
            client, REMOTE_LOG_METADATA, {UNCLEAN: "true", "min.insync.replicas": "1"}
        ):
            await client.back_off()


async def configure(client: ClusterClient, topic: str, configs: dict[str, str]) -> bool:
    """Set configs of a topic; whether that was done for sure."""
    resource = AlterConfigsResource(
        resource_type=_TOPIC,
        resource_name=topic,
        configs=[AlterableConfig(name=name, value=value) for name, value in configs.items()],
    )
    try:
        answer = await client.ask_any(IncrementalAlterConfigsRequest(resources=[resource]))
    except OSError:
        return False
    return answer.responses[0].error_code == ErrorCode.NONE
