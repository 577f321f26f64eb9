"""Delegation tokens by their id; the secret itself is never in the log."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ottla.metadata.layered_map import changed_map
from ottla.protocol.generated.metadata_records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)


class DelegationToken(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int


DelegationTokensImage: TypeAlias = Mapping[str, DelegationToken]


class DelegationTokensDelta:
    __slots__ = ("base", "changed")

    def __init__(self, base: DelegationTokensImage) -> None:
        self.base = base
        self.changed: dict[str, DelegationToken | None] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def replay(self, record: DelegationTokenRecord) -> None:
        self.changed[record.token_id] = DelegationToken(
            record.owner,
            record.requester,
            tuple(record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
        )

    def replay_remove(self, record: RemoveDelegationTokenRecord) -> None:
        self.changed[record.token_id] = None

    def apply(self) -> DelegationTokensImage:
        if not self.changed:
            return self.base
        changed = {token_id: token for token_id, token in self.changed.items() if token is not None}
        gone = {
            token_id: None
            for token_id, token in self.changed.items()
            if token is None and token_id in self.base
        }
        return changed_map(self.base, changed, gone)


def delegation_tokens_to_records(tokens: DelegationTokensImage) -> list[DelegationTokenRecord]:
    return [delegation_token_to_record(token_id, token) for token_id, token in tokens.items()]


def delegation_token_to_record(token_id: str, token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=token.expiration_timestamp,
        token_id=token_id,
    )
