"""Snapshots: an image as records and back, and the container that Apache Kafka reads and writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.metadata.apache_files import BOOTSTRAP_CHECKPOINT, VOTERS_CHECKPOINT
from tests.metadata.samples import full_image, image_of, partition, register_broker

from ottla.common.errors import CorruptMessage
from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.records import MetadataRecord, encode_record
from ottla.metadata.snapshot import (
    BATCH_BYTES_MAX,
    container,
    image_to_records,
    read_container,
    read_header_timestamp,
    read_records,
)
from ottla.protocol.generated import metadata_records as r
from ottla.records.batch import batches, read_header

AFTER_TIMESTAMPS = 43
"""Where a batch's bytes no longer depend on when it was written."""


def without_times(data: bytes) -> list[bytes]:
    return [
        data[position : position + 17] + data[position + AFTER_TIMESTAMPS : position + size]
        for position, size in batches(data)
    ]


def test_a_bootstrap_file_is_written_as_kafka_storage_writes_it() -> None:
    assert read_container(BOOTSTRAP_CHECKPOINT).kraft_version is None
    records = read_records(BOOTSTRAP_CHECKPOINT)
    levels = {
        record.name: record.feature_level
        for record in records
        if isinstance(record, r.FeatureLevelRecord)
    }
    assert levels["metadata.version"] == 30
    values = [encode_record(record, 30) for record in records]
    ours = b"".join(container(values, epoch=0, now_ms=5, last_contained_log_timestamp=0))
    assert without_times(ours) == without_times(BOOTSTRAP_CHECKPOINT)


def test_the_first_voters_are_written_as_kafka_storage_writes_them() -> None:
    content = read_container(VOTERS_CHECKPOINT)
    assert read_records(VOTERS_CHECKPOINT) == []
    assert content.kraft_version == 1
    assert content.voters is not None
    assert [voter.voter_id for voter in content.voters.voters] == [1]
    ours = b"".join(
        container(
            [],
            epoch=0,
            now_ms=5,
            last_contained_log_timestamp=content.last_contained_log_timestamp,
            voters=content.voters,
            kraft_version=1,
        )
    )
    assert without_times(ours) == without_times(VOTERS_CHECKPOINT)
    assert read_header_timestamp(ours) == content.last_contained_log_timestamp


def test_the_records_of_an_image_make_it_again() -> None:
    assert image_of(image_to_records(full_image())) == full_image()


def test_an_empty_image_has_no_records() -> None:
    assert list(image_to_records(EMPTY_IMAGE)) == []


def test_the_metadata_version_comes_first_and_the_rest_in_the_order_of_kafka() -> None:
    kinds = [type(record).__name__ for record in image_to_records(full_image())]
    assert list(dict.fromkeys(kinds)) == [
        "FeatureLevelRecord",
        "ZkMigrationStateRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "PartitionRecord",
        "ConfigRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
        "DelegationTokenRecord",
    ]


@pytest.mark.parametrize("metadata_version", range(7, 31))
def test_an_image_can_be_written_at_every_metadata_version(metadata_version: int) -> None:
    image = image_of(
        [
            r.FeatureLevelRecord(name="metadata.version", feature_level=metadata_version),
            register_broker(in_controlled_shutdown=True, cordoned_log_dirs=[]),
            r.TopicRecord(name="t", topic_id=partition().topic_id),
            partition(),
        ]
    )
    for record in image_to_records(image):
        assert encode_record(record, metadata_version)


def test_many_records_go_into_batches_as_large_as_may_be_with_offsets_in_a_row() -> None:
    records: list[MetadataRecord] = [
        r.ConfigRecord(resource_type=2, resource_name=f"t{n}", name="a", value="b" * 30_000)
        for n in range(2 * BATCH_BYTES_MAX // 30_000 + 1)
    ]
    values = [encode_record(record, 30) for record in records]
    data = b"".join(container(values, epoch=7, now_ms=5, last_contained_log_timestamp=4))
    headers = [read_header(data, position) for position, _ in batches(data)]
    assert [header.is_control for header in headers] == [True, False, False, False, True]
    assert max(header.size for header in headers) <= 8 * 1024 * 1024
    assert {header.partition_leader_epoch for header in headers} == {7}
    expected = 0
    for header in headers:
        assert header.base_offset == expected
        expected = header.last_offset + 1
    assert read_records(data) == records


@given(cut=st.integers(0, len(BOOTSTRAP_CHECKPOINT) - 1))
def test_a_file_that_was_not_finished_is_refused(cut: int) -> None:
    with pytest.raises(CorruptMessage):
        read_container(BOOTSTRAP_CHECKPOINT[:cut])


def test_nothing_may_follow_the_footer() -> None:
    with pytest.raises(CorruptMessage, match="follows the footer"):
        read_container(BOOTSTRAP_CHECKPOINT + BOOTSTRAP_CHECKPOINT)


@given(position=st.integers(83 + 21, len(BOOTSTRAP_CHECKPOINT) - 76))
def test_a_damaged_file_is_refused(position: int) -> None:
    data = bytearray(BOOTSTRAP_CHECKPOINT)
    data[position] ^= 0x40
    with pytest.raises(CorruptMessage):
        read_container(bytes(data))


def test_an_image_that_is_read_shares_what_its_partitions_have_in_common() -> None:
    records: list[MetadataRecord] = [r.TopicRecord(name="t", topic_id=partition().topic_id)]
    for number in range(9):
        record = partition(number)
        record.isr = list(record.replicas)
        records.append(record)
    values = [encode_record(record, 30) for record in records]
    data = b"".join(container(values, epoch=7, now_ms=5, last_contained_log_timestamp=4))
    image = read_container(data).image(12, 7)
    assert (image.offset, image.epoch, image.timestamp_ms) == (11, 7, 4)
    assert image.topics == image_of(records).topics
    partitions = image.topics.by_name["t"].partitions.values()
    assert len(partitions) == 9
    assert all(each.isr is each.replicas for each in partitions)
    assert len({id(directory) for each in partitions for directory in each.directories}) == 1
