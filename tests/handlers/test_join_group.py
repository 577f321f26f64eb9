"""JoinGroup in every version."""

from struct import pack

import pytest
from tests.handlers.broker import Peer
from tests.handlers.groups import GroupBroker

from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import join_group, sync_group
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.protocol.message import Message, to_bytes
from ottla.requests.dispatch import BrokerDispatcher


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(version: int) -> None:
    broker = GroupBroker()
    response = broker.join(version)
    assert response.error_code == ErrorCode.NONE
    assert response.generation_id == 1
    assert response.leader == response.member_id
    assert [member.member_id for member in response.members] == [response.member_id]
    assert response.protocol_name == "range"
    assert response.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", range(10))
def test_a_refusal_names_no_protocol_in_the_way_of_its_version(version: int) -> None:
    broker = GroupBroker()
    request = broker.join_request(member_id="stranger")
    if version == 0:
        request.rebalance_timeout_ms = -1
    response = broker.ask(join_group, request, version, JoinGroupResponse)
    assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert response.member_id == "stranger"
    assert response.protocol_name == (None if version >= 7 else "")


def test_in_version_0_the_rebalance_timeout_is_that_of_the_session() -> None:
    broker = GroupBroker()
    broker.join(0)
    shard = broker.groups.runtime.read(broker.groups.partition_for("g"), lambda shard: shard)
    (member,) = shard.groups.get("g").members.values()  # type: ignore[union-attr]
    assert member.rebalance_timeout_ms == member.session_timeout_ms == 30_000


def test_a_broker_that_does_not_coordinate_the_group_says_so() -> None:
    broker = GroupBroker()
    broker.groups.resigned(broker.groups.partition_for("g"))
    response = broker.ask(join_group, broker.join_request(), 9, JoinGroupResponse)
    assert response.error_code == ErrorCode.NOT_COORDINATOR


def test_members_are_shown_with_the_host_that_they_come_from() -> None:
    broker = GroupBroker()
    broker.join()
    (described,) = broker.groups.describe(["g"], 6)
    assert described.members[0].client_host == "/10.0.0.9"


def test_what_waits_for_other_members_counts_as_memory() -> None:
    broker, peer = GroupBroker(), Peer()
    leader = broker.stable()
    dispatcher = BrokerDispatcher(broker.services)

    def send(key: ApiKey, request: Message) -> "Promise[Answer]":
        frame = pack(">hhih", key, 3, 7, -1) + to_bytes(request, 3)
        answer = dispatcher.answer(peer, memoryview(frame))
        assert isinstance(answer, Promise)
        broker.scheduler.run_for(0.1)
        assert (peer.held, answer.done) == (len(frame), False)
        return answer

    joining = send(ApiKey.JOIN_GROUP, broker.join_request())
    again = broker.ask(
        join_group, broker.join_request(member_id=leader.member_id), 3, JoinGroupResponse
    )
    assert (peer.held, joining.done) == (0, True)
    (other,) = {member.member_id for member in again.members} - {leader.member_id}
    sync = SyncGroupRequest(group_id="g", generation_id=again.generation_id, member_id=other)
    syncing = send(ApiKey.SYNC_GROUP, sync)
    sync.member_id = leader.member_id
    broker.ask(sync_group, sync, 3, SyncGroupResponse)
    assert (peer.held, syncing.done) == (0, True)
