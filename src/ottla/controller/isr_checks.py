"""Whether a leader may have the ISR that it proposes with AlterPartition."""

from ottla.common.errors import ErrorCode
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import RECOVERED, RECOVERING, PartitionImage
from ottla.protocol.generated.alter_partition import AlterPartitionRequestPartitionData


def check_alter_partition(
    image: MetadataImage,
    broker_id: int,
    partition: PartitionImage | None,
    proposal: AlterPartitionRequestPartitionData,
) -> ErrorCode:
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    error = _check_epochs(broker_id, partition, proposal)
    if error is ErrorCode.NONE:
        error = _check_members(image, broker_id, partition, proposal)
    return error


def _check_epochs(
    broker_id: int, partition: PartitionImage, proposal: AlterPartitionRequestPartitionData
) -> ErrorCode:
    if (
        proposal.leader_epoch > partition.leader_epoch
        or proposal.partition_epoch > partition.partition_epoch
    ):
        return ErrorCode.NOT_CONTROLLER  # the leader knows more than we do
    if proposal.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if broker_id != partition.leader:
        return ErrorCode.INVALID_REQUEST
    if proposal.partition_epoch < partition.partition_epoch:
        return ErrorCode.INVALID_UPDATE_VERSION
    return ErrorCode.NONE


def _check_members(
    image: MetadataImage,
    broker_id: int,
    partition: PartitionImage,
    proposal: AlterPartitionRequestPartitionData,
) -> ErrorCode:
    epochs = {member.broker_id: member.broker_epoch for member in proposal.new_isr_with_epochs}
    isr = list(epochs) or list(proposal.new_isr)
    count = len(proposal.new_isr_with_epochs) or len(proposal.new_isr)
    if len(set(isr)) != count or not set(isr) <= set(partition.replicas) or broker_id not in isr:
        return ErrorCode.INVALID_REQUEST
    recovery_state = proposal.leader_recovery_state
    if recovery_state == RECOVERING and len(isr) > 1:
        return ErrorCode.INVALID_REQUEST
    if partition.leader_recovery_state == RECOVERED and recovery_state == RECOVERING:
        return ErrorCode.INVALID_REQUEST
    for member in isr:
        broker = image.brokers.get(member)
        if broker is None or not broker.is_active:
            return ErrorCode.INELIGIBLE_REPLICA
        if epochs.get(member, -1) not in (-1, broker.epoch):
            return ErrorCode.INELIGIBLE_REPLICA
    return ErrorCode.NONE
