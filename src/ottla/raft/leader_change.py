"""What a new leader writes first: that it leads, and the voters where the log lacks them.

Nothing of an earlier epoch is committed before these records are.
"""

from collections.abc import Sequence

from ottla.protocol.generated.leader_change_message import LeaderChangeMessage, Voter
from ottla.protocol.message import to_bytes
from ottla.raft.control import ControlState, kraft_version_value
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from ottla.records.control import ControlType


def leader_change(
    key: ReplicaKey,
    endpoints: tuple[VoterEndpoint, ...],
    granting: Sequence[ReplicaKey],
    control: ControlState,
) -> list[tuple[ControlType, bytes]]:
    """The control records of the leader ``key``, in one batch."""
    message = LeaderChangeMessage(
        version=0,
        leader_id=key.node_id,
        voters=[Voter(voter_id=voter_id) for voter_id in control.voters.ids],
        granting_voters=[Voter(voter_id=each.node_id) for each in granting],
    )
    records = [(ControlType.LEADER_CHANGE, to_bytes(message, 0))]
    voters = _corrected(VoterNode(key, endpoints), control)
    if control.needs_writing or voters != control.voters:
        records.append((ControlType.KRAFT_VERSION, kraft_version_value(control.kraft_version)))
        records.append((ControlType.KRAFT_VOTERS, to_bytes(voters.to_record(), 0)))
    return records


def _corrected(leader: VoterNode, control: ControlState) -> VoterSet:
    """The voter set with the leader's own endpoints as they are now."""
    if control.kraft_version == 0 or not leader.endpoints:
        return control.voters
    return control.voters.updated(leader) or control.voters
