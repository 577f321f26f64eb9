"""What a producer may send again is known again after any stop.

Three producers write to a log of small segments that is flushed, cut, stopped and started. After
each operation that changes the disk it is looked at as a power loss or a kill would leave it: each
of the last five batches of each producer that are in the log is answered as a duplicate, with the
offset that it has.
"""

import pytest
from tests.storage import logs
from tests.storage.test_crash_points import start

from ottla.common.chance import Chance
from ottla.records.batch import BatchHeader
from ottla.storage.log import Log
from ottla.storage.manager import LogManager
from ottla.storage.recent_batches import ENTRIES_MAX
from ottla.storage.results import AppendInfo
from ottla.storage.sound_headers import headers_from
from ottla.testing.files import MemoryFilesystem

PRODUCERS = (1, 2, 3)


def produce(log: Log, sequence: int, count: int, producer: int) -> AppendInfo:
    values = [b"." * 40] * count
    data = logs.batch(values, producer_id=producer, producer_epoch=0, sequence=sequence)
    return logs.append_batch(log, data)


def batches_of(log: Log) -> dict[int, list[BatchHeader]]:
    found: dict[int, list[BatchHeader]] = {producer: [] for producer in PRODUCERS}
    for segment in log.segments:
        for _, header in headers_from(segment, segment.base_offset):
            found[header.producer_id].append(header)
    return found


def check(files: MemoryFilesystem) -> None:
    log = start(files).get_or_create(logs.TOPIC, logs.TOPIC_ID)
    for producer, batches in batches_of(log).items():
        for header in batches[-5:]:
            count = header.last_offset_delta + 1
            info = produce(log, header.base_sequence, count, producer)
            assert info.is_duplicate
            assert info.first_offset == header.base_offset
        following = batches[-1].last_sequence + 1 if batches else 0
        assert not produce(log, following, 1, producer).is_duplicate


class Life:
    def __init__(self, files: MemoryFilesystem) -> None:
        self.files = files
        self.manager: LogManager = start(files)
        self.chance = Chance(5)

    @property
    def log(self) -> Log:
        return self.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)

    def write(self, times: int) -> None:
        for _ in range(times):
            producer = PRODUCERS[self.chance.below(3)]
            entry = self.log.producers.producers.get(producer)
            sequence = 0 if entry is None else entry.last_sequence + 1
            produce(self.log, sequence, 1 + self.chance.below(3), producer)
        self.log.set_high_watermark(self.log.log_end_offset)

    def flush(self) -> None:
        self.log.flush(logs.NOW)
        for directory in self.manager.directories:
            self.manager._write_checkpoints(directory)

    def restart(self, *, cleanly: bool) -> None:
        if cleanly:
            self.manager.stop(broker_epoch=1)
        self.files.kill()
        self.manager = start(self.files)


def live(life: Life) -> None:
    life.write(12)
    life.flush()
    life.write(6)
    life.restart(cleanly=True)
    life.write(3)
    life.restart(cleanly=False)
    life.write(4)
    life.log.truncate_to(life.log.log_end_offset - 3, logs.NOW)
    life.write(5)
    life.flush()
    life.log.roll(logs.NOW)
    life.flush()
    life.write(2)
    life.restart(cleanly=False)
    life.restart(cleanly=True)
    life.write(8)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_after_a_crash_at_any_operation_the_last_five_batches_are_known(seed: int | None) -> None:
    files = MemoryFilesystem()
    files.make_directory("/data")
    files.sync_directory("/")
    life = Life(files)
    crashes = 0

    def crash(_operation: str, _path: str) -> None:
        nonlocal crashes
        crashes += 1
        check(files.after_crash(None if seed is None else Chance(seed * 1000 + crashes)))

    files.after = crash
    live(life)
    assert crashes > 100


def test_a_clean_start_looks_back_no_further_than_the_limit() -> None:
    files = logs.filesystem()
    config = logs.settings(internal_segment_bytes=1 << 20, index_interval_bytes=0)
    log = logs.open_log(files, config)
    for sequence in range(10):
        produce(log, sequence, 1, 1)
    for sequence in range(ENTRIES_MAX - 4):
        produce(log, sequence, 1, 2)
    log.close(logs.NOW)
    log = logs.open_log(files, config)
    known = log.producers.producers
    assert [batch.first_offset for batch in known[1].batches] == [6, 7, 8, 9]
    assert len(known[2].batches) == 5
