"""CreateAcls and DeleteAcls; codes and texts are those of Apache Kafka 4.3.1."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controller.machines import Controller, error

from ottla.common.authorization import AclOperation, PatternType, Permission, ResourceType
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest, PolicyViolation
from ottla.controller import acls as controller_acls
from ottla.controller import result
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acl_index import AclIndex
from ottla.metadata.acls import AclImage
from ottla.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.generated.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)

OK = ("NONE", None)
NO_COLON = (
    "Could not parse principal from `alice` (no colon is present separating the principal type "
    "from the principal name)"
)


def creation(name: str = "t", **changed: Any) -> AclCreation:
    made = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:alice",
        host="*",
        operation=AclOperation.READ,
        permission_type=Permission.ALLOW,
    )
    for key, value in changed.items():
        setattr(made, key, value)
    return made


def wanted(**changed: Any) -> DeleteAclsFilter:
    made = DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    for key, value in changed.items():
        setattr(made, key, value)
    return made


@pytest.fixture
def controller() -> Controller:
    return Controller(brokers=1)


def create(controller: Controller, *creations: AclCreation) -> list[tuple[str, str | None]]:
    request = CreateAclsRequest(creations=list(creations))
    response = controller.apply(controller.machine.acls.create_acls(request))
    return [error(each.error_code, each.error_message) for each in response.results]


def delete(controller: Controller, *filters: DeleteAclsFilter) -> list[list[str]]:
    """The names of what each filter removed."""
    request = DeleteAclsRequest(filters=list(filters))
    response = controller.apply(controller.machine.acls.delete_acls(request))
    assert all(each.error_code == 0 for each in response.filter_results)
    return [
        sorted(acl.resource_name for acl in each.matching_acls) for each in response.filter_results
    ]


def names(controller: Controller) -> list[str]:
    return sorted(acl.resource_name for acl in controller.machine.image.acls.values())


def test_acls_become_records_with_ids_of_their_own(controller: Controller) -> None:
    request = CreateAclsRequest(creations=[creation("a"), creation("b")])
    made = controller.machine.acls.create_acls(request)
    assert made.atomic
    first, second = made.records
    assert isinstance(first, AccessControlEntryRecord)
    assert isinstance(second, AccessControlEntryRecord)
    assert (first.resource_name, second.resource_name) == ("a", "b")
    assert len({first.id, second.id, bytes(16)}) == 3
    assert create(controller, creation("a"), creation("b")) == [OK, OK]
    assert names(controller) == ["a", "b"]


def test_what_is_there_or_comes_twice_is_no_second_acl(controller: Controller) -> None:
    assert create(controller, creation(), creation(), creation("other")) == [OK] * 3
    assert names(controller) == ["other", "t"]
    assert create(controller, creation(), creation(host="10.0.0.1")) == [OK] * 2
    assert names(controller) == ["other", "t", "t"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"principal": "alice"}, NO_COLON),
        (
            {"resource_type": ResourceType.CLUSTER},
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_pattern_type": 99}, "Invalid patternType UNKNOWN"),
        ({"operation": 99}, "Invalid operation UNKNOWN"),
        ({"permission_type": 99}, "Invalid permissionType UNKNOWN"),
    ],
)
def test_a_bad_acl_is_refused_beside_the_others(
    controller: Controller, changed: dict[str, Any], message: str
) -> None:
    found = create(controller, creation("good"), creation(**changed))
    assert found == [OK, ("INVALID_REQUEST", message)]
    assert names(controller) == ["good"]


@pytest.mark.parametrize(
    "changed",
    [
        {"resource_type": ResourceType.ANY},
        {"resource_pattern_type": PatternType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"operation": AclOperation.ANY},
        {"permission_type": Permission.ANY},
        {"operation": 0},
    ],
)
def test_what_only_filters_may_say_fails_the_whole_request(
    controller: Controller, changed: dict[str, Any]
) -> None:
    with pytest.raises(ApiError) as refused:
        create(controller, creation("good"), creation(**changed))
    assert refused.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert names(controller) == []


def test_odd_pairs_are_taken(controller: Controller) -> None:
    of_cluster = creation("kafka-cluster", resource_type=ResourceType.CLUSTER)
    assert create(controller, of_cluster, creation(operation=AclOperation.ALL)) == [OK, OK]


def test_more_than_a_batch_can_hold_is_refused(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [creation(f"t{number}") for number in range(6)]
    create(controller, *many)
    monkeypatch.setattr(controller_acls, "RECORDS_MAX", 5)
    with pytest.raises(InvalidRequest, match="Cannot remove more than 5 acls"):
        delete(controller, wanted())
    assert len(names(controller)) == 6
    monkeypatch.setattr(result, "RECORDS_MAX", 5)
    with pytest.raises(PolicyViolation):
        create(controller, *(creation(f"u{number}") for number in range(6)))


def test_filters_that_look_at_everything_are_few(controller: Controller) -> None:
    scans = [wanted(host_filter=str(number)) for number in range(controller_acls.SCANS_MAX + 1)]
    assert delete(controller, *scans[1:]) == [[]] * controller_acls.SCANS_MAX
    with pytest.raises(InvalidRequest, match="look through all ACLs"):
        delete(controller, *scans)
    named = [wanted(resource_name_filter=str(number)) for number in range(200)]
    assert delete(controller, *named) == [[]] * 200


def test_what_two_filters_mean_is_told_by_both_and_removed_once(controller: Controller) -> None:
    create(controller, creation("a"), creation("b"))
    request = DeleteAclsRequest(filters=[wanted(resource_name_filter="a"), wanted()])
    removed = controller.machine.acls.delete_acls(request)
    assert len(removed.records) == 2
    assert all(isinstance(each, RemoveAccessControlEntryRecord) for each in removed.records)
    assert delete(controller, wanted(resource_name_filter="a"), wanted()) == [["a"], ["a", "b"]]
    assert names(controller) == []


def test_an_unknown_filter_is_refused_beside_the_others(controller: Controller) -> None:
    create(controller, creation("a"))
    request = DeleteAclsRequest(filters=[wanted(operation=99), wanted(resource_name_filter="a")])
    response = controller.apply(controller.machine.acls.delete_acls(request))
    assert [each.error_code for each in response.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
    assert names(controller) == []


def test_the_next_request_sees_what_is_not_committed_yet(controller: Controller) -> None:
    """The index of the controller goes along with its image, and begins anew with another one."""
    create(controller, creation("a"))
    assert controller.machine.state.acls.contains(image_of(creation("a")))
    delete(controller, wanted(resource_name_filter="a"))
    assert not controller.machine.state.acls.contains(image_of(creation("a")))
    before = controller.machine.image
    create(controller, creation("b"))
    controller.machine.reset(before)
    assert not controller.machine.state.acls.contains(image_of(creation("b")))
    assert create(controller, creation("b")) == [OK]
    assert names(controller) == ["b"]


def image_of(made: AclCreation) -> AclImage:
    return AclImage(
        made.resource_type,
        made.resource_name,
        made.resource_pattern_type,
        made.principal,
        made.host,
        made.operation,
        made.permission_type,
    )


# Filters


@pytest.mark.parametrize(
    ("pattern_type", "name", "meant"),
    [
        (PatternType.LITERAL, "ab", ["L:ab"]),
        (PatternType.PREFIXED, "ab", ["P:ab"]),
        (PatternType.ANY, "ab", ["L:ab", "P:ab"]),
        (PatternType.MATCH, "ab", ["L:*", "L:ab", "P:a", "P:ab"]),
        (PatternType.MATCH, "abc", ["L:*", "L:abc", "P:a", "P:ab"]),
        (PatternType.MATCH, "*", ["L:*"]),
        (PatternType.LITERAL, "*", ["L:*"]),
        (PatternType.LITERAL, None, ["L:*", "L:ab", "L:abc"]),
        (PatternType.MATCH, None, ["L:*", "L:ab", "L:abc", "P:a", "P:ab"]),
    ],
)
def test_a_filter_by_kind_of_pattern(
    pattern_type: PatternType, name: str | None, meant: list[str]
) -> None:
    index = AclIndex()
    patterns = {"L:*", "L:ab", "L:abc", "P:a", "P:ab"}
    acls = {
        each.encode(): AclImage(2, each[2:], 3 if each[0] == "L" else 4, "User:a", "*", 3, 3)
        for each in patterns
    }
    index.apply(acls)
    found = index.matching(AclFilter(resource_name=name, pattern_type=pattern_type))
    assert sorted(acl_id.decode() for acl_id, _ in found) == meant


def test_an_operation_is_meant_exactly() -> None:
    read, everything = (AclImage(2, "t", 3, "User:a", "*", operation, 3) for operation in (3, 2))
    for operation, meant in ((1, {read, everything}), (2, {everything}), (3, {read})):
        asked = AclFilter(operation=operation)
        assert {acl for acl in (read, everything) if asked.matches(acl)} == meant


NAMES = ["a", "ab", "*"]
IMAGES = [
    AclImage(*each)
    for each in product([2, 3], NAMES, [3, 4], ["User:a", "User:b"], ["*"], [2, 3], [2, 3])
]


@given(
    there=st.sets(st.sampled_from(IMAGES)),
    asked=st.builds(
        AclFilter,
        st.sampled_from([1, 2]),
        st.sampled_from([None, "abc", *NAMES]),
        st.sampled_from([1, 2, 3, 4]),
        st.sampled_from([None, "User:a"]),
        st.sampled_from([None, "*", "h"]),
        st.sampled_from([1, 2, 3]),
        st.sampled_from([1, 2]),
    ),
)
@settings(max_examples=300)
def test_the_index_finds_what_a_look_at_all_would_find(
    there: set[AclImage], asked: AclFilter
) -> None:
    index = AclIndex()
    index.apply({repr(acl).encode(): acl for acl in there})
    found = [acl for _, acl in index.matching(asked)]
    assert len(found) == len(set(found))
    assert set(found) == {acl for acl in there if asked.matches(acl)}
