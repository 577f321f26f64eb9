"""The ``quorum-state`` file: epoch, vote and leader, which must outlive a crash.

One line of JSON. Version 0 goes with kraft.version 0 and also names the voters; version 1 goes with
kraft.version 1 and names the directory that was voted for. A node that forgot its vote could vote
twice in one epoch, so the file is replaced atomically and synced before the vote counts.
"""

import json
from typing import NamedTuple

from ottla.common.identifiers import ZERO_UUID, uuid_from_text, uuid_text
from ottla.raft.voters import ReplicaKey


class QuorumState(NamedTuple):
    epoch: int = 0
    leader_id: int = -1
    voted: ReplicaKey | None = None


def encode_quorum_state(state: QuorumState, *, kraft_version: int, voter_ids: list[int]) -> bytes:
    voted = state.voted or ReplicaKey(-1)
    if kraft_version == 0:
        fields: dict[str, object] = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.node_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.node_id,
            "votedDirectoryId": uuid_text(voted.directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> QuorumState:
    """What the file says; ValueError when it is damaged or of a later version."""
    fields = json.loads(data)
    if not isinstance(fields, dict) or fields.get("data_version") not in (0, 1):
        raise ValueError("quorum-state is of a version that is not known")
    try:
        voted_id = int(fields["votedId"])
        directory = fields.get("votedDirectoryId")
        voted = ReplicaKey(voted_id, ZERO_UUID if directory is None else uuid_from_text(directory))
        return QuorumState(
            epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted=None if voted_id < 0 else voted,
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"quorum-state is damaged: {error}") from error
