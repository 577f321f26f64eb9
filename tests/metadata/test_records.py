"""Framing of metadata records, and the version that each is written in."""

import pytest
from tests.metadata.samples import DIRECTORY, one_of_each, partition, register_broker

from ottla.common.errors import ProtocolViolation
from ottla.metadata.records import (
    MetadataRecord,
    UnknownMetadataRecord,
    decode_record,
    encode_record,
    record_version,
)
from ottla.protocol.generated import metadata_records as r

ALL = [*one_of_each(), r.AbortTransactionRecord(reason="why")]


@pytest.mark.parametrize("record", ALL, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_from_its_frame(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record, 30)) == record


def test_every_type_of_record_that_kafka_has_is_among_the_samples() -> None:
    known = {
        value.API_KEY for name, value in vars(r).items() if name.endswith("Record") and name != "r"
    }
    assert {record.API_KEY for record in ALL} == known


def test_the_frame_is_that_of_apache_kafka() -> None:
    # As the bootstrap.checkpoint of a directory that kafka-storage 4.3.1 has formatted has it.
    record = r.FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert encode_record(record, 30).hex() == "010c00116d657461646174612e76657273696f6e001e00"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bytes([2, 12, 0]), "frame version 2"),
        (bytes([1, 99, 0]), "unknown type 99"),
        (bytes([1, 6, 0]), "unknown type 6"),
        (bytes([1, 20, 1, 0]), "NoOpRecord of version 1"),
        (bytes([1, 0x94, 0x00, 1]), "NoOpRecord of version 1"),
    ],
)
def test_what_is_not_known_is_an_error_and_never_skipped(data: bytes, reason: str) -> None:
    with pytest.raises(UnknownMetadataRecord, match=reason):
        decode_record(data)


@pytest.mark.parametrize(
    "data", [b"", b"\x01", b"\x01\x14", b"\xff\xff\xff\xff\xff\xff", bytes([1, 20, 0, 0, 7])]
)
def test_a_frame_that_is_cut_or_too_long_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        decode_record(data)


@pytest.mark.parametrize(
    ("metadata_version", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)]
)
def test_partitions_are_written_as_old_brokers_can_read_them(
    metadata_version: int, version: int
) -> None:
    assert record_version(partition(), metadata_version) == version
    change = r.PartitionChangeRecord(partition_id=0)
    assert record_version(change, metadata_version) == version


@pytest.mark.parametrize(
    ("metadata_version", "version"), [(7, 1), (8, 2), (16, 2), (17, 3), (29, 3), (30, 4)]
)
def test_registrations_are_written_as_old_brokers_can_read_them(
    metadata_version: int, version: int
) -> None:
    assert record_version(register_broker(), metadata_version) == version


def test_a_change_of_a_registration_has_the_lowest_version_that_carries_it() -> None:
    change = r.BrokerRegistrationChangeRecord(broker_id=1, fenced=1)
    assert record_version(change, 30) == 0
    change.in_controlled_shutdown = 1
    assert record_version(change, 30) == 1
    change.log_dirs = [DIRECTORY]
    assert record_version(change, 30) == 2
    change.cordoned_log_dirs = []
    assert record_version(change, 30) == 3
