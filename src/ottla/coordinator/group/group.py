"""What every kind of group answers, whatever its protocol.

The kinds differ in how members join and who assigns; offsets, lists and deletion treat them alike.
"""

from enum import Enum
from typing import NamedTuple, Protocol


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
        *,
        is_transactional: bool = False,
    ) -> None:
        """Raise unless this member, or nobody in particular, may commit now.

        Who commits within a transaction need not be a member: older clients do not say it.
        """
        ...

    def check_offset_delete(self) -> None: ...

    def check_delete(self) -> None: ...

    def is_subscribed_to(self, topic: str) -> bool: ...

    def expiry_base_ms(self, commit_timestamp_ms: int) -> int | None:
        """From when the retention of an offset counts; None when it must not expire now."""
        ...
