import pytest
from kafka.record.default_records import DefaultRecordBatch
from tests.records.raw_batches import NOW

from ottla.common.errors import InvalidRecord
from ottla.records.batch import read_header
from ottla.records.control import (
    ControlType,
    control_batch,
    control_key,
    read_control_type,
    read_transaction_marker,
    transaction_marker_batch,
)
from ottla.records.record import Record, iterate


@pytest.mark.parametrize("commit", [True, False])
def test_a_marker_is_read_as_it_was_made(commit: bool) -> None:
    batch = transaction_marker_batch(
        commit=commit,
        producer_id=77,
        producer_epoch=5,
        coordinator_epoch=9,
        timestamp=NOW,
        base_offset=12,
        leader_epoch=3,
    )
    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 5, -1)
    assert (header.base_offset, header.partition_leader_epoch) == (12, 3)
    (record,) = iterate(batch)
    expected = ControlType.COMMIT if commit else ControlType.ABORT
    assert read_transaction_marker(record) == (expected, 9)


def test_another_library_sees_the_same_marker() -> None:
    batch = transaction_marker_batch(
        commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=2, timestamp=NOW
    )
    read = DefaultRecordBatch(bytes(batch))
    assert read.is_control_batch
    (record,) = read
    assert record.abort


def test_the_bytes_are_those_of_the_format() -> None:
    batch = transaction_marker_batch(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=2, timestamp=NOW
    )
    (record,) = iterate(batch)
    assert record.key == bytes.fromhex("00000001")
    assert record.value == bytes.fromhex("000000000002")


def test_a_batch_of_the_quorum_holds_its_records_in_order() -> None:
    values = [(ControlType.LEADER_CHANGE, b"\0\0abc"), (ControlType.KRAFT_VERSION, b"\0\0\0\1")]
    batch = control_batch(values, timestamp=NOW, base_offset=7, leader_epoch=4)
    header = read_header(batch)
    assert header.is_control
    assert not header.is_transactional
    assert header.producer_id == -1
    read = iterate(batch)
    assert [(read_control_type(record.key), record.value) for record in read] == values
    assert [record.offset for record in read] == [7, 8]


def test_every_type_has_its_number() -> None:
    assert [control_key(kind).hex() for kind in ControlType if kind >= 0] == [
        f"0000000{number}" for number in range(7)
    ]


def test_types_of_later_versions_are_unknown_and_not_refused() -> None:
    assert read_control_type(bytes.fromhex("0000004d")) is ControlType.UNKNOWN


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
def test_a_key_that_is_none_is_refused(key: bytes | None) -> None:
    with pytest.raises(InvalidRecord):
        read_control_type(key)


@pytest.mark.parametrize(
    "record",
    [
        Record(key=control_key(ControlType.LEADER_CHANGE), value=bytes(6)),
        Record(key=control_key(ControlType.COMMIT), value=None),
        Record(key=control_key(ControlType.COMMIT), value=bytes(5)),
        Record(key=control_key(ControlType.ABORT), value=b"\xff\xff\0\0\0\0"),
    ],
)
def test_what_is_no_marker_is_refused(record: Record) -> None:
    with pytest.raises(InvalidRecord):
        read_transaction_marker(record)
