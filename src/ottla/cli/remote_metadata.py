"""What ``__remote_log_metadata`` tells of the remote segments of partitions, read as a consumer.

The topic is Kafka's own, so this works with any broker that keeps it. Only the partitions of it
that tell of what was asked for are read, from their beginning to where they end now.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.cli.clients import open_consumer
from ottla.cli.progress import Progress
from ottla.cli.settings import ClientSettings
from ottla.client.offsets import EARLIEST
from ottla.common.errors import ProtocolViolation, UnknownTopicOrPartition
from ottla.common.topic_partition import TopicPartition
from ottla.tiered.machine import RemotePartition
from ottla.tiered.records import decode, metadata_partition
from ottla.tiered.segments import REMOTE_LOG_METADATA, TopicIdPartition

if TYPE_CHECKING:
    from ottla.client.consumer import Consumer

POLL_MS = 500


def read_remote_metadata(
    client: ClientSettings, wanted: Iterable[TopicIdPartition], *, quiet: bool = False
) -> dict[TopicIdPartition, RemotePartition]:
    """What each partition has in the remote store; nothing when there is no such topic yet."""
    found = {each: RemotePartition(each) for each in wanted}
    if not found:
        return found
    with (
        open_consumer(client, isolation_level="read_uncommitted") as consumer,
        Progress("reading remote metadata", 0, quiet=quiet) as progress,
    ):
        try:
            count = len(consumer.partitions(REMOTE_LOG_METADATA))
        except UnknownTopicOrPartition:
            return found
        numbers = sorted({metadata_partition(each, count) for each in found})
        _replay(consumer, numbers, found, progress, client.timeout)
    return found


def _replay(
    consumer: "Consumer",
    numbers: list[int],
    found: dict[TopicIdPartition, RemotePartition],
    progress: Progress,
    timeout: float,
) -> None:
    partitions = [TopicPartition(REMOTE_LOG_METADATA, number) for number in numbers]
    ends = consumer.end_offsets(partitions)
    consumer.assign(dict.fromkeys(partitions, EARLIEST))
    idle = 0
    while any(consumer.position(each) < end for each, end in ends.items()):
        polled = consumer.poll(POLL_MS)
        idle = 0 if polled else idle + POLL_MS
        if idle > timeout * 1000:
            raise TimeoutError(f"{REMOTE_LOG_METADATA} could not be read to its end in time")
        for records in polled.values():
            for record in records:
                progress.update(len(record.value or b""))
                _take(record.value, found)


def _take(value: bytes | None, found: dict[TopicIdPartition, RemotePartition]) -> None:
    try:
        record = decode(value or b"")
    except (ProtocolViolation, ValueError, IndexError):
        return  # of a kind that later versions may have added
    partition = found.get(record.partition)
    if partition is not None:
        partition.replay(record)
