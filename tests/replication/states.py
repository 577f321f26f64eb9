"""What the metadata log might say of a partition, for tests that say it themselves."""

from ottla.common.identifiers import UNASSIGNED_DIRECTORY
from ottla.metadata.topics import PartitionImage
from ottla.replication.partition import Partition


def state(
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...],
    *,
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int | None = None,
) -> PartitionImage:
    """Each leader epoch has a partition epoch of its own, unless one is named."""
    held_by = tuple(sorted(isr)) if replicas is None else replicas
    return PartitionImage(
        replicas=held_by,
        isr=isr,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=leader_epoch if partition_epoch is None else partition_epoch,
        directories=(UNASSIGNED_DIRECTORY,) * len(held_by),
    )


def lead(
    partition: Partition,
    leader: int,
    leader_epoch: int,
    isr: tuple[int, ...],
    *,
    replicas: tuple[int, ...] | None = None,
) -> None:
    """Say that ``leader`` leads, in the partition epoch after whatever was before."""
    epoch = partition.partition_epoch + 1
    partition.apply_state(
        state(leader, leader_epoch, isr, replicas=replicas, partition_epoch=epoch)
    )
