"""Power is lost after every single change of the disk that a cleaning makes.

A manager cleans a log of many small segments by its driver, as a broker does. After each operation
the disk is looked at as a power loss would leave it. The log that is found must stand for the same
table, have no aborted record, the same end and the same producers, no file of a cleaning beside its
segments, and be cleaned again to the same end.
"""

import pytest
from tests.storage import cleaning, logs
from tests.storage.scheduler import ManualScheduler
from tests.storage.test_compaction_properties import producers_of

from ottla.common.chance import Chance
from ottla.storage.cleaning.driver import CleanerDriver, CleanerSettings
from ottla.storage.cleaning.worker import BackgroundWorker
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.testing.files import MemoryFilesystem

SETTINGS = CleanerSettings(
    is_enabled=True,
    threads=1,
    backoff_ms=1000,
    dedupe_buffer_size=24 * 12,
    load_factor=0.9,
    io_buffer_size=1000,
    io_max_bytes_per_second=1e300,
)
CONFIG = cleaning.compacted(
    internal_segment_bytes=900,
    file_delete_delay_ms=100,
    delete_retention_ms=500,
    min_cleanable_dirty_ratio=0.1,
)


class Broker:
    """A manager and its cleaner."""

    def __init__(self, files: MemoryFilesystem) -> None:
        self.files = files
        self.clock = ManualScheduler(logs.NOW)
        self.manager = LogManager(
            files,
            [logs.ROOT],
            clock=self.clock,
            chance=Chance(1),
            config_for=lambda _topic: CONFIG,
        )
        self.manager.start()
        self.log = self.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
        self.driver = CleanerDriver(
            self.manager,
            files,
            self.clock,
            SETTINGS,
            lambda settings: BackgroundWorker(files, self.clock, settings),
        )

    def clean(self) -> None:
        """Let the cleaner do all that it finds to do."""
        self.driver.start()
        self.clock.advance(30)
        self.clock.advance(0)


def fill(log: Log) -> None:
    """Puts, tombstones, codecs, a committed and an aborted transaction, over many segments."""
    for number in range(60):
        key = b"key-%d" % (number % 17)
        value = None if number % 7 == 3 else b"%d" % number * 20
        cleaning.put(log, [(key, value), (b"x", b"%d" % number)], codec=number % 5)
        if number % 10 == 4:
            producer = number % 3 + 1
            cleaning.put(
                log,
                [(key, b"in transaction")],
                producer_id=producer,
                producer_epoch=number,
                sequence=0,
                transactional=True,
            )
            cleaning.end_transaction(log, producer, number, commit=number % 20 == 4)
    log.roll(logs.NOW)
    log.flush(logs.NOW)


def find(files: MemoryFilesystem) -> Broker:
    broker = Broker(files)
    broker.log.set_high_watermark(broker.log.log_end_offset)
    return broker


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_a_crash_in_a_cleaning_changes_nothing_that_a_reader_sees(seed: int | None) -> None:
    files = logs.filesystem()
    broker = Broker(files)
    fill(broker.log)
    broker.manager._write_checkpoints(broker.manager.directories[0])
    files.sync_directory(logs.ROOT)
    table = cleaning.newest(cleaning.read_committed(broker.log))
    history = {seen.offset for seen in cleaning.read_committed(broker.log)}
    producers = producers_of(broker.log.producers)
    end = broker.log.log_end_offset
    crashes = 0
    sizes = set()

    def crash(_operation: str, _path: str) -> None:
        nonlocal crashes
        crashes += 1
        chance = None if seed is None else Chance(seed * 100_000 + crashes)
        found = find(files.after_crash(chance))
        assert cleaning.newest(cleaning.read_committed(found.log)) == table
        assert {seen.offset for seen in cleaning.read_committed(found.log)} <= history
        assert found.log.log_end_offset == end
        assert producers_of(found.log.producers) == producers
        names = found.files.list_directory(logs.DIRECTORY)
        assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
        sizes.add(found.log.size())
        if crashes % 5 == 0:
            found.clean()
            assert cleaning.newest(cleaning.read_committed(found.log)) == table
            assert found.manager.cleaner.clean_offset(found.log) == end

    size = broker.log.size()
    files.after = crash
    broker.clean()
    assert broker.driver.stats.cleanings > 1
    assert broker.manager.cleaner.clean_offset(broker.log) == end
    assert broker.log.size() < size / 2
    assert crashes > 60
    assert len(sizes) > 3, "some crashes came before, some after a segment was replaced"
