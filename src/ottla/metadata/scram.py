"""SCRAM credentials of users, by mechanism."""

from collections.abc import Mapping
from typing import TypeAlias

from ottla.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.security.scram import ScramCredential

ScramImage: TypeAlias = Mapping[tuple[int, str], ScramCredential]
"""By mechanism (1 SCRAM-SHA-256, 2 SCRAM-SHA-512) and user."""


class ScramDelta:
    __slots__ = ("base", "changed")

    def __init__(self, base: ScramImage) -> None:
        self.base = base
        self.changed: dict[tuple[int, str], ScramCredential | None] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def replay(self, record: UserScramCredentialRecord) -> None:
        self.changed[record.mechanism, record.name] = ScramCredential(
            record.salt, record.stored_key, record.server_key, record.iterations
        )

    def replay_remove(self, record: RemoveUserScramCredentialRecord) -> None:
        self.changed[record.mechanism, record.name] = None

    def apply(self) -> ScramImage:
        if not self.changed:
            return self.base
        merged = {**self.base, **self.changed}
        return {key: value for key, value in merged.items() if value is not None}


def scram_to_records(scram: ScramImage) -> list[UserScramCredentialRecord]:
    return [
        UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
        for (mechanism, user), credential in scram.items()
    ]
