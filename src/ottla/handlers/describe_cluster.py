"""DescribeCluster (key 60): the cluster's id and its brokers (KIP-700).

The controller that is named is any broker that lives: clients send it what is meant for the
controller, and it passes that on.

v1 says which kind of endpoint is meant (KIP-919): brokers' listeners tell of brokers, controllers'
of controllers, and a client that has dialled the wrong kind is told so. v2 fenced
brokers on request (KIP-1073).
"""

from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import MismatchedEndpointType, UnsupportedEndpointType
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.requests.authorized_operations import NOT_ASKED, on_cluster
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Handler, by_code
from ottla.requests.endpoints import addresses, dialled_host, some_alive_broker
from ottla.requests.needs import ByHandler, Effect, Whole

_BROKER: Final = 1
_CONTROLLER: Final = 2
_KINDS: Final = {_BROKER: "BROKER", _CONTROLLER: "CONTROLLER"}


def handle(
    request: DescribeClusterRequest, context: RequestContext, services: NodeServices
) -> DescribeClusterResponse:
    if request.endpoint_type not in _KINDS:
        raise UnsupportedEndpointType(f"Unsupported endpoint type {request.endpoint_type}")
    dialled = _CONTROLLER if context.of_controller else _BROKER
    if request.endpoint_type != dialled:
        raise MismatchedEndpointType(
            f"The request was sent to an endpoint of type {_KINDS[dialled]}, "
            f"but we wanted an endpoint of type {_KINDS[request.endpoint_type]}"
        )
    if context.of_controller:
        return _controllers(request, context, services)
    image = services.metadata.image
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        controller_id=some_alive_broker(image, services),
        brokers=[
            DescribeClusterBroker(
                broker_id=address.node_id,
                host=address.host,
                port=address.port,
                rack=address.rack,
                is_fenced=address.fenced,
            )
            for address in addresses(
                image, context, services, fenced=request.include_fenced_brokers
            )
        ],
        cluster_authorized_operations=_operations(request, context, services),
    )


def _operations(
    request: DescribeClusterRequest, context: RequestContext, services: NodeServices
) -> int:
    asked = request.include_cluster_authorized_operations
    return on_cluster(context, services) if asked else NOT_ASKED


def _controllers(
    request: DescribeClusterRequest, context: RequestContext, services: NodeServices
) -> DescribeClusterResponse:
    """What a client of the controllers' listeners sees: the controllers, and which is active."""
    found = []
    for node_id, controller in sorted(services.metadata.image.controllers.items()):
        endpoint = controller.listeners.get(context.listener_name)
        if endpoint is not None:
            host = endpoint.host or dialled_host(context)
            found.append(DescribeClusterBroker(broker_id=node_id, host=host, port=endpoint.port))
    return DescribeClusterResponse(
        cluster_id=services.cluster_id,
        endpoint_type=_CONTROLLER,
        controller_id=services.raft.node.leader_id,
        brokers=found,
        cluster_authorized_operations=_operations(request, context, services),
    )


HANDLER: Final = Handler(
    DescribeClusterRequest,
    handle,
    refuse=by_code(DescribeClusterResponse),
    needs=[
        Whole(AclOperation.ALTER, ResourceType.CLUSTER, at_controller=True),
        ByHandler(AclOperation.DESCRIBE, ResourceType.CLUSTER, Effect.HIDDEN),
    ],
)
