"""The quorum-state file, as Apache Kafka 4.3.1 writes it for both versions of the quorum."""

import pytest

from ottla.raft.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from ottla.raft.voters import ReplicaKey

DIRECTORY = bytes(range(16))
STATIC = (
    b'{"clusterId":"","leaderId":3,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":3}],"data_version":0}'
)
DYNAMIC = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


def test_a_static_quorum_writes_version_0() -> None:
    state = QuorumState(epoch=1, leader_id=3)
    assert encode_quorum_state(state, kraft_version=0, voter_ids=[3]) == STATIC
    assert decode_quorum_state(STATIC) == state


def test_a_dynamic_quorum_writes_version_1() -> None:
    state = QuorumState(epoch=2, leader_id=1)
    assert encode_quorum_state(state, kraft_version=1, voter_ids=[1]) == DYNAMIC
    assert decode_quorum_state(DYNAMIC) == state


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_a_vote_is_remembered(kraft_version: int) -> None:
    state = QuorumState(epoch=9, voted=ReplicaKey(7, DIRECTORY if kraft_version else bytes(16)))
    data = encode_quorum_state(state, kraft_version=kraft_version, voter_ids=[7, 8])
    assert decode_quorum_state(data) == state


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"{}", b'{"data_version":2}', b'{"data_version":1}', STATIC[:-20] + b"}"],
)
def test_a_damaged_or_later_file_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode_quorum_state(data)
