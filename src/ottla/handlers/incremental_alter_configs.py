"""IncrementalAlterConfigs (key 44): change single settings, and leave the others (KIP-339).

A setting is set, removed, or, if it is a list, appended to or subtracted from. v1 is flexible.
"""

from typing import Final

from ottla.common import authorization as acl
from ottla.common.errors import ApiError, ErrorCode
from ottla.config.changes import Resource
from ottla.protocol.generated.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.requests.config_changes import (
    check_broker_change,
    check_forwarded,
    check_names_and_values,
    precheck,
)
from ottla.requests.config_needs import each_logger, each_of_its_kind
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler
from ottla.requests.loggers import change_log_levels


async def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext, services: NodeServices
) -> IncrementalAlterConfigsResponse:
    def check(resource: AlterConfigsResource) -> bool:
        return _check(resource, context, services, validate_only=request.validate_only)

    rest, outcomes = precheck(request.resources, check)
    response = IncrementalAlterConfigsResponse()
    if rest:
        response = await services.controller.submit(
            IncrementalAlterConfigsRequest(resources=rest, validate_only=request.validate_only),
            context,
        )
    answered = {(each.resource_type, each.resource_name): each for each in response.responses}
    for each in response.responses:
        each.error_message = each.error_message or None
    return IncrementalAlterConfigsResponse(
        responses=[
            _outcome(resource, outcomes[position])
            if position in outcomes
            else answered[resource.resource_type, resource.resource_name]
            for position, resource in enumerate(request.resources)
        ]
    )


def _check(
    resource: AlterConfigsResource,
    context: RequestContext,
    services: NodeServices,
    *,
    validate_only: bool,
) -> bool:
    """Refuse, or do what is the broker's to do; tell whether the controller is to be asked."""
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    check_names_and_values(changes)
    name = resource.resource_name
    if resource.resource_type == Resource.BROKER_LOGGER:
        change_log_levels(services.node_id, name, changes, validate_only=validate_only)
        return False
    check_forwarded(resource.resource_type)
    if resource.resource_type == Resource.BROKER and not context.of_controller:
        check_broker_change(services, name, changes)
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


def refuse(
    request: IncrementalAlterConfigsRequest, error: ApiError, _version: int
) -> IncrementalAlterConfigsResponse:
    """Each resource that was named gets the error."""
    return IncrementalAlterConfigsResponse(
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


def _resources(request: IncrementalAlterConfigsRequest) -> list[AlterConfigsResource]:
    return request.resources


def _responses(response: IncrementalAlterConfigsResponse) -> list[AlterConfigsResourceResponse]:
    return response.responses


HANDLER: Final = Handler(
    IncrementalAlterConfigsRequest,
    handle,
    refuse=refuse,
    needs=[
        *each_of_its_kind(acl.AclOperation.ALTER_CONFIGS, _resources, _responses),
        each_logger(acl.AclOperation.ALTER_CONFIGS, _resources, _responses, at_controller=False),
        each_logger(acl.AclOperation.CLUSTER_ACTION, _resources, _responses, at_controller=True),
    ],
    passed_on=False,
)
