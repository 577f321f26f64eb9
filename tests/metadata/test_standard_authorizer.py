"""Decisions by ACLs: what a model that follows the definition says, and rules one by one."""

import logging
from collections.abc import Mapping
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.turns import virtual_time

from ottla.common.authorization import (
    ANONYMOUS,
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
)
from ottla.common.errors import ApiError, ErrorCode, InvalidConfig
from ottla.config.authorizer import (
    STANDARD_AUTHORIZER,
    AuthorizerSettings,
    authorizer_settings,
)
from ottla.metadata.acls import AclImage
from ottla.metadata.audit import LOGGER, Audit
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.standard_authorizer import StandardAuthorizer
from ottla.observability.metrics import Gauge, Registry

ALICE = Principal("User", "alice")
HOST = "10.0.0.9"


class Asking:
    """A client."""

    client_id = "c"
    request_name = "Produce"

    def __init__(self, principal: Principal = ALICE, peer_host: str = HOST) -> None:
        self.principal = principal
        self.peer_host = peer_host


def acl(
    name: str = "t",
    operation: AclOperation = AclOperation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    pattern: PatternType = PatternType.LITERAL,
    resource_type: ResourceType = ResourceType.TOPIC,
    principal: str = "User:alice",
    host: str = "*",
) -> AclImage:
    return AclImage(resource_type, name, pattern, principal, host, operation, permission)


def with_acls(
    *acls: AclImage, super_users: str = "", allow_everyone: bool = False
) -> StandardAuthorizer:
    found = StandardAuthorizer(
        AuthorizerSettings(frozenset(filter(None, super_users.split(";"))), allow_everyone),
        Audit(virtual_time(1).call_later),
    )
    found.loaded()
    change(found, {bytes([number]): each for number, each in enumerate(acls)})
    return found


def change(authorizer: StandardAuthorizer, changed: Mapping[bytes, AclImage | None]) -> None:
    delta = MetadataDelta(MetadataImage())
    delta.acls.changed.update(changed)
    authorizer.changed(MetadataImage(), delta)


def may(
    authorizer: StandardAuthorizer,
    operation: AclOperation = AclOperation.READ,
    name: str = "t",
    client: Asking | None = None,
    resource_type: ResourceType = ResourceType.TOPIC,
) -> bool:
    return authorizer.allows(client or Asking(), operation, resource_type, name)


def figure(authorizer: StandardAuthorizer, name: str) -> float:
    registry = Registry()
    authorizer.register(registry)
    (found,) = (registry.get(key) for key in registry.names() if key.attribute == name)
    return found.read() if isinstance(found, Gauge) else getattr(found, "value", -1)


# The definition, without any thought for its cost


def model_matches(found: AclImage, client: Asking, operation: AclOperation) -> bool:
    implied = {
        AclOperation.DESCRIBE: {
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
        },
        AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
    }
    operations: set[int] = {operation, AclOperation.ALL}
    if found.permission_type == Permission.ALLOW:
        operations |= implied.get(operation, set())
    return (
        found.principal in (str(client.principal), "User:*")
        and found.host in (client.peer_host, "*")
        and found.operation in operations
    )


def model_applies(found: AclImage, resource_type: int, name: str) -> bool:
    if found.resource_type != resource_type:
        return False
    if found.pattern_type == PatternType.PREFIXED:
        return name.startswith(found.resource_name)
    return found.resource_name in (name, "*")


def model_allows(
    acls: list[AclImage], client: Asking, operation: AclOperation, name: str, *, everyone: bool
) -> bool:
    applying = [each for each in acls if model_applies(each, ResourceType.TOPIC, name)]
    if not applying:
        return everyone
    matching = [each for each in applying if model_matches(each, client, operation)]
    permissions = {each.permission_type for each in matching}
    return Permission.DENY not in permissions and Permission.ALLOW in permissions


