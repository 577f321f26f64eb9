"""Topics whose older segments are in the remote store: kept for ever, for a while, or changing.

Where their metadata was lost by an unclean election nobody promises what is found again.
"""

from collections.abc import Awaitable, Callable
from typing import ClassVar, Final

from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.history import Isolation, Policy, Send, UseTopic
from ottla.simulation.workloads.consuming import Cursor
from ottla.simulation.workloads.lossy import LossyTier, configure
from ottla.simulation.workloads.producing import Batch, Identity, produce
from ottla.simulation.workloads.records import Records
from ottla.simulation.workloads.workload import Workload

_SMALL: Final = {
    "remote.storage.enable": "true",
    "internal.segment.bytes": "700",
    "local.retention.ms": "1000",
}


class _Tiered(Records):
    async def conclude(self) -> None:
        await super().conclude()
        if REMOTE_LOG_METADATA in self.world.lost:
            self.history.add(UseTopic(process="admin", topic=self.NAME, policy=Policy.LOSE))


class TieredRecords(_Tiered):
    """Small segments, which soon are in the remote store only."""

    NAME: ClassVar[str] = "tiered"
    CONFIGS: ClassVar[dict[str, str]] = {**_SMALL, "retention.ms": "-1"}


class ExpiringTieredRecords(_Tiered):
    """The same, and after a while they go from there too, by age and by size."""

    NAME: ClassVar[str] = "tiered-expiring"
    POLICY: ClassVar[Policy] = Policy.EXPIRE
    CONFIGS: ClassVar[dict[str, str]] = {
        **_SMALL,
        "retention.ms": "15000",
        "retention.bytes": "20000",
    }


class ChangingTieredRecords(_Tiered):
    """An administrator deletes records, turns the remote part off and on, and deletes topics."""

    NAME: ClassVar[str] = "tiered-changing"
    POLICY: ClassVar[Policy] = Policy.EXPIRE
    CONFIGS: ClassVar[dict[str, str]] = {**_SMALL, "retention.ms": "-1"}
    PASSING: ClassVar[str] = "tiered-passing"

    def start(self) -> None:
        super().start()
        self.begin("admin", self._change())
        self.begin("visitor", self._visit())

    async def _change(self) -> None:
        client = self.client("changer")
        acts: list[Callable[[ClusterClient], Awaitable[object]]] = [
            self._delete_records,
            self._delete_records,
            self._disable,
            self._enable,
        ]
        while not self.is_stopping:
            await client.pause(0.0, 1.0)
            try:
                await client.chance.choose(acts)(client)
            except OSError:
                await client.back_off()

    async def _delete_records(self, client: ClusterClient) -> None:
        place = client.chance.choose(self.places)
        end = await Cursor(client, place, Isolation.UNCOMMITTED).end()
        leader, _ = await client.leader(place)
        wanted = DeleteRecordsPartition(
            partition_index=place[1], offset=client.chance.below(end + 1)
        )
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=self.NAME, partitions=[wanted])], timeout_ms=2000
        )
        await client.ask(leader, request)

    async def _disable(self, client: ClusterClient) -> None:
        off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
        await configure(client, self.NAME, off)

    async def _enable(self, client: ClusterClient) -> None:
        await configure(client, self.NAME, {"remote.storage.enable": "true"})

    async def _visit(self) -> None:
        """A topic by one name that is written to, copied, deleted and made again."""
        client = self.client("visitor")
        place = self.PASSING, 0
        record = Send(process=client.name, topic=self.PASSING, partition=0, value="goes" * 20)
        records = [record] * 5
        while not self.is_stopping:
            await client.create_topic(self.PASSING, 1, self.replication_factor, self.CONFIGS)
            try:
                for _ in range(client.chance.below(8)):
                    await produce(client, Identity(-1, -1), place, Batch(records, -1))
                await client.pause(0.0, 1.0)
                topics = [DeleteTopicState(name=self.PASSING)]
                await client.ask_any(DeleteTopicsRequest(topics=topics, timeout_ms=3000))
            except OSError:
                await client.back_off()  # it may be gone already


TIERED: Final[dict[str, type[Workload]]] = {
    kind.NAME: kind
    for kind in (TieredRecords, ExpiringTieredRecords, ChangingTieredRecords, LossyTier)
}
