"""ListGroups in every version."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import list_groups
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(version: int) -> None:
    broker = GroupBroker()
    broker.stable("members")
    broker.commit(1, "simple")
    response = broker.ask(list_groups, ListGroupsRequest(), version, ListGroupsResponse)
    listed = {group.group_id: group for group in response.groups}
    assert set(listed) == {"members", "simple"}
    assert listed["members"].protocol_type == "consumer"
    assert listed["simple"].protocol_type == ""
    assert listed["members"].group_state == ("Stable" if version >= 4 else "")
    assert listed["members"].group_type == ("classic" if version >= 5 else "")


def test_groups_are_listed_by_state_and_type() -> None:
    broker = GroupBroker()
    broker.stable("members")
    broker.commit(1, "simple")
    request = ListGroupsRequest(states_filter=["Empty"], types_filter=["classic"])
    response = broker.ask(list_groups, request, 5, ListGroupsResponse)
    assert [group.group_id for group in response.groups] == ["simple"]


def test_a_coordinator_that_has_stopped_lists_nothing() -> None:
    broker = GroupBroker()
    broker.stable()
    broker.groups.stop()
    response = broker.ask(list_groups, ListGroupsRequest(), 5, ListGroupsResponse)
    assert (response.error_code, response.groups) == (ErrorCode.NONE, [])
