"""Who votes: the voter set of the quorum, fixed by the configuration or kept in the log.

With ``kraft.version`` 0 the voters stand in ``controller.quorum.voters`` and have no directory id;
with 1 they stand in VotersRecords of the log and its snapshots (KIP-853), the first of them in the
snapshot ``00000000000000000000-0000000000.checkpoint`` that formatting writes.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.common.identifiers import ZERO_UUID
from ottla.config.endpoints import Voter as StaticVoter
from ottla.protocol.generated.voters_record import (
    Endpoint,
    KRaftVersionFeature,
    Voter,
    VotersRecord,
)

KRAFT_VERSION_MAX: Final = 1


class ReplicaKey(NamedTuple):
    """A node and the directory that its log is in; a zero id where that is not known."""

    node_id: int
    directory_id: bytes = ZERO_UUID


class VoterEndpoint(NamedTuple):
    name: str
    host: str
    port: int


class VoterNode(NamedTuple):
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    kraft_versions: tuple[int, int] = (0, KRAFT_VERSION_MAX)


class VoterSet:
    """Voters by node id; never empty, never changed."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[VoterNode]) -> None:
        self._voters = {voter.key.node_id: voter for voter in voters}
        assert self._voters

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(self._voters))

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    @property
    def majority(self) -> int:
        return len(self._voters) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether ``key`` is one of them; an unknown directory id on either side matches any."""
        voter = self._voters.get(key.node_id)
        if voter is None:
            return False
        directories = (voter.key.directory_id, key.directory_id)
        return ZERO_UUID in directories or directories[0] == directories[1]

    def is_only_voter(self, key: ReplicaKey) -> bool:
        return len(self._voters) == 1 and self.is_voter(key)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                Voter(
                    voter_id=voter.key.node_id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        Endpoint(name=e.name, host=e.host, port=e.port) for e in voter.endpoints
                    ],
                    k_raft_version_feature=KRaftVersionFeature(
                        min_supported_version=voter.kraft_versions[0],
                        max_supported_version=voter.kraft_versions[1],
                    ),
                )
                for voter in self
            ],
        )


def voters_from_record(record: VotersRecord) -> VoterSet:
    return VoterSet(
        VoterNode(
            ReplicaKey(voter.voter_id, voter.voter_directory_id),
            tuple(VoterEndpoint(e.name, e.host, e.port) for e in voter.endpoints),
            (
                voter.k_raft_version_feature.min_supported_version,
                voter.k_raft_version_feature.max_supported_version,
            ),
        )
        for voter in record.voters
    )


def static_voters(voters: Iterable[StaticVoter], listener_name: str) -> VoterSet:
    """The voters of ``controller.quorum.voters``."""
    return VoterSet(
        VoterNode(ReplicaKey(node_id), (VoterEndpoint(listener_name, host, port),), (0, 0))
        for node_id, host, port in voters
    )
