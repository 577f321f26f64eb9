"""A log whose older part lies in a remote store: what stays here, what it still claims to have."""

import pytest
from tests.storage import logs
from tests.storage.test_manager import A, B, Broker

from ottla.common.errors import OffsetMovedToTieredStorage, OffsetOutOfRange
from ottla.common.topic_partition import TopicPartition
from ottla.config.topic import TopicConfig
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem


def tiered(**changed: object) -> TopicConfig:
    values: dict[str, object] = {
        "internal_segment_bytes": 800,
        "remote_storage_enable": "true",
        "local_retention_bytes": 0,
        **changed,
    }
    return logs.settings(**values)


def filled(config: TopicConfig, files: MemoryFilesystem | None = None) -> Log:
    """Ten segments or so in three leader epochs, all of it below the high watermark."""
    log = logs.open_log(files or logs.filesystem(), config)
    for number in range(90):
        logs.append(log, b"%d" % number * 20, epoch=number // 30)
    log.set_high_watermark(log.log_end_offset)
    return log


def test_no_segment_goes_before_its_copy_is_finished() -> None:
    log = filled(tiered())
    assert log.delete_old_segments(logs.NOW) == 0
    third = log.segments[3].base_offset
    log.set_highest_remote_offset(third)
    assert log.delete_old_segments(logs.NOW) == 3
    assert log.segments[0].base_offset == third


def test_what_is_gone_from_here_still_belongs_to_the_log() -> None:
    log = filled(tiered())
    epochs = list(log.epochs.entries)
    log.set_highest_remote_offset(log.segments[-1].base_offset - 1)
    assert log.delete_old_segments(logs.NOW) > 5
    assert log.log_start_offset == 0
    assert log.local_log_start_offset == log.segments[0].base_offset > 60
    assert log.epochs.entries == epochs
    with pytest.raises(OffsetMovedToTieredStorage):
        logs.read_bytes(log, 5)
    with pytest.raises(OffsetOutOfRange):
        logs.read_bytes(log, log.log_end_offset + 1)


def test_without_copying_the_whole_retention_counts_and_the_log_start_moves() -> None:
    log = filled(tiered(remote_log_copy_disable="true", retention_bytes=2000))
    assert log.delete_old_segments(logs.NOW) > 0
    assert log.log_start_offset == log.segments[0].base_offset > 0


def test_a_local_retention_that_is_not_set_is_the_whole_one() -> None:
    log = filled(tiered(local_retention_bytes=-2, local_retention_ms=-2, retention_bytes=2000))
    log.set_highest_remote_offset(log.log_end_offset - 1)
    log.delete_old_segments(logs.NOW)
    assert 2000 <= log.size() < 2800


def test_records_that_were_deleted_go_from_here_without_a_copy() -> None:
    log = filled(tiered())
    log.delete_records_before(log.segments[2].base_offset)
    assert log.delete_old_segments(logs.NOW) == 0
    log.saved_start_offset = log.log_start_offset  # by a checkpoint
    assert log.delete_old_segments(logs.NOW) == 2
    assert log.epochs.entries[0].start_offset == log.log_start_offset


@pytest.mark.parametrize("clean", [True, False])
def test_the_log_start_is_kept_over_a_restart(clean: bool) -> None:
    files = logs.filesystem()
    config = tiered()
    log = filled(config, files)
    log.flush(logs.NOW)
    log.set_highest_remote_offset(log.segments[5].base_offset - 1)
    log.delete_old_segments(logs.NOW)
    log.delete_records_before(7)
    local_start, epochs = log.local_log_start_offset, list(log.epochs.entries)
    log.close(logs.NOW)
    again = logs.open_log(files, config, log_start_offset=7, recovery_point=90, clean=clean)
    assert again.log_start_offset == 7
    assert again.local_log_start_offset == local_start
    assert again.epochs.entries == epochs
    assert again.log_end_offset == 90


def test_without_remote_storage_the_log_begins_with_its_first_segment() -> None:
    files = logs.filesystem()
    log = filled(tiered(), files)
    log.set_highest_remote_offset(log.segments[5].base_offset - 1)
    log.delete_old_segments(logs.NOW)
    local_start = log.local_log_start_offset
    log.close(logs.NOW)
    assert logs.open_log(files, logs.settings()).log_start_offset == local_start


def test_producers_are_known_over_a_restart_when_their_first_batches_are_remote() -> None:
    files = logs.filesystem()
    config = tiered()
    log = logs.open_log(files, config)
    for number in range(60):
        data = logs.batch([b"x" * 40], producer_id=9, producer_epoch=0, sequence=number)
        logs.append_batch(log, data)
    log.set_high_watermark(log.log_end_offset)
    log.set_highest_remote_offset(log.log_end_offset - 1)
    log.delete_old_segments(logs.NOW)
    log.close(logs.NOW)
    again = logs.open_log(files, config)
    assert again.producers.producers[9].last_sequence == 59
    data = logs.batch([b"x" * 40], producer_id=9, producer_epoch=0, sequence=59)
    assert logs.append_batch(again, data).is_duplicate


def test_a_log_that_is_moved_takes_its_remote_part_along() -> None:
    files = logs.filesystem()
    broker = Broker(files, A, B)
    broker.config = tiered()
    manager = broker.restart()
    topic = TopicPartition("topic", 0)
    log = manager.get_or_create(topic, logs.TOPIC_ID)
    for number in range(60):
        logs.append(log, b"%d" % number * 20, epoch=number // 20)
    log.set_high_watermark(60)
    log.set_highest_remote_offset(log.segments[4].base_offset - 1)
    log.delete_old_segments(logs.NOW)
    target = B if manager.directory_of(log).path == A else A
    manager.create_future(topic, target)
    while not manager.copy_to_future(topic, 500):
        pass
    manager.name_future(topic)
    moved = manager.replace_current_with_future(topic)
    assert (moved.log_start_offset, moved.log_end_offset) == (0, 60)
    assert moved.local_log_start_offset == log.segments[0].base_offset
    assert moved.epochs.entries == log.epochs.entries
    assert broker.restart().logs[topic].log_start_offset == 0
