"""UpdateFeatures (key 57): raise or lower what the whole cluster has agreed to use (KIP-584).

All updates are made or none. v0 says by a flag that a level may be lowered; v1 by an upgrade type,
and can be asked what would happen (KIP-778); v2 answers with one error for all. The controller does
not look at the request's timeout, however short.
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.needs import Whole

_SAFE_DOWNGRADE: Final = 2


async def handle(
    request: UpdateFeaturesRequest, context: RequestContext, services: ControllerServices
) -> UpdateFeaturesResponse:
    if context.version == 0:
        for update in request.feature_updates:
            if update.allow_downgrade:
                update.upgrade_type = _SAFE_DOWNGRADE
    response = await services.controller.submit(request)
    response.error_message = response.error_message or None
    return response


HANDLER: Final = Handler(
    UpdateFeaturesRequest,
    handle,
    refuse=by_code(UpdateFeaturesResponse),
    needs=[Whole(AclOperation.ALTER, ResourceType.CLUSTER)],
)
