"""DeleteGroups in every version."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ApiError, ErrorCode
from ottla.handlers import delete_groups
from ottla.protocol.generated.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


@pytest.mark.parametrize("version", range(3))
def test_empty_groups_are_deleted_and_each_has_its_answer(version: int) -> None:
    broker = GroupBroker()
    broker.stable("members")
    broker.commit(1, "simple")
    request = DeleteGroupsRequest(groups_names=["members", "simple", "gone"])
    response = broker.ask(delete_groups, request, version, DeleteGroupsResponse)
    assert {result.group_id: result.error_code for result in response.results} == {
        "members": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "gone": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert broker.groups.describe(["simple"], 5)[0].group_state == "Dead"


def test_a_request_that_fails_as_a_whole_fails_for_each_group() -> None:
    request = DeleteGroupsRequest(groups_names=["a"])
    refused = delete_groups.refuse(request, ApiError(), 0)
    assert [(result.group_id, result.error_code) for result in refused.results] == [("a", -1)]
