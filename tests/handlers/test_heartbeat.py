"""Heartbeat in every version."""

import pytest
from tests.handlers.groups import GroupBroker

from ottla.common.errors import ErrorCode
from ottla.handlers import heartbeat, join_group
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse


def ask(broker: GroupBroker, version: int, **fields: object) -> int:
    request = HeartbeatRequest(**fields)  # type: ignore[arg-type]
    return broker.ask(heartbeat, request, version, HeartbeatResponse).error_code


@pytest.mark.parametrize("version", range(5))
def test_a_member_is_alive_in_every_version(version: int) -> None:
    broker = GroupBroker()
    joined = broker.stable()
    member = {"group_id": "g", "member_id": joined.member_id}
    assert ask(broker, version, generation_id=1, **member) == ErrorCode.NONE
    assert ask(broker, version, generation_id=2, **member) == ErrorCode.ILLEGAL_GENERATION


def test_a_member_that_is_not_there_is_told_so() -> None:
    broker = GroupBroker()
    assert ask(broker, 4, group_id="nowhere") == ErrorCode.UNKNOWN_MEMBER_ID
    assert ask(broker, 4, group_id="") == ErrorCode.INVALID_GROUP_ID


def test_a_member_learns_that_its_group_rebalances() -> None:
    broker = GroupBroker()
    joined = broker.stable()
    broker.start(join_group, broker.join_request(), 3)
    code = ask(broker, 4, group_id="g", member_id=joined.member_id, generation_id=1)
    assert code == ErrorCode.REBALANCE_IN_PROGRESS
