"""``ottla acls`` and ``ottla users`` against a secured broker of ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.command import Command

from ottla.cli.main import cli
from ottla.config.authorizer import STANDARD_AUTHORIZER
from ottla.config.properties import format_properties
from ottla.testing.broker import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(security="sasl_ssl", config={"authorizer.class.name": STANDARD_AUTHORIZER}) as made:
        yield made


class As(Command):
    """Runs commands as a user."""

    def __init__(self, broker: Broker, directory: Path, user: str) -> None:
        super().__init__(broker.bootstrap_servers)
        self.file = directory / f"{user}.properties"
        self.file.write_text(format_properties(broker.client_properties(user)))

    def __call__(self, *words: str, code: int = 0, stdin: str | bytes = "") -> tuple[str, str]:
        return super().__call__(*words, "--command-config", str(self.file), code=code, stdin=stdin)


@pytest.fixture
def admin(broker: Broker, tmp_path: Path) -> As:
    return As(broker, tmp_path, "admin")


@pytest.fixture
def alice(broker: Broker, tmp_path: Path) -> As:
    return As(broker, tmp_path, "alice")


def test_acls_are_added_listed_asked_and_removed(admin: As, alice: As) -> None:
    admin.out("topics", "create", "orders", "orders-eu")
    assert alice.document("topics", "list")["topics"] == []
    role = ("--allow-principal", "alice", "--consumer", "--topic", "orders", "--group", "g")
    dry = admin.document("acls", "add", *role, "--dry-run")["added"]
    assert {(each["operation"], each["resource"]) for each in dry} == {
        ("read", "topic"),
        ("describe", "topic"),
        ("read", "group"),
    }
    assert all(each["dry_run"] for each in dry)
    assert admin.document("acls", "list")["acls"] == []
    added = admin.document("acls", "add", *role, "--prefixed")["added"]
    assert {each["pattern"] for each in added} == {"prefixed"}
    names = [each["name"] for each in alice.document("topics", "list")["topics"]]
    assert names == ["orders", "orders-eu"]

    allowed = admin.document("acls", "check", "alice", "read", "--topic", "orders-eu")
    assert allowed["decisions"][0]["allowed"] is True
    denied = admin.document("acls", "check", "alice", "write", "--topic", "orders", code=1)
    assert denied["decisions"][0]["by"] == "no ACL"

    admin.out("acls", "add", "--deny-principal", "User:alice", "--operation", "read",
              "--topic", "orders-eu")  # fmt: skip
    denied = admin.document("acls", "check", "User:alice", "read", "--topic", "orders-eu", code=1)
    assert "deny" in denied["decisions"][0]["by"]
    assert len(admin.document("acls", "list", "--topic", "orders-eu")["acls"]) == 3
    assert len(admin.document("acls", "list", "--topic", "orders-eu", "--exact")["acls"]) == 1
    table = admin.out("acls", "list", "--principal", "alice")
    assert table.splitlines()[0].split()[:3] == ["PRINCIPAL", "PERMISSION", "OPERATION"]

    _, said = admin("acls", "remove", "--principal", "alice", code=2)
    assert "-y says yes" in said
    whole = admin.document("acls", "remove", "--principal", "alice", "--dry-run")["removed"]
    assert len(whole) == 4
    gone = admin.document("acls", "remove", "--topic", "orders-eu", "--operation", "read", "-y")
    assert [each["permission"] for each in gone["removed"]] == ["deny"]
    assert len(admin.document("acls", "remove", "--principal", "alice", "-y")["removed"]) == 3
    assert admin.document("acls", "list")["acls"] == []
    assert "nothing was removed" in admin("acls", "remove", "--principal", "alice", "-y")[1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "--topic", "t", "--operation", "read"), "name somebody"),
        (("add", "--allow-principal", "a", "--operation", "read"), "name a resource"),
        (("add", "--allow-principal", "a", "--topic", "t"), "--producer or --consumer"),
        (("add", "--allow-principal", "a", "--topic", "t", "--consumer"), "--topic and --group"),
        (("add", "--allow-principal", "a", "--group", "t", "--producer"), "--producer needs"),
        (("add", "--allow-principal", "a:", "--topic", "t"), "is no principal"),
        (("remove", "-y"), "say whose or which"),
        (("check", "a", "read"), "name a resource"),
    ],
)
def test_acls_that_cannot_be_meant_are_refused(words: tuple[str, ...], said: str) -> None:
    result = CliRunner().invoke(cli, ["acls", *words])
    assert result.exit_code == 2
    assert said in result.stderr


def test_who_may_not_is_told_so(alice: As) -> None:
    for words in (("acls", "list"), ("users", "list")):
        assert "CLUSTER_AUTHORIZATION_FAILED" in alice.out(*words, "--json", code=1)


def test_users_are_added_listed_given_passwords_and_removed(
    broker: Broker, admin: As, tmp_path: Path
) -> None:
    def add(password: str, *words: str, code: int = 0) -> tuple[str, str]:
        return admin("users", *words, "--password-file", "-", stdin=f"{password}\n", code=code)

    both = ("--mechanism", "SCRAM-SHA-256", "--mechanism", "scram-sha-512")
    out, _ = add("first-secret", "add", "carol", *both)
    assert "first-secret" not in out
    assert "there is a user carol" in add("x", "add", "carol", code=1)[1]
    listed = admin.document("users", "list", "carol")["users"]
    assert [each["mechanism"] for each in listed] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]

    carol = As(broker, tmp_path, "alice")

    def log_in(password: str, code: int = 0) -> None:
        carol.file.write_text(
            format_properties(
                {
                    **broker.client_properties(),
                    "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule "
                    f'required username="carol" password="{password}";',
                }
            )
        )
        carol("topics", "list", code=code)

    log_in("first-secret")
    add("second-secret", "set-password", "carol")
    log_in("second-secret")
    log_in("first-secret", code=1)
    assert "there is no user nobody" in add("x", "set-password", "nobody", code=1)[1]

    assert "-y says yes" in admin("users", "remove", "carol", code=2)[1]
    dry = admin.document("users", "remove", "carol", "--dry-run")["removed"]
    assert [each["dry_run"] for each in dry] == [True, True]
    gone = admin.document("users", "remove", "carol", "nobody", "-y", code=1)
    assert len(gone["removed"]) == 2
    assert gone["errors"][0]["user"] == "nobody"
    assert "there is no such user" in admin("users", "list", "carol", code=1)[1]
    log_in("second-secret", code=1)


def test_a_password_is_never_an_argument(admin: As) -> None:
    assert "--password-file" in admin("users", "add", "dave", code=2)[1]
    assert "empty" in admin("users", "add", "dave", "--password-file", "-", stdin="\n", code=2)[1]
