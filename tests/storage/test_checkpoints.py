"""The small files, byte by byte as Kafka writes them, and what damage makes of them."""

import pytest

from ottla.common.identifiers import uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.storage.checkpoints import (
    CleanShutdown,
    CorruptCheckpoint,
    MetaProperties,
    OffsetCheckpoint,
    decode_offsets,
    decode_partition_metadata,
    encode_epochs,
    encode_offsets,
    encode_partition_metadata,
    read_epochs,
)
from ottla.storage.leader_epochs import EpochEntry
from ottla.testing.files import MemoryFilesystem

PLAIN = TopicPartition("plain", 0)
DASHED = TopicPartition("a-topic-1", 12)
TOPIC_ID = bytes(range(16))


@pytest.fixture
def files() -> MemoryFilesystem:
    memory = MemoryFilesystem()
    memory.make_directory("/d")
    return memory


def test_offsets_stand_on_lines() -> None:
    data = encode_offsets({PLAIN: 5, DASHED: 1 << 40})
    assert data == b"0\n2\nplain 0 5\na-topic-1 12 1099511627776\n"
    assert decode_offsets(data) == {PLAIN: 5, DASHED: 1 << 40}
    assert encode_offsets({}) == b"0\n0\n"
    assert decode_offsets(b"0\n0\n") == {}


@pytest.mark.parametrize(
    "damaged",
    [b"0", b"0\n", b"x\n0\n", b"1\n0\n", b"0\n1\n", b"0\n0\na 0 1\n", b"0\n1\na 0\n", b"\xff\n"],
)
def test_a_damaged_checkpoint_is_refused(damaged: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_offsets(damaged)


def test_epochs_stand_on_lines(files: MemoryFilesystem) -> None:
    entries = [EpochEntry(0, 0), EpochEntry(5, 100)]
    assert encode_epochs(entries) == b"0\n2\n0 0\n5 100\n"
    assert read_epochs(files, "/d/missing") == []
    files.write("/d/epochs", encode_epochs(entries))
    assert read_epochs(files, "/d/epochs") == entries


@pytest.mark.parametrize(
    "lines", [b"5 0\n4 100\n", b"4 0\n4 100\n", b"0 100\n5 100\n", b"-1 0\n5 100\n", b"0 -1\n5 9\n"]
)
def test_a_history_of_epochs_that_goes_back_is_refused(
    files: MemoryFilesystem, lines: bytes
) -> None:
    files.write("/d/epochs", b"0\n2\n" + lines)
    with pytest.raises(CorruptCheckpoint):
        read_epochs(files, "/d/epochs")


def test_partition_metadata_has_no_last_newline() -> None:
    data = encode_partition_metadata(TOPIC_ID)
    assert data == b"version: 0\ntopic_id: " + uuid_text(TOPIC_ID).encode()
    assert len(data) == 43
    assert decode_partition_metadata(data) == TOPIC_ID
    assert decode_partition_metadata(data + b"\n") == TOPIC_ID


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"version: 0",
        b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw",
        b"version: 0\ntopic_id: AAECAwQFBgcICQ",
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"\0" * 43,
    ],
)
def test_damaged_partition_metadata_is_refused(damaged: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        decode_partition_metadata(damaged)


def test_meta_properties_of_kraft_are_read_and_written() -> None:
    meta = MetaProperties("uHI9VkB4Sx2kXX4Y0WbGJw", 3, TOPIC_ID)
    assert MetaProperties.decode(meta.encode()) == meta
    text = (
        b"#\n#Fri Oct 02 10:00:00 UTC 2026\ncluster.id=uHI9VkB4Sx2kXX4Y0WbGJw\n"
        b"directory.id=AAECAwQFBgcICQoLDA0ODw\nnode.id=3\nversion=1\n"
    )
    assert MetaProperties.decode(text) == meta


def test_meta_properties_of_zookeepers_time_are_read() -> None:
    text = b"broker.id=2\nversion=0\ncluster.id=uHI9VkB4Sx2kXX4Y0WbGJw\n"
    assert MetaProperties.decode(text) == ("uHI9VkB4Sx2kXX4Y0WbGJw", 2, None)


@pytest.mark.parametrize(
    "damaged", [b"", b"version=1\nnode.id=1\n", b"version=1\nnode.id=x\ncluster.id=c"]
)
def test_damaged_meta_properties_are_refused(damaged: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        MetaProperties.decode(damaged)


def test_the_marker_of_a_clean_stop_tells_the_broker_epoch() -> None:
    left = CleanShutdown(17, {"recovery-point-offset-checkpoint": 4})
    assert CleanShutdown.decode(left.encode()) == left
    assert left.encode().startswith(b'{"version":0,"brokerEpoch":17,')
    assert CleanShutdown.decode(b'{"version":0,"brokerEpoch":17}') == (17, {})
    for other in (b"", b"{}", b"[]", b"x", b'{"brokerEpoch":[],"checksums":3}'):
        assert CleanShutdown.decode(other) == (-1, {})
    assert CleanShutdown.decode(b'{"brokerEpoch":1,"checksums":3}') == (1, {})


# Writing in the background


def test_what_is_being_written_is_claimed_already(files: MemoryFilesystem) -> None:
    checkpoint = OffsetCheckpoint(files, "/d/points")
    checkpoint.write({PLAIN: 5})
    work = checkpoint.prepare({PLAIN: 9})
    assert checkpoint.claim(PLAIN) == 9
    assert not checkpoint.says({PLAIN: 9})
    checkpoint.written(work())
    assert checkpoint.says({PLAIN: 9})
    assert files.read("/d/points") == b"0\n1\nplain 0 9\n"
    assert OffsetCheckpoint(files, "/d/points").read() == {PLAIN: 9}


def test_older_content_is_never_written_after_newer(files: MemoryFilesystem) -> None:
    checkpoint = OffsetCheckpoint(files, "/d/points")
    late = checkpoint.prepare({PLAIN: 100})
    checkpoint.write({PLAIN: 50})
    checkpoint.written(late())
    assert files.read("/d/points") == b"0\n1\nplain 0 50\n"
    assert checkpoint.claim(PLAIN) == 50


def test_superseded_content_may_have_reached_the_disk(files: MemoryFilesystem) -> None:
    checkpoint = OffsetCheckpoint(files, "/d/points")
    checkpoint.prepare({PLAIN: 100})
    checkpoint.prepare({PLAIN: 50})
    assert checkpoint.claim(PLAIN) == 100


@pytest.mark.parametrize("name", ["abc", "a:b=c", "#1!", "caf\u00e9", "a\\b", "-_Zz09"])
def test_whatever_a_cluster_is_called_is_read_as_java_writes_it(name: str) -> None:
    meta = MetaProperties(name, 1)
    assert MetaProperties.decode(meta.encode()).cluster_id == name


def test_escapes_of_java_are_understood() -> None:
    data = b"#Mon Jan 01 00:00:00 UTC 2024\ncluster.id=prod\\:eu\\=1\\u00E9\nversion=1\nnode.id=3\n"
    assert MetaProperties.decode(data) == MetaProperties("prod:eu=1\u00e9", 3)
