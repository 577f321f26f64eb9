"""Power is lost after every single change of the disk in a long life of a broker's logs.

A log manager on a disk in memory lives through appends over several segments, rolls, flushes,
checkpoints, retention, truncations, a move, clean stops and starts. After each operation that
changes the disk (a write, a truncation, a sync, a rename, a removal, a new name) the disk is
looked at as a power loss would leave it: with all that was not synced gone, and with arbitrary
parts of it kept and torn. It is opened, and the log must

- have a prefix of what was appended, with nothing in it changed,
- have at least all that was flushed and not given up since,
- and go on: append, flush, lose power again, stop cleanly, start again.
"""

import pytest
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler

from ottla.common.chance import Chance
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.storage.sound_headers import headers_from
from ottla.testing.files import MemoryFilesystem

PATHS = ["/data/a", "/data/b"]
CONFIG = logs.settings(internal_segment_bytes=800, file_delete_delay_ms=0)

Content = dict[int, bytes]


def start(files: MemoryFilesystem) -> LogManager:
    manager = LogManager(
        files,
        PATHS,
        clock=ManualScheduler(logs.NOW),
        chance=Chance(1),
        config_for=lambda _topic: CONFIG,
    )
    manager.start()
    assert manager.online_directories == manager.directories
    return manager


class Life:
    """A log, what was appended to it, and what a crash may leave of that."""

    def __init__(self, files: MemoryFilesystem) -> None:
        self.files = files
        self.number = 0
        self.content: Content = {}
        """All that was appended and not truncated, deleted records included."""
        self.possible: list[Content] = [self.content]
        """The log is a prefix of one of these."""
        self.start_offset = 0
        self.flushed_end = 0
        """Everything from the start offset up to here must be there."""
        self.manager = start(files)

    @property
    def log(self) -> Log:
        return self.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)

    def append(self, count: int, *, epoch: int = 0) -> None:
        log = self.log
        self.number += 1
        values = [f"{self.number}-{position}".encode().ljust(70, b".") for position in range(count)]
        first = log.log_end_offset
        self.content |= {first + position: value for position, value in enumerate(values)}
        # Each append by another producer: none may be remembered that is not in the log.
        data = logs.batch(values, producer_id=self.number, producer_epoch=0, sequence=0)
        assert logs.append_batch(log, data, epoch=epoch).first_offset == first
        log.set_high_watermark(log.log_end_offset)

    def flush(self) -> None:
        self.log.flush(logs.NOW)
        self.flushed_end = self.log.log_end_offset

    def flush_rolled(self) -> None:
        """As the driver does after a roll."""
        for log in self.manager.take_rolled():
            up_to = log.segments.active.base_offset
            flush = log.prepare_flush(up_to)
            assert flush is not None
            self.append(1)
            flush.run()
            log.flushed(flush, logs.NOW)
            self.flushed_end = max(self.flushed_end, up_to)

    def checkpoint(self) -> None:
        for directory in self.manager.directories:
            self.manager._write_checkpoints(directory)

    def remove_deleted(self) -> None:
        logs.remove_due(self.manager)

    def delete_records(self, offset: int) -> None:
        self.start_offset = offset
        self.log.delete_records_before(offset)
        assert self.log.delete_old_segments(logs.NOW) > 0

    def truncate(self, offset: int) -> None:
        after = {o: value for o, value in self.content.items() if o < offset}
        self.possible = [self.content, after]
        self.flushed_end = min(self.flushed_end, offset)
        self.log.truncate_to(offset, logs.NOW)
        self.content = after
        self.possible = [after]

    def restart_at(self, offset: int) -> None:
        self.possible = [self.content, {}]
        self.flushed_end, self.start_offset = 0, max(self.start_offset, offset)
        self.log.truncate_fully_and_start_at(offset, logs.NOW)
        self.content = {}
        self.possible = [self.content]
        self.start_offset = self.flushed_end = offset

    def move(self, path: str) -> None:
        self.manager.create_future(logs.TOPIC, path)
        while not self.manager.copy_to_future(logs.TOPIC, 300):
            pass
        future = self.manager.future_logs[logs.TOPIC]
        future.flush(logs.NOW)
        path = self.manager.name_future(logs.TOPIC)
        self.files.sync_directory(future.directory)
        self.files.sync_directory(path)
        self.manager.replace_current_with_future(logs.TOPIC)
        self.flushed_end = self.log.log_end_offset

    def stop_and_start(self) -> None:
        self.manager.stop(broker_epoch=3)
        self.flushed_end = max(self.content, default=self.flushed_end - 1) + 1
        self.manager = start(self.files)
        assert self.manager.previous_broker_epoch() == 3


