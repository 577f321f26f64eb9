"""Replicas of new partitions: placed by the controller, or named by hand and checked."""

from collections.abc import Sequence

from ottla.common.errors import InvalidReplicaAssignment, InvalidReplicationFactor
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.placement import REPLICATION_FACTOR_MAX, UsableBroker, place_replicas
from ottla.protocol.generated.metadata_records import PartitionRecord


def place(state: ControllerState, *, partitions: int, replication_factor: int) -> list[list[int]]:
    """Replicas for so many new partitions; each has at least one broker that can lead."""
    brokers = [
        UsableBroker(broker.node_id, broker.rack, broker.fenced)
        for broker in state.image.brokers.values()
        if broker.can_take_replicas and (broker.fenced or not broker.in_controlled_shutdown)
    ]
    refusal = f"Unable to replicate the partition {replication_factor} time(s)"
    try:
        placed = place_replicas(
            brokers,
            partitions=partitions,
            replication_factor=replication_factor,
            chance=state.chance,
        )
    except InvalidReplicationFactor as error:
        raise InvalidReplicationFactor(f"{refusal}: {error.message}") from error
    for replicas in placed:
        if not any(state.is_active(broker_id) for broker_id in replicas):
            raise InvalidReplicationFactor(
                f"{refusal}: All brokers are currently fenced or in controlled shutdown."
            )
    return placed


def check_assignment(
    state: ControllerState, replicas: Sequence[int], replication_factor: int | None
) -> None:
    """Refuse replicas that cannot be; ``replication_factor`` is that of earlier partitions."""
    if not replicas:
        raise InvalidReplicaAssignment(
            "The manual partition assignment includes an empty replica list."
        )
    if len(replicas) > REPLICATION_FACTOR_MAX:
        raise InvalidReplicationFactor(
            f"Invalid replication factor {len(replicas)}: "
            f"expected a number equal to less than {REPLICATION_FACTOR_MAX}"
        )
    previous = None
    for broker_id in sorted(replicas):
        if broker_id not in state.image.brokers:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, "
                "but no such broker is registered."
            )
        if not state.image.brokers[broker_id].can_take_replicas:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, "
                "but all its log directories are cordoned."
            )
        if broker_id == previous:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes the broker {broker_id} more than once."
            )
        previous = broker_id
    if replication_factor is not None and len(replicas) != replication_factor:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes a partition with {len(replicas)} "
            "replica(s), but this is not consistent with previous partitions, which have "
            f"{replication_factor} replica(s)."
        )


def first_record(
    state: ControllerState, topic_id: bytes, partition_id: int, replicas: Sequence[int]
) -> PartitionRecord:
    """A new partition: in sync are the replicas whose brokers can lead, the first of them does."""
    isr = [broker_id for broker_id in replicas if state.is_active(broker_id)]
    directories = []
    if versions.directory_assignment_supported(state.metadata_version):
        directories = [state.default_directory(broker_id) for broker_id in replicas]
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=directories,
    )
