"""Delegation tokens by their id; the secret itself is never in the log."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

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
        merged = {**self.base, **self.changed}
        return {token_id: token for token_id, token in merged.items() if token is not None}


def delegation_tokens_to_records(tokens: DelegationTokensImage) -> list[DelegationTokenRecord]:
    return [
        DelegationTokenRecord(
            owner=token.owner,
            requester=token.requester,
            renewers=list(token.renewers),
            issue_timestamp=token.issue_timestamp,
            max_timestamp=token.max_timestamp,
            expiration_timestamp=token.expiration_timestamp,
            token_id=token_id,
        )
        for token_id, token in tokens.items()
    ]
