"""What every kind of group answers, whatever its protocol.

The kinds differ in how members join and who assigns; offsets, lists and deletion treat them alike.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.coordinator.group.records import GroupRecord

MEMBER_EPOCH_FROM: Final = 9
"""From this version of OffsetCommit on a member can name its epoch (KIP-848)."""


class GroupType(Enum):
    """The kinds of groups, by the names that ListGroups gives them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class Caller(NamedTuple):
    """Who asks, and in which version of the API."""

    version: int
    client_id: str
    client_host: str
    may_describe: Callable[[str], bool] | None = None
    """Of which topics it may hear; None for all."""


class Group(Protocol):
    @property
    def group_id(self) -> str: ...

    @property
    def group_type(self) -> GroupType: ...

    @property
    def protocol_type(self) -> str | None:
        """What its members agree about, "consumer" for consumers; None when it has none."""
        ...

    @property
    def state_name(self) -> str: ...

    @property
    def is_empty(self) -> bool: ...

    def check_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        version: int = MEMBER_EPOCH_FROM,
        *,
        is_transactional: bool = False,
    ) -> None:
        """Raise unless this member, or nobody in particular, may commit now.

        A client that commits within a transaction need not be a member: older clients do not say
        it. ``version`` is that of OffsetCommit, where that is used.
        """
        ...

    def check_partition_commit(
        self, member_id: str, generation_id: int, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Raise unless a member that may commit may do so for this partition."""
        ...

    def check_offset_fetch(self, member_id: str | None, epoch: int) -> None:
        """Raise unless a member of this id and epoch may ask; without both, anybody may."""
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def tombstones(self) -> list[GroupRecord]:
        """What is to be written when the group is gone."""
        ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; None when it must not expire now."""
        ...
