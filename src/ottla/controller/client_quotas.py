"""AlterClientQuotas: what users, client ids and addresses may take (KIP-546).

Each entity stands for itself: one that is refused says why, and the others are changed.
"""

from collections import Counter
from ipaddress import ip_address
from typing import Final

from ottla.common.errors import ApiError, InvalidRequest
from ottla.controller.result import ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    quota_entity,
)
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequestEntryData as Wanted,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasResponseEntityData as AnsweredEntity,
)
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasResponseEntryData as Answered,
)
from ottla.protocol.generated.metadata_records import ClientQuotaRecord, EntityData

_OF_CLIENTS: Final = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)
_OF_ADDRESSES: Final = frozenset({CONNECTION_CREATION_RATE})
_FRACTIONS: Final = frozenset({REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE})
"""All others are whole numbers."""
_WHOLE_MAX: Final = {CONNECTION_CREATION_RATE: (1 << 31) - 1}
_LONG_MAX: Final = (1 << 63) - 1


class ClientQuotasManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_quotas(
        self, request: AlterClientQuotasRequest
    ) -> ControllerResult[AlterClientQuotasResponse]:
        wanted = [(_entity(entry), entry) for entry in request.entries]
        times = Counter(entity for entity, _ in wanted)
        records: list[MetadataRecord] = []
        response = AlterClientQuotasResponse()
        for entity, entry in dict(wanted).items():
            answered = Answered(error_message=None, entity=_told(entity))
            try:
                if times[entity] > 1:
                    raise InvalidRequest("An entity stands in the request more than once.")
                _check_entity(dict(entity))
                records += self._changes(entity, entry)
            except ApiError as error:
                answered.error_code, answered.error_message = error.code, error.message
            response.entries.append(answered)
        check_records(records)
        return ControllerResult(response, [] if request.validate_only else records)

    def _changes(self, entity: QuotaEntity, entry: Wanted) -> list[MetadataRecord]:
        keys = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
        known = self._state.image.client_quotas.get(entity, {})
        parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        wanted: dict[str, float | None] = {}
        for op in entry.ops:
            if op.key in wanted:
                raise InvalidRequest(f"Duplicate client quota configuration key {op.key}")
            if not op.remove:
                if op.key not in keys:
                    raise InvalidRequest(f"Invalid configuration key {op.key}")
                _check_value(op.key, op.value)
            wanted[op.key] = None if op.remove else op.value
        return [
            ClientQuotaRecord(
                entity=parts, key=key, value=0.0 if value is None else value, remove=value is None
            )
            for key, value in wanted.items()
            if known.get(key) != value
        ]


def _entity(entry: Wanted) -> QuotaEntity:
    """Of a type that is named twice, the last name counts, as in Kafka."""
    return quota_entity({part.entity_type: part.entity_name for part in entry.entity})


def _told(entity: QuotaEntity) -> list[AnsweredEntity]:
    return [AnsweredEntity(entity_type=kind, entity_name=name) for kind, name in entity]


def _check_entity(parts: dict[str, str | None]) -> None:
    if not parts:
        raise InvalidRequest("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP):
            raise InvalidRequest(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise InvalidRequest(f"Empty {kind} not supported")
    if IP in parts:
        if len(parts) > 1:
            raise InvalidRequest("An address cannot be combined with a user or a client id")
        _check_address(parts[IP])


def _check_address(name: str | None) -> None:
    try:
        if name is not None:
            ip_address(name)
    except ValueError as error:
        raise InvalidRequest(f"{name} is not a valid IP or resolvable host.") from error


def _check_value(key: str, value: float) -> None:
    if not value > 0:
        raise InvalidRequest(f"Quota {key} must be greater than 0")
    if key in _FRACTIONS:
        return
    largest = _WHOLE_MAX.get(key, _LONG_MAX)
    if value > largest:
        raise InvalidRequest(f"Proposed value for {key} is too large")
    if value != int(value):
        raise InvalidRequest(f"Proposed value for {key} must be a whole number")
