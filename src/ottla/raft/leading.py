"""What a leader learns of its followers: which are there, how far each is, what is committed."""

from typing import TYPE_CHECKING, Final

from ottla.raft.effects import RaftEffect
from ottla.raft.events import ReplicaFetched
from ottla.raft.roles import Leader
from ottla.raft.voters import ReplicaKey

if TYPE_CHECKING:
    from ottla.raft.node import RaftNode

REPLICAS_MAX: Final = 10_000
"""Anybody may fetch under any id: observers beyond these are served, but not remembered."""


class Leading:
    """The part of a node that is only busy while it leads."""

    __slots__ = ("_node",)

    def __init__(self, node: "RaftNode") -> None:
        self._node = node

    def replica_fetched(self, event: ReplicaFetched, effects: list[RaftEffect]) -> None:
        node = self._node
        role = node.role
        assert isinstance(role, Leader)
        assert event.key.node_id != node.key.node_id
        assert event.offset <= node.log_end_offset
        if event.key.node_id < 0:
            return
        key = self._replica(event.key)
        if len(role.progress) >= REPLICAS_MAX and key not in role.progress:
            role.forget_observers(node.voters, event.now)
            if len(role.progress) >= REPLICAS_MAX and key not in node.voters.keys:
                return
        role.fetched_by(key, event.offset, event.now, node.log_end_offset)
        self.replica_seen(event.key, event.now)
        self.advance_high_watermark(effects)

    def replica_seen(self, key: ReplicaKey, now: float) -> None:
        """A majority that follows us says that nobody else leads."""
        node = self._node
        role = node.role
        assert isinstance(role, Leader)
        if not node.voters.is_voter(key) or key.node_id == node.key.node_id:
            return
        role.fetched.add(key.node_id)
        needed = node.voters.majority - (1 if node.is_voter else 0)
        if len(role.fetched & set(node.voters.ids)) >= needed:
            role.fetched.clear()
            role.check_quorum_at = now + node.check_quorum_seconds

    def _replica(self, key: ReplicaKey) -> ReplicaKey:
        """As the voter set has it, where it does not know the directory."""
        voters = self._node.voters
        voter = voters.get(key.node_id)
        return voter.key if voter is not None and voters.is_voter(key) else key

    def advance_high_watermark(self, effects: list[RaftEffect]) -> None:
        node = self._node
        role = node.role
        if not isinstance(role, Leader) or not len(node.voters):
            return
        offset = node.committed(role)
        if offset is None:
            return
        if role.high_watermark is None or offset > role.high_watermark:
            role.high_watermark = offset
        node.commit_to(offset, effects)
