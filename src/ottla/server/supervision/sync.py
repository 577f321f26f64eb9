"""Whether a cluster is in sync, as one node knows it: what a restart of processes waits for."""

from collections.abc import Iterator
from typing import Final

from ottla.metadata.image import MetadataImage

PARTITIONS_PER_STEP: Final = 1000


def find_unrest(image: MetadataImage) -> Iterator[str | None]:
    """Look at all brokers and partitions in steps: None after each, or the first unrest found."""
    for broker_id, broker in image.brokers.items():
        if not broker.is_active:
            yield f"broker {broker_id} is fenced"
            return
    seen = 0
    for topic in image.topics:
        for index, partition in topic.partitions.items():
            if partition.leader < 0:
                yield f"{topic.name}-{index} has no leader"
                return
            if len(partition.isr) < len(partition.replicas):
                isr, replicas = list(partition.isr), list(partition.replicas)
                yield f"{topic.name}-{index} has only {isr} of {replicas} in sync"
                return
            seen += 1
            if seen % PARTITIONS_PER_STEP == 0:
                yield None