def model_allows_any(acls: list[AclImage], client: Asking, operation: AclOperation) -> bool:
    """By each name that could make a difference: one that an ACL has, or goes on with."""
    concerned = [
        each
        for each in acls
        if each.resource_type == ResourceType.TOPIC
        and each.principal in (str(client.principal), "User:*")
        and each.host in (client.peer_host, "*")
        and each.operation in (operation, AclOperation.ALL)
    ]
    everything = (PatternType.LITERAL, "*")
    patterns = {(each.pattern_type, each.resource_name) for each in concerned}
    names = {name for pattern_type, name in patterns if (pattern_type, name) != everything}
    names |= {name + "~" for name in names} | {"~"}
    for name in names:
        permissions = {
            each.permission_type
            for each in concerned
            if model_applies(each, ResourceType.TOPIC, name)
        }
        if permissions == {Permission.ALLOW}:
            return True
    return False


NAMES = st.text("ab*", min_size=1, max_size=4)
OPERATIONS = st.sampled_from([each for each in AclOperation if each > AclOperation.ALL])
ACLS = st.builds(
    AclImage,
    st.sampled_from([ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP]),
    NAMES,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*", "Other:alice"]),
    st.sampled_from(["*", HOST, "10.0.0.1"]),
    st.one_of(st.just(AclOperation.ALL), OPERATIONS),
    st.sampled_from([Permission.ALLOW, Permission.ALLOW, Permission.DENY]),
)
CHANGES = st.lists(
    st.dictionaries(st.binary(min_size=1, max_size=1), st.none() | ACLS, max_size=6), max_size=5
)


@given(changes=CHANGES, asked=st.lists(st.tuples(OPERATIONS, NAMES), min_size=1), everyone=...)
@settings(max_examples=400)
def test_decisions_are_those_of_the_definition_after_any_changes(
    changes: list[dict[bytes, AclImage | None]],
    asked: list[tuple[AclOperation, str]],
    everyone: bool,
) -> None:
    authorizer = with_acls(allow_everyone=everyone)
    acls: dict[bytes, AclImage | None] = {}
    for changed in changes:
        change(authorizer, changed)
        acls.update(changed)
        there = [each for each in acls.values() if each is not None]
        assert figure(authorizer, "acls-total-count") == len(there)
        for client in (Asking(), Asking(Principal("User", "bob"), "10.0.0.1")):
            for operation, name in asked:
                wanted = model_allows(there, client, operation, name, everyone=everyone)
                assert may(authorizer, operation, name, client) == wanted, (operation, name)


@given(acls=st.lists(ACLS, max_size=8))
@settings(max_examples=400)
def test_something_of_a_type_may_be_done_when_some_name_may(acls: list[AclImage]) -> None:
    authorizer = with_acls(*acls)
    wanted = model_allows_any(acls, Asking(), AclOperation.WRITE)
    assert authorizer.allows_any(Asking(), AclOperation.WRITE, ResourceType.TOPIC) == wanted


# Rules one by one


def test_without_an_acl_nothing_is_allowed() -> None:
    assert not may(with_acls())


def test_a_super_user_may_do_what_is_denied() -> None:
    denied = acl(permission=Permission.DENY, operation=AclOperation.ALL, principal="User:*")
    authorizer = with_acls(denied, super_users="User:alice")
    assert may(authorizer)
    assert authorizer.allows_any(Asking(), AclOperation.WRITE, ResourceType.TOPIC)
    assert not may(authorizer, client=Asking(Principal("Other", "alice")))


def test_a_delegation_token_has_the_rights_of_its_owner() -> None:
    assert may(with_acls(acl()), client=Asking(Principal("User", "alice", True)))


def test_what_is_denied_goes_before_what_is_allowed() -> None:
    assert not may(with_acls(acl(), acl(permission=Permission.DENY, principal="User:*")))
    assert not may(
        with_acls(acl(), acl("*", AclOperation.ALL, Permission.DENY, host=HOST)),
    )


