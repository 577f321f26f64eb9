"""Watching replicas move: how many bytes have come of those that must."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.progress import Progress
from ottla.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.placement import Move

_EVERY_SECONDS: Final = 0.25


def watch(admin: "Admin", moves: Sequence["Move"], *, quiet: bool) -> None:
    """Come back when none of these is reassigned any more."""
    from ottla.client.reassignments import list_reassignments

    partitions = [move.partition for move in moves]
    if not partitions:
        return
    with Progress("copying", 0, quiet=quiet) as progress:
        while list_reassignments(admin.cluster, partitions):
            total, done = _bytes(admin, moves)
            progress.total = total
            progress.update(max(done - progress.done, 0))
            time.sleep(_EVERY_SECONDS)


def _bytes(admin: "Admin", moves: Sequence["Move"]) -> tuple[int, int]:
    """What all added replicas must have, and what they have."""
    from ottla.client.errors import SomeRefused

    try:
        described = admin.describe_log_dirs(partitions=[move.partition for move in moves])
    except SomeRefused as some:
        described = some.done
    sizes: dict[tuple[TopicPartition, int], int] = {
        (TopicPartition(each.topic, each.partition), node_id): each.size
        for node_id, directories in described.items()
        for directory in directories
        for each in directory.replicas
        if not each.is_future
    }
    total = done = 0
    for move in moves:
        whole = max((sizes.get((move.partition, each), 0) for each in move.before), default=0)
        for broker in move.adding:
            total += whole
            done += min(sizes.get((move.partition, broker), 0), whole)
    return total, done
