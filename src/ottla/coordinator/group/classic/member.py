"""A member of a classic group, and the requests of its that wait."""

from collections.abc import Collection

from ottla.common.promise import Promise
from ottla.protocol.generated.describe_groups import DescribedGroupMember
from ottla.protocol.generated.group_records import MemberMetadata
from ottla.protocol.generated.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.protocol.generated.sync_group import SyncGroupResponse


class ClassicMember:
    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: dict[str, bytes],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        """What it can do, the liked ones first; the metadata of a consumer is its subscription."""
        self.assignment = assignment
        self.is_new = False
        """It joined, but has seen no generation yet."""
        self.awaiting_join: Promise[JoinGroupResponse] | None = None
        self.awaiting_sync: Promise[SyncGroupResponse] | None = None

    @classmethod
    def from_record(cls, record: MemberMetadata, protocol: str | None) -> "ClassicMember":
        rebalance_timeout_ms = record.rebalance_timeout
        if rebalance_timeout_ms == -1:
            rebalance_timeout_ms = record.session_timeout
        return cls(
            member_id=record.member_id,
            instance_id=record.group_instance_id,
            client_id=record.client_id,
            client_host=record.client_host,
            rebalance_timeout_ms=rebalance_timeout_ms,
            session_timeout_ms=record.session_timeout,
            protocols={protocol or "": record.subscription},
            assignment=record.assignment,
        )

    def to_record(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.protocols[protocol or ""],
            assignment=assignment,
        )

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_excused(self) -> bool:
        """Whether it need not send heartbeats, because we owe it an answer.

        Not so while it is new: it may have given up its connection without our knowing.
        """
        if self.is_new:
            return False
        return self.awaiting_join is not None or self.awaiting_sync is not None

    def vote(self, candidates: Collection[str]) -> str:
        """The one of ``candidates`` that it likes best; each member knows all of them."""
        return next(name for name in self.protocols if name in candidates)

    def has_protocols(self, protocols: dict[str, bytes]) -> bool:
        """Whether these are its protocols, in the same order."""
        return list(self.protocols.items()) == list(protocols.items())

    def for_leader(self, protocol: str) -> JoinGroupResponseMember:
        return JoinGroupResponseMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            metadata=self.protocols[protocol],
        )

    def describe(self, protocol: str | None) -> DescribedGroupMember:
        """Without a protocol there is a rebalance, and what it had tells nothing."""
        described = DescribedGroupMember(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
        )
        if protocol is not None:
            described.member_metadata = self.protocols[protocol]
            described.member_assignment = self.assignment
        return described
