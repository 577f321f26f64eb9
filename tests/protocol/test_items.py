"""How many items the arrays of one request may have: each array of each API counts."""

from struct import pack
from threading import Thread

import pytest
from tests.hostile.largest import largest

from ottla.common.errors import ProtocolViolation
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.message import Message, Struct, from_buffer, from_bytes, to_bytes
from ottla.protocol.primitives import ITEMS_MAX, read_count, uvarint
from ottla.protocol.produce_request import read_produce_request, skip_tagged_fields

NULL_TRANSACTION = b"\x00"
TAGGED_FIELDS = 3
"""What a request may have of them; each counts as an item."""
ACKS_AND_TIMEOUT = pack(">hi", 1, 1_000)


def items(value: object) -> int:
    """Those of all arrays in it."""
    if isinstance(value, list):
        return len(value) + sum(items(each) for each in value)
    if isinstance(value, Struct):
        return sum(items(getattr(value, name)) for name in value.__slots__)
    return 0


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
def test_all_arrays_of_a_request_count_together(key: ApiKey) -> None:
    api = APIS[key]
    request_class = api.request_class()
    for version in {request_class.LOWEST_VERSION, request_class.HIGHEST_VERSION}:
        for filled in largest(api, version):
            data = to_bytes(filled.make(5), version)
            whole = from_bytes(request_class, data, version)
            count = items(whole)
            assert count >= 5
            allowed = count + TAGGED_FIELDS
            assert from_buffer(request_class, data, 0, version, allowed)[0] == whole
            with pytest.raises(ProtocolViolation, match="too many items"):
                from_buffer(request_class, data, 0, version, count - 1)


def test_tagged_fields_that_nobody_knows_count_too() -> None:
    request_class = APIS[ApiKey.API_VERSIONS].request_class()
    data = b"\x01\x01" + uvarint(7) + b"\x05\x00" * 7
    assert len(from_buffer(request_class, data, 0, 3, 7)[0].unknown_tagged_fields or ()) == 7
    with pytest.raises(ProtocolViolation):
        from_buffer(request_class, data, 0, 3, 6)


def test_what_one_request_may_have_is_not_taken_from_the_next_message() -> None:
    filled = next(iter(largest(APIS[ApiKey.DELETE_TOPICS], 5)))
    data = to_bytes(filled.make(5), 5)
    request_class = APIS[ApiKey.DELETE_TOPICS].request_class()
    with pytest.raises(ProtocolViolation):
        from_buffer(request_class, data, 0, 5, 4)
    assert items(from_bytes(request_class, data, 5)) == 5
    assert items(from_bytes(request_class, data, 5)) == 5


class Interrupted(Message):
    """Two arrays; while the first is read, another thread reads a message of its own."""

    LOWEST_VERSION, HIGHEST_VERSION, FLEXIBLE_FROM = 0, 0, 0
    INTERRUPTION_SECONDS = 0.05

    @staticmethod
    def decode(data: bytes, pos: int, _version: int) -> tuple[Message, int]:
        _, pos = read_count(data, pos, 0)
        filled = next(iter(largest(APIS[ApiKey.DELETE_TOPICS], 5)))
        other = APIS[ApiKey.DELETE_TOPICS].request_class()
        read = Thread(target=from_bytes, args=(other, to_bytes(filled.make(5), 5), 5))
        read.start()
        read.join(Interrupted.INTERRUPTION_SECONDS)
        _, pos = read_count(data, pos, 0)
        return Interrupted(), pos


def test_what_another_thread_reads_meanwhile_neither_counts_nor_gives_room() -> None:
    """As of two brokers in one process."""
    with pytest.raises(ProtocolViolation, match="too many items"):
        from_buffer(Interrupted, pack(">ii", 3, 3), 0, 0, 5)
    assert from_buffer(Interrupted, pack(">ii", 3, 3), 0, 0, 6)[1] == 8


def produce(topics: list[int], version: int) -> bytes:
    """A request with so many partitions, which have null for records, in each topic."""
    if version < 9:
        head = b"\xff\xff" + ACKS_AND_TIMEOUT + pack(">i", len(topics))
        return head + b"".join(
            b"\x00\x01t" + pack(">i", count) + pack(">ii", 0, -1) * count for count in topics
        )
    head = NULL_TRANSACTION + ACKS_AND_TIMEOUT + uvarint(len(topics) + 1)
    parts = (
        b"\x02t" + uvarint(count + 1) + (pack(">i", 0) + b"\x00\x00") * count + b"\x00"
        for count in topics
    )
    return head + b"".join(parts) + b"\x00"


@pytest.mark.parametrize("version", [3, 9])
def test_a_produce_request_has_no_more_partitions_than_other_requests_have_items(
    version: int,
) -> None:
    half = (ITEMS_MAX - 2) // 2
    view = read_produce_request(memoryview(produce([half, half], version)), 0, version)
    assert sum(len(partitions) for _, partitions in view.topics) == ITEMS_MAX - 2
    with pytest.raises(ProtocolViolation):
        read_produce_request(memoryview(produce([half, half + 1], version)), 0, version)


def test_very_many_tagged_fields_are_not_skipped_one_by_one() -> None:
    assert skip_tagged_fields(memoryview(uvarint(100) + b"\x05\x00" * 100), 0) == 201
    with pytest.raises(ProtocolViolation):
        skip_tagged_fields(memoryview(uvarint(101) + b"\x05\x00" * 101), 0)
