"""Quotas that come, change and go beside all that others do.

Nothing here is judged by itself: a client that must wait loses nothing by it, and goes on.
"""

from typing import ClassVar, Final

from ottla.metadata.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    OpData,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequestEntityData as Entity,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequestEntryData as Entry,
)
from ottla.simulation.cluster_client import ClusterClient
from ottla.simulation.workloads.workload import Workload

RATES: Final = {
    PRODUCER_BYTE_RATE: (50.0, 500.0, 50_000.0),
    CONSUMER_BYTE_RATE: (100.0, 1_000.0, 50_000.0),
    CONTROLLER_MUTATION_RATE: (0.5, 5.0),
    REQUEST_PERCENTAGE: (0.1, 50.0),
}
"""Clients of a simulation send little: with the first of each they wait for seconds."""
ENTITIES: Final = ((CLIENT_ID,), (USER,), (CLIENT_ID, USER))
PAUSE_SECONDS_MAX: Final = 3.0


class Quotas(Workload):
    NAME: ClassVar[str] = "quotas"

    async def prepare(self) -> None:
        """Has nothing to prepare: others are limited."""

    def start(self) -> None:
        self.begin("limits", self._limit())

    async def conclude(self) -> None:
        """Has nothing to read: others tell what was lost."""

    async def _limit(self) -> None:
        client = self.client("limits")
        while not self.is_stopping:
            await client.pause(0.0, PAUSE_SECONDS_MAX)
            kinds = client.chance.choose(ENTITIES)
            key = client.chance.choose(sorted(RATES))
            value = client.chance.choose((*RATES[key], None))
            try:
                await client.ask_any(_altered(kinds, {key: value}))
            except OSError:
                await client.back_off()
        await self._remove_all(client)

    async def _remove_all(self, client: ClusterClient) -> None:
        """What is to be read in the end is read at once."""
        left = list(ENTITIES)
        while left:
            try:
                answer = await client.ask_any(_altered(left[-1], dict.fromkeys(RATES)))
            except OSError:
                await client.back_off()
                continue
            if answer.entries[0].error_code == 0:
                left.pop()
            else:
                await client.back_off()


def _altered(kinds: tuple[str, ...], wanted: dict[str, float | None]) -> AlterClientQuotasRequest:
    entity = [Entity(entity_type=kind, entity_name=None) for kind in kinds]
    ops = [
        OpData(key=key, value=value or 0.0, remove=value is None) for key, value in wanted.items()
    ]
    return AlterClientQuotasRequest(entries=[Entry(entity=entity, ops=ops)])
