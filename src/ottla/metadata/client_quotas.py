"""Client quotas: limits by user, client id and address."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from ottla.protocol.generated.metadata_records import ClientQuotaRecord, EntityData

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Pairs of type and name, sorted by type; the name None stands for the default."""
ClientQuotasImage: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


def quota_entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    return tuple(sorted(parts.items(), key=lambda part: part[0]))


class ClientQuotasDelta:
    __slots__ = ("base", "changed")

    def __init__(self, base: ClientQuotasImage) -> None:
        self.base = base
        self.changed: dict[QuotaEntity, dict[str, float]] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def replay(self, record: ClientQuotaRecord) -> None:
        entity = quota_entity({part.entity_type: part.entity_name for part in record.entity})
        quotas = self.changed.get(entity)
        if quotas is None:
            quotas = self.changed[entity] = dict(self.base.get(entity, {}))
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value

    def apply(self) -> ClientQuotasImage:
        if not self.changed:
            return self.base
        merged = {**self.base, **self.changed}
        return {entity: quotas for entity, quotas in merged.items() if quotas}


def client_quotas_to_records(quotas: ClientQuotasImage) -> list[ClientQuotaRecord]:
    return [
        ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
            key=key,
            value=value,
            remove=False,
        )
        for entity, values in quotas.items()
        for key, value in values.items()
    ]