def live(life: Life) -> None:
    """The long life."""
    for count in (1, 2, 3, 1, 1, 2, 4, 1):
        life.append(count)
    life.flush_rolled()
    life.checkpoint()
    for count in (2, 2, 2):
        life.append(count, epoch=1)
    life.flush()
    life.checkpoint()
    life.append(1, epoch=1)
    life.delete_records(6)
    life.remove_deleted()
    life.truncate(life.log.log_end_offset - 3)
    for _ in range(6):
        life.append(2, epoch=2)
    life.checkpoint()
    life.stop_and_start()
    # Below the snapshot of the clean stop, which is of no segment.
    assert life.log.segments.active.base_offset < life.log.log_end_offset - 2
    life.truncate(life.log.log_end_offset - 2)
    life.append(1, epoch=3)
    life.append(2, epoch=3)
    life.flush()
    life.append(1, epoch=3)
    life.log.roll(logs.NOW)
    life.append(2, epoch=3)
    life.truncate(10)
    life.append(2, epoch=4)
    life.flush()
    other = next(path for path in PATHS if not life.log.directory.startswith(path))
    life.move(other)
    life.remove_deleted()
    life.append(3, epoch=4)
    life.checkpoint()
    life.restart_at(100)
    life.append(3, epoch=5)
    life.flush()
    life.checkpoint()
    life.append(1, epoch=5)
    life.restart_at(50)
    life.append(3, epoch=6)
    life.append(3, epoch=6)
    life.stop_and_start()
    life.append(1, epoch=7)


def recovered(files: MemoryFilesystem) -> tuple[LogManager, Log]:
    manager = start(files)
    log = manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
    return manager, log


def check(life: Life, files: MemoryFilesystem, chance: Chance) -> None:
    """What a crash has left is sound, and goes on."""
    manager, log = recovered(files)
    content = logs.values_of(log)
    end = log.log_end_offset
    assert end >= life.flushed_end
    assert log.log_start_offset <= life.start_offset
    prefixes = [
        {o: value for o, value in possible.items() if o < end} for possible in life.possible
    ]
    ever = next(
        prefix
        for prefix in prefixes
        if content == {o: value for o, value in prefix.items() if o >= log.log_start_offset}
    )
    check_state(log, ever)
    flushes = chance.below(2) == 1
    for _ in range(2):
        # A follower goes on in the epoch in which it was.
        logs.append(log, b"new".ljust(70, b"!"), epoch=max(log.latest_epoch, 0))
    if flushes:
        log.flush(logs.NOW)
        end = log.log_end_offset
    logs.append(log, b"last", epoch=max(log.latest_epoch, 0))
    everything = logs.values_of(log)
    files.crash(chance)

    manager, log = recovered(files)
    after = logs.values_of(log)
    assert after.items() <= everything.items()
    assert list(after) == list(everything)[: len(after)]
    assert log.log_end_offset >= (end if flushes else life.flushed_end)
    check_state(log, ever)
    manager.stop()
    files.kill()

    _, log = recovered(files)
    assert logs.values_of(log) == after
    assert log.recovery_point == log.log_end_offset
    check_state(log, ever)


def check_state(log: Log, content: Content) -> None:
    """Epochs and producers are those of the batches."""
    producers = set()
    for segment in log.segments:
        for _, header in headers_from(segment, segment.base_offset):
            if header.last_offset < log.log_start_offset:
                continue
            assert log.epochs.epoch_for_offset(header.last_offset) == header.partition_leader_epoch
            if header.producer_id >= 0:
                producers.add(header.producer_id)
                entry = log.producers.producers[header.producer_id]
                assert entry.last_data_offset == header.last_offset
    # Those of deleted records may still be known, others not.
    ever = {int(value.partition(b"-")[0]) for value in content.values() if b"-" in value}
    assert producers <= set(log.producers.producers) <= ever


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_whatever_a_crash_leaves_is_a_prefix_with_all_that_was_flushed(seed: int | None) -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    files.sync_directory("/")
    life = Life(files)
    crashes = 0

    def crash(_operation: str, _path: str) -> None:
        nonlocal crashes
        crashes += 1
        chance = None if seed is None else Chance(seed * 100_000 + crashes)
        check(life, files.after_crash(chance), Chance(crashes))

    files.after = crash
    live(life)
    assert crashes > 300
