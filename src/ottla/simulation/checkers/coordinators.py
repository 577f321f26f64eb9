"""What coordinators must come to when all clients are gone: rest.

Soon after the last client has ended no group has members: all have left, or their sessions are
over. Every transaction has ended, nothing waits for a commit, and nothing is kept for what did.
"""

from collections.abc import Iterator

from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.shard import GroupShard
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transaction.shard import TransactionShard
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode


def unrest(cluster: SimulatedCluster) -> str | None:
    """Why the coordinators are not at rest; None when they are."""
    for node in cluster.nodes.values():
        for what in _unrest(node):
            return f"{node}: {what}"
    return None


def _unrest(node: SimulatedNode) -> Iterator[str]:
    services = None if node.node is None else node.node.coordinators
    if services is None:
        return
    groups, transactions = services
    yield from _waiting(groups.runtime)
    yield from _waiting(transactions.runtime)
    for partition in groups.runtime.partitions():
        yield from groups.runtime.read(partition, _members)
    for partition in transactions.runtime.partitions():
        yield from transactions.runtime.read(partition, _unended)


def _waiting(
    runtime: CoordinatorRuntime[GroupShard] | CoordinatorRuntime[TransactionShard],
) -> list[str]:
    waiting = runtime.waiting
    return [f"{waiting} answers wait on {runtime.topic}"] if waiting else []


def _members(shard: GroupShard) -> list[str]:
    return [
        f"group {group.group_id} has members: {', '.join(map(str, _ids(group)))}"
        for group in shard.groups.values()
        if not group.is_empty
    ]


def _ids(group: object) -> list[str]:
    members = getattr(group, "members", ())
    return [*members, *(group.pending_members if isinstance(group, ClassicGroup) else ())]


def _unended(shard: TransactionShard) -> list[str]:
    return [
        f"transaction {transactional_id} is {metadata.state.label}"
        for transactional_id, metadata in shard.all_committed()
        if not metadata.state.is_idle
    ]