def test_a_denied_reader_may_still_describe_but_for_a_denial_of_that() -> None:
    denied = acl(permission=Permission.DENY)
    allowed = acl(operation=AclOperation.WRITE)
    assert may(with_acls(denied, allowed), AclOperation.DESCRIBE)
    beaten = acl(operation=AclOperation.DESCRIBE, permission=Permission.DENY)
    assert not may(with_acls(beaten, allowed), AclOperation.DESCRIBE)


def test_a_prefix_that_is_a_star_means_names_that_begin_with_it() -> None:
    authorizer = with_acls(acl("*", pattern=PatternType.PREFIXED))
    assert not may(authorizer)
    assert may(authorizer, name="*t")


def test_everyone_may_use_what_no_acl_speaks_of() -> None:
    authorizer = with_acls(acl("b", principal="User:bob"), allow_everyone=True)
    assert may(authorizer, name="a")
    assert not may(authorizer, name="b")


def test_of_two_equal_acls_one_is_left_when_the_other_goes() -> None:
    """As in CVE-2024-27309, where the one took all of its resource with it."""
    authorizer = with_acls(acl(), acl(), acl(permission=Permission.DENY, principal="User:bob"))
    change(authorizer, {b"\0": None})
    assert may(authorizer)
    assert not may(authorizer, client=Asking(Principal("User", "bob")))
    change(authorizer, {b"\1": None})
    assert not may(authorizer)


@pytest.mark.parametrize(
    ("peer_host", "host"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("::ffff:10.0.0.9", "10.0.0.9"),
        ("fe80::a%eth0", "fe80:0:0:0:0:0:0:a%eth0"),
        ("no:address", "no:address"),
    ],
)
def test_a_host_is_written_as_java_does(peer_host: str, host: str) -> None:
    assert may(with_acls(acl(host=host)), client=Asking(peer_host=peer_host))


def test_before_the_acls_are_known_only_super_users_may_do_anything() -> None:
    settings = AuthorizerSettings(frozenset({"User:ANONYMOUS"}), allow_everyone=True)
    authorizer = StandardAuthorizer(settings, Audit(virtual_time(1).call_later))
    assert may(authorizer, client=Asking(ANONYMOUS))
    with pytest.raises(ApiError) as refused:
        may(authorizer)
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    authorizer.loaded()
    assert may(authorizer)


def test_decisions_are_counted() -> None:
    authorizer = with_acls(acl())
    may(authorizer)
    for _ in range(2):
        may(authorizer, AclOperation.WRITE)
    assert figure(authorizer, "authorization-allowed") == 1
    assert figure(authorizer, "authorization-denied") == 2


def test_the_epoch_tells_of_each_change_and_of_nothing_else() -> None:
    authorizer = with_acls(acl())
    before = authorizer.epoch
    authorizer.changed(MetadataImage(), MetadataDelta(MetadataImage()))
    assert authorizer.epoch == before
    change(authorizer, {b"\0": None})
    assert authorizer.epoch != before


def test_a_snapshot_takes_away_the_acls_that_it_does_not_have() -> None:
    base = MetadataImage(acls={b"\0": acl(), b"\1": acl("gone"), b"\2": acl("other")})
    changed = acl("other", permission=Permission.DENY)
    target = MetadataImage(acls={b"\0": acl(), b"\2": changed, b"\3": acl("new")})
    delta = difference(base, target)
    assert delta.acls.changed == {b"\1": None, b"\2": changed, b"\3": acl("new")}
    authorizer = with_acls(*base.acls.values())
    authorizer.changed(target, delta)
    assert [may(authorizer, name=name) for name in ("t", "gone", "other", "new")] == [
        True,
        False,
        False,
        True,
    ]


