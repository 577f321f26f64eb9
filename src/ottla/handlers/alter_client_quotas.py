"""AlterClientQuotas (key 49): set and remove quotas, each entity for itself (KIP-546).

v1 flexible.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.needs import Whole


async def handle(
    request: AlterClientQuotasRequest, _context: RequestContext, services: ControllerServices
) -> AlterClientQuotasResponse:
    return await services.controller.submit(request)


def refuse(
    request: AlterClientQuotasRequest, error: ApiError, _version: int
) -> AlterClientQuotasResponse:
    """Each entity that was named gets the error."""
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=error.code,
                error_message=error.message or None,
                entity=[
                    AlterClientQuotasResponseEntityData(
                        entity_type=part.entity_type, entity_name=part.entity_name
                    )
                    for part in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


HANDLER: Final = Handler(
    AlterClientQuotasRequest,
    handle,
    refuse=refuse,
    needs=[Whole(AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER)],
)
