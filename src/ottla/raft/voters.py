"""Who votes: the voter set of the quorum, fixed by the configuration or kept in the log.

With ``kraft.version`` 0 the voters stand in ``controller.quorum.voters`` and have no directory id;
with 1 they stand in VotersRecords of the log and its snapshots (KIP-853), the first of them in the
snapshot ``00000000000000000000-0000000000.checkpoint`` that formatting writes.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla.common.identifiers import ZERO_UUID, uuid_text
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

    def __str__(self) -> str:
        """As Kafka writes it in its refusals."""
        known = self.directory_id != ZERO_UUID
        directory = uuid_text(self.directory_id) if known else "<undefined>"
        return f"ReplicaKey(id={self.node_id}, directoryId={directory})"


class VoterEndpoint(NamedTuple):
    name: str
    host: str
    port: int


class LeaderInfo(NamedTuple):
    """An epoch and who leads it, as somebody tells it; -1 for nobody that is known."""

    epoch: int
    leader_id: int = -1
    endpoints: tuple[VoterEndpoint, ...] = ()
    """Empty where it is not said; the voter set may know them."""


class VoterNode(NamedTuple):
    key: ReplicaKey
    endpoints: tuple[VoterEndpoint, ...]
    kraft_versions: tuple[int, int] = (0, KRAFT_VERSION_MAX)


class VoterSet:
    """Voters by node id; never changed. Empty only where nobody has told us of them yet."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[VoterNode]) -> None:
        self._voters = {voter.key.node_id: voter for voter in voters}

    def __iter__(self) -> Iterator[VoterNode]:
        return iter(self._voters.values())

    def __len__(self) -> int:
        return len(self._voters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(self._voters))

    def __repr__(self) -> str:
        return f"VoterSet({list(self._voters.values())})"

    @property
    def ids(self) -> list[int]:
        return list(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        return [voter.key for voter in self]

    def get(self, node_id: int) -> VoterNode | None:
        return self._voters.get(node_id)

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

    def others(self, key: ReplicaKey) -> list[ReplicaKey]:
        return [each for each in self.keys if each.node_id != key.node_id]

    def endpoints_of(self, node_id: int) -> tuple[VoterEndpoint, ...]:
        voter = self._voters.get(node_id)
        return () if voter is None else voter.endpoints

    # Each change is of one voter, so that every two majorities, before and after, overlap.

    def with_voter(self, voter: VoterNode) -> "VoterSet":
        assert voter.key.node_id not in self._voters
        return VoterSet([*self, voter])

    def without(self, key: ReplicaKey) -> "VoterSet | None":
        """The others; None when ``key`` is no voter, or the last one."""
        voter = self._voters.get(key.node_id)
        if voter is None or voter.key != key or len(self) == 1:
            return None
        return VoterSet(each for each in self if each.key != key)

    def updated(self, voter: VoterNode) -> "VoterSet | None":
        """With other endpoints or versions for the same key; None when it is no voter."""
        if not self.is_voter(voter.key):
            return None
        node_id = voter.key.node_id
        return VoterSet(voter if each.key.node_id == node_id else each for each in self)

    def stated(self, voter: VoterNode) -> "VoterSet | None":
        """With what a voter says of itself, whatever its directory; None when it is no voter."""
        if voter.key.node_id not in self._voters:
            return None
        return VoterSet(voter if each.key.node_id == voter.key.node_id else each for each in self)

    def support(self, kraft_version: int) -> bool:
        """Whether all of them know the version, and the directory of each is known."""
        return all(
            voter.kraft_versions[0] <= kraft_version <= voter.kraft_versions[1]
            and voter.key.directory_id != ZERO_UUID
            for voter in self
        )

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