def test_a_decision_costs_no_more_with_a_hundred_times_the_acls() -> None:
    """On the resource, on others, by prefixes, and for other principals."""

    def seconds(count: int) -> float:
        authorizer = with_acls(acl("t7"))
        others = [
            acl(f"t{number}", pattern=PatternType(3 + number % 2), principal=f"User:{number}")
            for number in range(count // 2)
        ]
        others += [acl("*", principal=f"User:{number}") for number in range(count // 2)]
        change(authorizer, {number.to_bytes(16): each for number, each in enumerate(others)})
        client = Asking()
        began = process_time()
        for _ in range(2000):
            assert may(authorizer, name="t7", client=client)
        return process_time() - began

    few = min(seconds(1_000) for _ in range(3))
    assert min(seconds(100_000) for _ in range(3)) < 5 * few


# Settings


def test_super_users_are_read_as_kafka_does() -> None:
    found = authorizer_settings(
        STANDARD_AUTHORIZER,
        {"super.users": " User:a; ;User:CN=b,O=c ;", "allow.everyone.if.no.acl.found": "True"},
    )
    assert found == AuthorizerSettings(frozenset({"User:a", "User:CN=b,O=c"}), True)
    assert authorizer_settings("", {"super.users": "User:a"}) is None


@pytest.mark.parametrize("text", ["alice", ":alice", "User:"])
def test_a_super_user_without_type_or_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidConfig, match="principalType:principalName"):
        authorizer_settings(STANDARD_AUTHORIZER, {"super.users": text})


def test_another_authorizer_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidConfig, match=r"com\.example\.Mine.*StandardAuthorizer"):
        authorizer_settings("com.example.Mine", {})


# The log of decisions


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, LOGGER)
    logging.getLogger("ottla").propagate = True
    return caplog


def told(lines: pytest.LogCaptureFixture) -> list[tuple[int, str, dict[str, str]]]:
    return [
        (
            record.levelno,
            record.getMessage(),
            {k: str(v) for k, v in getattr(record, "ottla_fields", {}).items()},
        )
        for record in lines.records
    ]


def test_refusals_are_told_and_what_is_allowed_at_debug(lines: pytest.LogCaptureFixture) -> None:
    authorizer = with_acls(acl(), super_users="User:root")
    may(authorizer, AclOperation.WRITE)
    may(authorizer)
    may(authorizer, client=Asking(Principal("User", "root")))
    denied, allowed, of_root = told(lines)
    assert denied == (
        logging.INFO,
        "Denied",
        {
            "principal": "User:alice",
            "operation": "WRITE",
            "host": HOST,
            "resource": "Topic:LITERAL:t",
            "request": "Produce",
            "rule": "DefaultDeny",
        },
    )
    assert allowed[:2] == (logging.DEBUG, "Allowed")
    assert allowed[2]["rule"] == (
        "MatchingAcl(resourceType=TOPIC, resourceName=t, patternType=LITERAL, "
        "principal=User:alice, host=*, operation=READ, permissionType=ALLOW)"
    )
    assert of_root[2]["rule"] == "SuperUser"


def test_what_is_only_left_out_is_told_at_debug(lines: pytest.LogCaptureFixture) -> None:
    client = Asking()
    id_type = ResourceType.TRANSACTIONAL_ID
    with_acls().allows(client, AclOperation.DESCRIBE, id_type, "x", log_if_denied=False)
    ((level, message, fields),) = told(lines)
    assert (level, message) == (logging.DEBUG, "Denied")
    assert fields["resource"] == "TransactionalId:LITERAL:x"


def test_an_acl_of_a_later_kafka_is_told_too(lines: pytest.LogCaptureFixture) -> None:
    odd = AclImage(ResourceType.CLUSTER, CLUSTER_NAME, 9, "User:*", "*", AclOperation.ALL, 7)
    denied = may(with_acls(odd), AclOperation.ALTER, CLUSTER_NAME, None, ResourceType.CLUSTER)
    assert not denied
    assert "patternType=UNKNOWN" in told(lines)[0][2]["rule"]
