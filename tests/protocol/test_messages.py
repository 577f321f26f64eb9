"""What the generated classes are, and what a version has no place for."""

import pytest

from ottla.protocol.generated import metadata_records, vote
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.join_group import JoinGroupResponse
from ottla.protocol.generated.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.generated.produce import PartitionProduceData
from ottla.protocol.message import from_bytes, to_bytes


def test_a_message_has_kafkas_defaults() -> None:
    request = FetchRequest()
    assert (request.replica_id, request.session_epoch, request.max_bytes) == (-1, -1, 0x7FFFFFFF)
    assert request.topics == []
    assert request.replica_state.replica_epoch == -1
    assert FetchPartition().replica_directory_id == bytes(16)
    assert PartitionProduceData().records is None
    assert HeartbeatRequest().group_instance_id is None


def test_defaults_that_can_change_are_not_shared() -> None:
    FetchRequest().topics.append(FetchRequest().topics)  # type: ignore[arg-type]
    FetchRequest().replica_state.replica_id = 5
    assert FetchRequest().topics == []
    assert FetchRequest().replica_state.replica_id == -1


def test_null_is_not_the_same_as_not_given() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None
    assert to_bytes(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"


def test_messages_are_equal_by_their_fields_and_not_hashable() -> None:
    assert HeartbeatRequest(group_id="g") == HeartbeatRequest(group_id="g")
    assert HeartbeatRequest(group_id="g") != HeartbeatRequest(group_id="h")
    assert HeartbeatRequest() != HeartbeatResponse()
    with pytest.raises(TypeError):
        hash(HeartbeatRequest())


def test_a_message_shows_its_fields() -> None:
    response = HeartbeatResponse(error_code=27)
    assert repr(response) == "HeartbeatResponse(throttle_time_ms=0, error_code=27)"
    response.unknown_tagged_fields = [(1, b"x")]
    assert repr(response).endswith("error_code=27, unknown_tagged_fields=[(1, b'x')])")


def test_a_message_has_no_place_for_fields_that_do_not_exist() -> None:
    with pytest.raises(AttributeError):
        HeartbeatRequest().group = "g"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        HeartbeatRequest(group="g")  # type: ignore[call-arg]


def test_a_struct_name_that_two_messages_of_a_module_use_is_prefixed_in_both() -> None:
    assert vote.VoteRequestTopicData().topic_name == vote.VoteResponseTopicData().topic_name
    assert not hasattr(vote, "TopicData")
    assert metadata_records.RegisterBrokerRecord.API_KEY == 0
    assert KRaftVersionRecord(k_raft_version=1).k_raft_version == 1


def test_a_value_that_the_version_lacks_is_refused() -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="i")
    with pytest.raises(ValueError, match=r"HeartbeatRequest\.group_instance_id .* version 2"):
        to_bytes(request, 2)
    assert from_bytes(HeartbeatRequest, to_bytes(request, 3), 3) == request


def test_an_ignorable_value_that_the_version_lacks_is_left_out() -> None:
    response = HeartbeatResponse(throttle_time_ms=5)
    assert to_bytes(response, 0) == b"\x00\x00"
    assert to_bytes(response, 1) == b"\x00\x00\x00\x05\x00\x00"


def test_null_is_refused_in_a_version_that_has_none() -> None:
    with pytest.raises(ValueError, match=r"MetadataRequest\.topics"):
        to_bytes(MetadataRequest(topics=None), 0)
    with pytest.raises(ValueError, match=r"MetadataRequestTopic\.name"):
        to_bytes(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)
    with pytest.raises(ValueError, match=r"JoinGroupResponse\.protocol_name"):
        to_bytes(JoinGroupResponse(protocol_name=None), 6)


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest has no version 5"):
        to_bytes(HeartbeatRequest(), 5)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="HeartbeatResponse"):
        to_bytes(HeartbeatResponse(error_code=1 << 15), 0)


def test_a_string_that_is_too_long_is_refused() -> None:
    assert len(to_bytes(HeartbeatRequest(group_id="x" * 0x7FFF), 0)) == 0x7FFF + 8
    for version in (0, 4):
        with pytest.raises(ValueError, match="32768"):
            to_bytes(HeartbeatRequest(group_id="x" * 0x8000), version)
