"""What ``__remote_log_metadata`` tells of the remote segments of partitions."""

from collections.abc import Iterable

from ottla.cli.clients import open_consumer
from ottla.cli.progress import Progress
from ottla.cli.settings import ClientSettings
from ottla.client.remote_segments import RemoteSegments
from ottla.tiered.machine import RemotePartition
from ottla.tiered.segments import TopicIdPartition


def read_remote_metadata(
    client: ClientSettings, wanted: Iterable[TopicIdPartition], *, quiet: bool = False
) -> dict[TopicIdPartition, RemotePartition]:
    """What each partition has in the remote store; nothing when there is no such topic yet."""
    asked = list(wanted)
    if not asked:
        return {}
    with (
        open_consumer(client, isolation_level="read_uncommitted") as consumer,
        Progress("reading remote metadata", 0, quiet=quiet) as progress,
    ):
        timeout_ms = client.timeout * 1000
        segments = RemoteSegments(consumer, timeout_ms=timeout_ms, progress=progress.update)
        return segments.read(asked)
