"""What a broker needs of the controller, wherever that is: in this process, or across the network.

Every answer is a promise. A refusal of the whole request fails it with an ``ApiError``, among them
NOT_CONTROLLER while no controller is active here; errors of single topics are in the answer.
"""

from collections.abc import Callable
from typing import Protocol

from ottla.common.promise import Promise
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.generated.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ottla.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ottla.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ottla.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ottla.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ottla.protocol.generated.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
)
from ottla.protocol.generated.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ottla.protocol.generated.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.protocol.generated.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)


class ControllerClient(Protocol):
    # From clients, by way of a broker

    def create_topics(
        self, request: CreateTopicsRequest, describable: Callable[[str], bool] = ...
    ) -> Promise[CreateTopicsResponse]:
        """``describable`` says of which topics the settings may be shown in the answer."""
        ...

    def delete_topics(self, request: DeleteTopicsRequest) -> Promise[DeleteTopicsResponse]: ...

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> Promise[CreatePartitionsResponse]: ...

    def alter_configs(self, request: AlterConfigsRequest) -> Promise[AlterConfigsResponse]: ...

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Promise[IncrementalAlterConfigsResponse]: ...

    def update_features(
        self, request: UpdateFeaturesRequest
    ) -> Promise[UpdateFeaturesResponse]: ...

    def elect_leaders(self, request: ElectLeadersRequest) -> Promise[ElectLeadersResponse]: ...

    def alter_partition_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Promise[AlterPartitionReassignmentsResponse]: ...

    def list_partition_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> Promise[ListPartitionReassignmentsResponse]: ...

    def unregister_broker(
        self, request: UnregisterBrokerRequest
    ) -> Promise[UnregisterBrokerResponse]: ...

    def describe_quorum(
        self, request: DescribeQuorumRequest
    ) -> Promise[DescribeQuorumResponse]: ...

    # From brokers and controllers

    def register_broker(
        self, request: BrokerRegistrationRequest
    ) -> Promise[BrokerRegistrationResponse]: ...

    def broker_heartbeat(
        self, request: BrokerHeartbeatRequest
    ) -> Promise[BrokerHeartbeatResponse]: ...

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Promise[AllocateProducerIdsResponse]: ...

    def alter_partition(
        self, request: AlterPartitionRequest
    ) -> Promise[AlterPartitionResponse]: ...

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> Promise[AssignReplicasToDirsResponse]: ...

    def register_controller(
        self, request: ControllerRegistrationRequest
    ) -> Promise[ControllerRegistrationResponse]: ...
