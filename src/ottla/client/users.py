"""Users that log in by SCRAM: who there are, and their passwords, which are sent salted only."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import SomeRefused, refusal
from ottla.common.chance import Chance
from ottla.common.errors import ApiError, ErrorCode
from ottla.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.generated.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from ottla.security.scram import SALT_BYTES, ScramMechanism


class ScramUser(NamedTuple):
    """A user and one of the mechanisms that it may log in by."""

    name: str
    mechanism: ScramMechanism
    iterations: int


class NewPassword(NamedTuple):
    name: str
    mechanism: ScramMechanism
    password: str
    iterations: int

    def __repr__(self) -> str:
        return f"NewPassword({self.name}, {self.mechanism.mechanism_name}, [hidden])"


def list_users(cluster: Cluster, names: Iterable[str] | None = None) -> list[ScramUser]:
    """All, or those that are named; a name that nobody has is passed over."""
    asked = None if names is None else [UserName(name=name) for name in dict.fromkeys(names)]
    response = cluster.ask_again(
        DescribeUserScramCredentialsRequest(users=asked),
        DescribeUserScramCredentialsResponse,
        failed=lambda answer: (
            refusal(answer.error_code, answer.error_message) if answer.error_code else None
        ),
    )
    found: list[ScramUser] = []
    refused: dict[str, ApiError] = {}
    for result in response.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        if result.error_code:
            refused[result.user] = refusal(result.error_code, result.error_message)
        found += [
            ScramUser(result.user, ScramMechanism(each.mechanism), each.iterations)
            for each in result.credential_infos
        ]
    if refused:
        raise SomeRefused(refused, {})
    return sorted(found)


def set_passwords(cluster: Cluster, wanted: Sequence[NewPassword], chance: Chance) -> None:
    """Of users that there are, or that begin to be; one after another.

    A request takes a user once, whatever the mechanisms.
    """
    for each in wanted:
        salt = chance.bytes(SALT_BYTES)
        salted = each.mechanism.salted_password(each.password.encode(), salt, each.iterations)
        upsertion = ScramCredentialUpsertion(
            name=each.name,
            mechanism=each.mechanism,
            iterations=each.iterations,
            salt=salt,
            salted_password=salted,
        )
        _alter(cluster, AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def delete_users(cluster: Cluster, gone: Iterable[ScramUser]) -> None:
    """They can no longer log in by these mechanisms; who is logged in stays so."""
    for each in gone:
        deletion = ScramCredentialDeletion(name=each.name, mechanism=each.mechanism)
        _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion]))


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    response = cluster.ask_again(request, AlterUserScramCredentialsResponse)
    refused = {
        result.user: refusal(result.error_code, result.error_message)
        for result in response.results
        if result.error_code
    }
    if refused:
        done = {each.user: None for each in response.results if each.user not in refused}
        raise SomeRefused(refused, done)
