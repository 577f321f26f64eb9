"""Tagged fields: the unknown survive, the known are checked, the order is Kafka's."""

import pytest

from ottla.common.errors import ProtocolViolation
from ottla.protocol.generated.fetch import FetchRequest, FetchTopic, ReplicaState
from ottla.protocol.generated.heartbeat import HeartbeatResponse
from ottla.protocol.message import from_bytes, to_bytes


def test_unknown_tagged_fields_survive_a_round_trip_at_every_depth() -> None:
    topic = FetchTopic(topic="t", unknown_tagged_fields=[(5, b"inner"), (70_000, b"")])
    request = FetchRequest(topics=[topic], unknown_tagged_fields=[(1, b"\x01"), (9, b"outer")])
    request.cluster_id = "c"
    data = to_bytes(request, 12)
    # In version 12 of Fetch tag 1 is not yet known; from a newer peer it would be no error.
    with pytest.raises(ProtocolViolation, match="tag 1 is not valid in version 12"):
        from_bytes(FetchRequest, data, 12)
    request.unknown_tagged_fields = [(9, b"outer")]
    again = from_bytes(FetchRequest, to_bytes(request, 12), 12)
    assert again == request
    assert again.unknown_tagged_fields == [(9, b"outer")]
    assert again.topics[0].unknown_tagged_fields == [(5, b"inner"), (70_000, b"")]


def test_known_and_unknown_tags_are_written_in_ascending_order() -> None:
    request = FetchRequest(cluster_id="c", replica_state=ReplicaState(replica_id=1))
    request.unknown_tagged_fields = [(7, b"x")]
    epoch = "ff" * 8
    expected = f"03 00 02 0263 01 0d 00000001 {epoch} 00 07 01 78"
    assert to_bytes(request, 15).endswith(b"\x01" + bytes.fromhex(expected))


def test_a_message_without_unknown_tags_keeps_none() -> None:
    assert from_bytes(HeartbeatResponse, bytes(7), 4).unknown_tagged_fields is None


def test_tags_in_any_order_are_read_as_kafka_reads_them() -> None:
    head = bytes(6)
    data = head + b"\x03" + b"\x09\x01a" + b"\x08\x01b" + b"\x08\x01c"
    message = from_bytes(HeartbeatResponse, data, 4)
    assert message.unknown_tagged_fields == [(9, b"a"), (8, b"b"), (8, b"c")]
    with pytest.raises(ValueError, match="tag 8 comes after tag 9"):
        to_bytes(message, 4)


def test_of_a_known_tag_that_comes_twice_the_last_counts() -> None:
    data = to_bytes(FetchRequest(cluster_id="a"), 12)
    assert data.endswith(b"\x01\x00\x02\x02a")
    twice = data[:-5] + b"\x02\x00\x02\x02a\x00\x02\x02b"
    assert from_bytes(FetchRequest, twice, 12).cluster_id == "b"


@pytest.mark.parametrize("size", [1, 3])
def test_a_known_tag_must_be_as_long_as_it_says(size: int) -> None:
    data = to_bytes(FetchRequest(cluster_id="a"), 12)[:-5]
    with pytest.raises(ProtocolViolation):
        from_bytes(FetchRequest, data + b"\x01\x00" + bytes([size]) + b"\x02a\x00", 12)


def test_an_unknown_tag_must_not_have_the_number_of_a_known_one() -> None:
    request = FetchRequest(cluster_id="c", unknown_tagged_fields=[(0, b"x")])
    with pytest.raises(ValueError, match="tag 0 is not unknown"):
        to_bytes(request, 12)


def test_an_inflexible_version_has_no_place_for_unknown_tags() -> None:
    response = HeartbeatResponse(unknown_tagged_fields=[(1, b"x")])
    with pytest.raises(ValueError, match=r"HeartbeatResponse\.unknown_tagged_fields"):
        to_bytes(response, 3)
    assert to_bytes(response, 4).endswith(b"\x01\x01\x01x")
