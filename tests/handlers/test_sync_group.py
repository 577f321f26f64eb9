"""SyncGroup in every version."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import sync_group
from ottla.protocol.generated.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)


@pytest.mark.parametrize("version", range(6))
def test_a_leader_gets_what_it_assigned_to_itself(version: int) -> None:
    broker = GroupBroker()
    joined = broker.join()
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=joined.member_id,
        assignments=[
            SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x01\x02")
        ],
    )
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    response = broker.ask(sync_group, request, version, SyncGroupResponse)
    assert (response.error_code, response.assignment) == (0, b"\x01\x02")
    assert response.protocol_name == ("range" if version >= 5 else None)


def test_since_version_5_the_protocol_must_be_named() -> None:
    broker = GroupBroker()
    request = SyncGroupRequest(group_id="g", member_id="m", protocol_type="consumer")
    response = broker.ask(sync_group, request, 5, SyncGroupResponse)
    assert response.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_strangers_and_groups_without_an_id_are_refused() -> None:
    broker = GroupBroker()
    request = SyncGroupRequest(group_id="nowhere", member_id="m")
    response = broker.ask(sync_group, request, 4, SyncGroupResponse)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    response = broker.ask(sync_group, SyncGroupRequest(), 4, SyncGroupResponse)
    assert response.error_code == ErrorCode.INVALID_GROUP_ID
