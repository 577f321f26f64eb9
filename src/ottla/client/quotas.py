"""Quotas: whose, how much, changed one by one."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, refusal
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    OpData,
)
from ottla.protocol.generated.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
_EXACT: Final = 0
_DEFAULT: Final = 1

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types and names; None as a name is what holds where a name has nothing of its own."""


class Quotas(NamedTuple):
    entity: QuotaEntity
    values: Mapping[str, float]


def list_quotas(
    cluster: Cluster, wanted: QuotaEntity = (), *, strict: bool = False
) -> list[Quotas]:
    """Of all entities that have these parts, and with ``strict`` no others."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in wanted
    ]
    response = cluster.ask_again(
        DescribeClientQuotasRequest(components=components, strict=strict),
        DescribeClientQuotasResponse,
        failed=lambda answer: (
            refusal(answer.error_code, answer.error_message) if answer.error_code else None
        ),
    )
    found = [
        Quotas(
            _sorted({each.entity_type: each.entity_name for each in entry.entity}),
            {each.key: each.value for each in entry.values},
        )
        for entry in response.entries or ()
    ]
    return sorted(found, key=lambda each: [(kind, name or "") for kind, name in each.entity])


def alter_quotas(
    cluster: Cluster,
    entity: QuotaEntity,
    changes: Mapping[str, float | None],
    *,
    validate_only: bool = False,
) -> None:
    """Set those of one entity, or remove them by None."""
    response = cluster.ask_again(
        AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasRequestEntryData(
                    entity=[
                        AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                    ops=[
                        OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes.items()
                    ],
                )
            ],
            validate_only=validate_only,
        ),
        AlterClientQuotasResponse,
    )
    for entry in response.entries:
        check(entry.error_code, entry.error_message)


def _sorted(parts: Mapping[str, str | None]) -> QuotaEntity:
    return tuple((kind, parts[kind]) for kind in sorted(parts, key=_order))


def _order(kind: str) -> int:
    return ENTITY_TYPES.index(kind) if kind in ENTITY_TYPES else len(ENTITY_TYPES)
