"""AlterUserScramCredentials: what is kept of users' passwords (KIP-554).

The client sends the salted password; the keys that it is checked by are made here, and only they
are written. All entries of a user are made or none.
"""

from typing import Final

from ottla.common.errors import (
    ApiError,
    DuplicateResource,
    ResourceNotFound,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from ottla.controller.result import ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.generated.metadata_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from ottla.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    credential_of,
)

_MECHANISMS: Final = frozenset(ScramMechanism)
_Entry = ScramCredentialDeletion | ScramCredentialUpsertion


class ScramManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def alter_credentials(
        self, request: AlterUserScramCredentialsRequest
    ) -> ControllerResult[AlterUserScramCredentialsResponse]:
        made: dict[str, MetadataRecord | ApiError] = {}
        entries: list[_Entry] = [*request.deletions, *request.upsertions]
        for entry in entries:
            known = made.get(entry.name)
            if known is None:
                made[entry.name] = self._made(entry)
            elif not isinstance(known, ApiError):
                made[entry.name] = DuplicateResource(
                    "A user credential cannot be altered twice in the same request"
                )
        records: list[MetadataRecord] = []
        response = AlterUserScramCredentialsResponse()
        for name, outcome in made.items():
            result = AlterUserScramCredentialsResult(user=name, error_message=None)
            if isinstance(outcome, ApiError):
                result.error_code = outcome.code
                result.error_message = outcome.message
            else:
                records.append(outcome)
            response.results.append(result)
        check_records(records)
        return ControllerResult(response, records)

    def _made(self, entry: _Entry) -> MetadataRecord | ApiError:
        try:
            self._check(entry.name, entry.mechanism)
            if isinstance(entry, ScramCredentialDeletion):
                return self._deleted(entry)
            return _upserted(entry)
        except ApiError as error:
            return error

    def _check(self, name: str, mechanism: int) -> None:
        if not versions.scram_supported(self._state.metadata_version):
            raise UnsupportedVersion("The current metadata version does not support SCRAM")
        if not name:
            raise UnacceptableCredential("Username must not be empty")
        if mechanism not in _MECHANISMS:
            raise UnsupportedSaslMechanism("Unknown SCRAM mechanism")

    def _deleted(self, entry: ScramCredentialDeletion) -> MetadataRecord:
        if (entry.mechanism, entry.name) not in self._state.image.scram:
            raise ResourceNotFound("Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(name=entry.name, mechanism=entry.mechanism)


def _upserted(entry: ScramCredentialUpsertion) -> MetadataRecord:
    if entry.iterations < ITERATIONS_MIN:
        raise UnacceptableCredential("Too few iterations")
    if entry.iterations > ITERATIONS_MAX:
        raise UnacceptableCredential("Too many iterations")
    return scram_record(
        entry.name,
        ScramMechanism(entry.mechanism),
        entry.salted_password,
        entry.salt,
        entry.iterations,
    )


def scram_record(
    name: str, mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> UserScramCredentialRecord:
    credential = credential_of(mechanism, salted_password, salt, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism,
        salt=salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=iterations,
    )
