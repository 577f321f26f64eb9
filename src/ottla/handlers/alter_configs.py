"""AlterConfigs (key 33): replace all settings of a resource; what is not named is reset.

IncrementalAlterConfigs came in its place (KIP-339), because nobody can change one setting safely
with this.

v1 as v0; v2 is flexible.
"""

from typing import Final

from ottla.common import authorization as acl
from ottla.common.errors import ApiError, ErrorCode
from ottla.config.changes import ConfigOperation, Resource
from ottla.protocol.generated.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from ottla.requests.config_changes import (
    check_broker_replacement,
    check_forwarded,
    check_names_and_values,
    precheck,
)
from ottla.requests.config_needs import each_of_its_kind
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler


async def handle(
    request: AlterConfigsRequest, context: RequestContext, services: NodeServices
) -> AlterConfigsResponse:
    rest, outcomes = precheck(
        request.resources, lambda resource: _check(resource, context, services)
    )
    response = AlterConfigsResponse()
    if rest:
        response = await services.controller.submit(
            AlterConfigsRequest(resources=rest, validate_only=request.validate_only),
            context,
        )
    answered = {(each.resource_type, each.resource_name): each for each in response.responses}
    for each in response.responses:
        each.error_message = each.error_message or None
    return AlterConfigsResponse(
        responses=[
            _outcome(resource, outcomes[position])
            if position in outcomes
            else answered[resource.resource_type, resource.resource_name]
            for position, resource in enumerate(request.resources)
        ]
    )


def _check(resource: AlterConfigsResource, context: RequestContext, services: NodeServices) -> bool:
    settings = [(config.name, ConfigOperation.SET, config.value) for config in resource.configs]
    check_names_and_values(settings)
    check_forwarded(resource.resource_type)
    if resource.resource_type == Resource.BROKER and not context.of_controller:
        wanted = {name: value for name, _, value in settings if value is not None}
        check_broker_replacement(services, resource.resource_name, wanted)
    return True


def _outcome(
    resource: AlterConfigsResource, error: ApiError | None
) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message or None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def refuse(request: AlterConfigsRequest, error: ApiError, _version: int) -> AlterConfigsResponse:
    """Each resource that was named gets the error."""
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=error.code,
                error_message=error.message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


HANDLER: Final = Handler(
    AlterConfigsRequest,
    handle,
    refuse=refuse,
    needs=each_of_its_kind(
        acl.AclOperation.ALTER_CONFIGS,
        lambda request: request.resources,
        lambda response: response.responses,
    ),
    passed_on=False,
)
