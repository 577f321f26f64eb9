"""AlterUserScramCredentials; texts are those of Apache Kafka 4.3.1."""

import pytest
from tests.controller.machines import Controller, error

from ottla.protocol.generated.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.generated.metadata_records import RemoveUserScramCredentialRecord
from ottla.security.scram import ScramMechanism, credential_of

SHA_256, SHA_512 = ScramMechanism
OK = ("NONE", None)
NOT_THERE = "Attempt to delete a user credential that does not exist"


def given(
    name: str, mechanism: int = SHA_256, iterations: int = 4096, salted: bytes = b"salted"
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def taken(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    controller: Controller, *entries: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[str, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in entries if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in entries if isinstance(each, ScramCredentialUpsertion)],
    )
    response = controller.apply(controller.machine.scram.alter_credentials(request))
    return {each.user: error(each.error_code, each.error_message) for each in response.results}


def test_a_password_is_given_changed_and_taken_away() -> None:
    controller = Controller()
    assert alter(controller, given("alice"), given("bob", SHA_512)) == {"alice": OK, "bob": OK}
    assert controller.image.scram == {
        (SHA_256, "alice"): credential_of(SHA_256, b"salted", b"salt", 4096),
        (SHA_512, "bob"): credential_of(SHA_512, b"salted", b"salt", 4096),
    }
    assert alter(controller, given("alice", iterations=8192, salted=b"other")) == {"alice": OK}
    changed = credential_of(SHA_256, b"other", b"salt", 8192)
    assert controller.image.scram[SHA_256, "alice"] == changed
    assert alter(controller, taken("alice")) == {"alice": OK}
    assert set(controller.image.scram) == {(SHA_512, "bob")}
    assert controller.records[-1] == RemoveUserScramCredentialRecord(name="alice", mechanism=1)


def test_the_password_itself_is_not_written() -> None:
    controller = Controller()
    alter(controller, given("alice", salted=b"very secret"))
    assert "very secret" not in repr(controller.records)


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        (given("alice", iterations=4095), "UNACCEPTABLE_CREDENTIAL", "Too few iterations"),
        (given("alice", iterations=16385), "UNACCEPTABLE_CREDENTIAL", "Too many iterations"),
        (given(""), "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        (given("alice", 0), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        (given("alice", 3), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        (taken(""), "UNACCEPTABLE_CREDENTIAL", "Username must not be empty"),
        (taken("alice", 9), "UNSUPPORTED_SASL_MECHANISM", "Unknown SCRAM mechanism"),
        (taken("alice"), "RESOURCE_NOT_FOUND", NOT_THERE),
        (taken("bob", SHA_512), "RESOURCE_NOT_FOUND", NOT_THERE),
    ],
)
def test_what_is_refused(
    entry: ScramCredentialUpsertion | ScramCredentialDeletion, code: str, words: str
) -> None:
    controller = Controller()
    alter(controller, given("bob"))
    before = len(controller.records)
    found = alter(controller, entry, given("carol"))
    assert found == {entry.name: (code, words), "carol": OK}
    assert len(controller.records) == before + 1


def test_a_user_stands_in_a_request_once() -> None:
    controller = Controller()
    twice = ("DUPLICATE_RESOURCE", "A user credential cannot be altered twice in the same request")
    assert alter(controller, given("a"), given("a", SHA_512), given("b")) == {"a": twice, "b": OK}
    assert set(controller.image.scram) == {(SHA_256, "b")}
    assert alter(controller, given("b"), taken("b")) == {"b": twice}


def test_an_old_cluster_has_no_users() -> None:
    controller = Controller()
    controller.machine.state.image = controller.image.__class__()
    code, words = alter(controller, given("alice"))["alice"]
    assert code == "UNSUPPORTED_VERSION"
    assert words == "The current metadata version does not support SCRAM"
