"""DescribeClientQuotas (key 48): the quotas that are set, by a filter (KIP-546).

v1 flexible.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, InvalidRequest, UnsupportedVersion
from ottla.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaEntity
from ottla.protocol.generated.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole

_EXACT: Final = 0
_DEFAULT: Final = 1
_ANY: Final = 2


def handle(
    request: DescribeClientQuotasRequest, _context: RequestContext, services: NodeServices
) -> DescribeClientQuotasResponse:
    wanted = _checked(request.components)
    return DescribeClientQuotasResponse(
        error_message="",
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in services.metadata.image.client_quotas.items()
            if _matches(entity, wanted, strict=request.strict)
        ],
    )


def _checked(components: list[ComponentData]) -> dict[str, ComponentData]:
    wanted: dict[str, ComponentData] = {}
    for component in components:
        kind, match = component.entity_type, component.match
        if kind in wanted:
            raise InvalidRequest(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise UnsupportedVersion(f"Unsupported entity type: {kind}.")
        if component.match_type == _EXACT:
            if match is None:
                raise InvalidRequest("Request specified MATCH_TYPE_EXACT, but set match to null.")
        elif component.match_type not in (_DEFAULT, _ANY):
            raise InvalidRequest(f"Unknown match type {component.match_type}")
        elif match is not None:
            raise InvalidRequest("A match is only for MATCH_TYPE_EXACT.")
        wanted[kind] = component
    if IP in wanted and len(wanted) > 1:
        raise InvalidRequest("Invalid entity filter component combination, IP with user or client")
    return wanted


def _matches(entity: QuotaEntity, wanted: dict[str, ComponentData], *, strict: bool) -> bool:
    parts = dict(entity)
    if strict and (not wanted or parts.keys() != wanted.keys()):
        return False
    for kind, component in wanted.items():
        if kind not in parts:
            return False
        if component.match_type != _ANY and parts[kind] != component.match:
            return False
    return True


def refuse(
    _request: DescribeClientQuotasRequest, error: ApiError, _version: int
) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(
        error_code=error.code, error_message=error.message or None, entries=None
    )


HANDLER: Final = Handler(
    DescribeClientQuotasRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)],
)
