"""The records of ``__consumer_offsets``, byte for byte as Apache Kafka 4.3.1 wrote them."""

import pytest

from ottla.common.errors import ProtocolViolation
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.records import (
    GroupRecordFormat,
    OffsetAndMetadata,
    committed_offset,
    group_record,
    group_tombstone,
    offset_record,
    offset_tombstone,
)
from ottla.protocol.generated.group_records import GroupMetadataValue, OffsetCommitValue

FORMAT = GroupRecordFormat()
TOPIC_ID = bytes.fromhex("65b77d8b41ae4a7d9f7146203a0ab781")
OFFSET_KEY = "000100016300017400000000"
OFFSET = "00040000000000000005ffffffff026d000001a1e1798ea001001065b77d8b41ae4a7d9f7146203a0ab781"
EXPIRING_OFFSET = "0001000000000000000500016d000001a1e1798ee0000001a1e17b1580"
GROUP_KEY = "000200026367"
NEW_GROUP = "0003000000000000ffffffff000001a1e1a5474000000000"
EMPTY_GROUP = "00030008636f6e73756d657200000002ffffffff000001a1e1a5547100000000"
MEMBER_ID = "console-consumer-d88681a7-e6ab-4e09-b4fe-3c1dd70eaf7c"
STABLE_GROUP = (
    "00030008636f6e73756d657200000001000572616e67650035636f6e736f6c652d636f6e73756d65722d"
    "64383836383161372d653661622d346530392d623466652d336331646437306561663763000001a1e1a5"
    "531b000000010035636f6e736f6c652d636f6e73756d65722d64383836383161372d653661622d346530"
    "392d623466652d336331646437306561663763ffff0010636f6e736f6c652d636f6e73756d6572000a2f"
    "3132372e302e302e31000493e00000afc800000017000300000001000174ffffffff00000000ffffffff"
    "ffff00000019000300000001000174000000020000000000000001ffffffff"
)


def decoded_group(value: str) -> ClassicGroup:
    record = FORMAT.decode(bytes.fromhex(GROUP_KEY), bytes.fromhex(value))
    assert record is not None
    assert isinstance(record.value, GroupMetadataValue)
    return ClassicGroup.from_record("cg", record.value)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    committed = OffsetAndMetadata(5, -1, "m", 0x1A1E1798EA0, topic_id=TOPIC_ID)
    key, value = FORMAT.encode(offset_record("c", "t", 0, committed))
    assert (key.hex(), value and value.hex()) == (OFFSET_KEY, OFFSET)


def test_an_offset_with_a_retention_of_its_own_is_written_in_the_version_that_has_it() -> None:
    committed = OffsetAndMetadata(5, 3, "m", 0x1A1E1798EE0, 0x1A1E17B1580, TOPIC_ID)
    _, value = FORMAT.encode(offset_record("c", "t", 0, committed))
    assert value is not None
    assert value.hex() == EXPIRING_OFFSET


@pytest.mark.parametrize(
    ("value", "expire", "topic_id"),
    [(OFFSET, -1, TOPIC_ID), (EXPIRING_OFFSET, 0x1A1E17B1580, bytes(16))],
)
def test_an_offset_is_read_back(value: str, expire: int, topic_id: bytes) -> None:
    record = FORMAT.decode(bytes.fromhex(OFFSET_KEY), bytes.fromhex(value))
    assert record is not None
    assert isinstance(record.value, OffsetCommitValue)
    found = committed_offset(77, record.value)
    assert (found.offset, found.metadata, found.record_offset) == (5, "m", 77)
    assert (found.expire_timestamp_ms, found.topic_id) == (expire, topic_id)


def test_what_was_written_before_0_9_is_read_too() -> None:
    record = FORMAT.decode(
        bytes.fromhex("0000" + OFFSET_KEY[4:]), bytes.fromhex("000000000000000000050000" + "00" * 8)
    )
    assert record is not None
    assert isinstance(record.value, OffsetCommitValue)
    assert record.value.offset == 5


def test_tombstones_are_keys_alone() -> None:
    assert FORMAT.encode(offset_tombstone("c", "t", 0)) == (bytes.fromhex(OFFSET_KEY), None)
    assert FORMAT.encode(group_tombstone("cg")) == (bytes.fromhex(GROUP_KEY), None)
    record = FORMAT.decode(bytes.fromhex(GROUP_KEY), None)
    assert record == group_tombstone("cg")


def test_a_new_group_is_written_as_kafka_writes_it() -> None:
    group = ClassicGroup("cg", 0x1A1E1A54740)
    key, value = FORMAT.encode(group_record("cg", group.to_record({})))
    assert (key.hex(), value and value.hex()) == (GROUP_KEY, NEW_GROUP)


@pytest.mark.parametrize("value", [EMPTY_GROUP, STABLE_GROUP])
def test_a_group_that_kafka_wrote_is_written_again_without_a_difference(value: str) -> None:
    group = decoded_group(value)
    assignments = {each.member_id: each.assignment for each in group.members.values()}
    _, again = FORMAT.encode(group_record("cg", group.to_record(assignments)))
    assert again is not None
    assert again.hex() == value


def test_a_group_that_kafka_wrote_is_understood() -> None:
    empty = decoded_group(EMPTY_GROUP)
    assert (empty.state_name, empty.generation_id, empty.members) == ("Empty", 2, {})
    stable = decoded_group(STABLE_GROUP)
    assert (stable.state_name, stable.leader_id) == ("Stable", MEMBER_ID)
    assert stable.subscribed_topics == frozenset({"t"})
    (member,) = stable.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (45_000, 300_000)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("000a" + "000163", "0000"),  # a share group
        ("7fff", None),
        (GROUP_KEY, "0063"),  # a version of the future
    ],
)
def test_what_is_not_for_us_is_left_alone(key: str, value: str | None) -> None:
    data = None if value is None else bytes.fromhex(value)
    assert FORMAT.decode(bytes.fromhex(key), data) is None


@pytest.mark.parametrize(
    ("key", "value"), [("", "00"), ("00", None), (GROUP_KEY, ""), ("0002", "")]
)
def test_what_is_cut_short_is_no_record(key: str, value: str | None) -> None:
    data = None if value is None else bytes.fromhex(value)
    with pytest.raises(ProtocolViolation):
        FORMAT.decode(bytes.fromhex(key), data)
