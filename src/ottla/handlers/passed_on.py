"""What a listener of the controller passes on to its controller as it comes.

- UnregisterBroker (key 64): forget a broker that is gone for good (KIP-631). v0 flexible from the
  start, and without a time limit of its own.
- AlterPartition (key 56): the leader of partitions proposes what replicas are in sync (KIP-497). v2
  topic ids (KIP-841); v3 the epochs of the brokers that are in sync (KIP-903).
- BrokerRegistration (key 62): a broker begins an incarnation (KIP-631). v1 whether it comes
  from ZooKeeper; v2 its log directories (KIP-858); v3 as v2; v4 the epoch of its last incarnation
  (KIP-966).
- BrokerHeartbeat (key 63): a broker lives, wants to serve, or wants to stop (KIP-631). v1 log
  directories that have failed (KIP-858); v2 those that take no new replicas (KIP-1066).
- AllocateProducerIds (key 67): a block of producer ids for a broker (KIP-730). There is v0 only.
- ControllerRegistration (key 70): a controller says where it is and what it supports (KIP-919).
  There is v0 only.
- AssignReplicasToDirs (key 73): a broker says in which directories its replicas lie (KIP-858).
  There is v0 only.
"""

from typing import Final, TypeVar

from ottla.common.authorization import AclOperation, ResourceType
from ottla.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.generated.alter_partition import AlterPartitionRequest
from ottla.protocol.generated.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.protocol.generated.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.generated.broker_registration import BrokerRegistrationRequest
from ottla.protocol.generated.controller_registration import ControllerRegistrationRequest
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.message import CodedResponse, Request, RequestClass
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Contract, Handler, Quota, by_code
from ottla.requests.needs import Whole

Q = TypeVar("Q", bound=Request[CodedResponse])
R = TypeVar("R", bound=CodedResponse)


async def _submit(request: Request[R], _context: RequestContext, services: ControllerServices) -> R:
    return await services.controller.submit(request)


def _passed_on(
    request: RequestClass[Request[R], R], operation: AclOperation, quota: Quota
) -> Handler[Request[R], R, ControllerServices]:
    return Handler(
        request,
        _submit,
        refuse=by_code(request.RESPONSE),
        needs=[Whole(operation, ResourceType.CLUSTER)],
        quota=quota,
    )


_ALTER: Final = (AclOperation.ALTER, Quota.REQUEST)
_AMONG_NODES: Final = (AclOperation.CLUSTER_ACTION, Quota.EXEMPT)

ROWS: Final[tuple[Contract, ...]] = (
    _passed_on(UnregisterBrokerRequest, *_ALTER),
    _passed_on(AlterPartitionRequest, *_AMONG_NODES),
    _passed_on(BrokerRegistrationRequest, *_AMONG_NODES),
    _passed_on(BrokerHeartbeatRequest, *_AMONG_NODES),
    _passed_on(AllocateProducerIdsRequest, *_AMONG_NODES),
    _passed_on(ControllerRegistrationRequest, *_AMONG_NODES),
    _passed_on(AssignReplicasToDirsRequest, *_AMONG_NODES),
)
HANDLERS: Final = {row.key: row for row in ROWS}
