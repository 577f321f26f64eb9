"""A truncation near damaged batches: they stand in the way of nothing that is appended later."""

import pytest
from tests.storage import logs
from tests.storage.test_verification import served

from ottla.common.errors import CorruptMessage
from ottla.records.batch import batches
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

BATCHES = 6
SETTINGS = logs.settings(internal_segment_bytes=1 << 20)
BODY, LENGTH = -1, 10
"""Where a batch is damaged: in its last record, or in its length."""


def damaged(*numbers: int, at: int = BODY) -> tuple[MemoryFilesystem, Log]:
    """A log of batches of two records, opened after a clean stop; some of them were damaged."""
    files = logs.filesystem()
    log = logs.open_log(files, SETTINGS)
    for number in range(BATCHES):
        logs.append(log, *[b"old %d" % number] * 2, timestamp=logs.NOW + number)
    path = log.segments[0].path
    log.close(logs.NOW)
    data = bytearray(files.read(path))
    found = list(batches(bytes(data)))
    for number in numbers:
        position, size = found[number]
        data[position + at % size] ^= 1
    files.write(path, bytes(data))
    return files, open_again(files)


def open_again(files: MemoryFilesystem, end: int = 2 * BATCHES) -> Log:
    log = logs.open_log(files, SETTINGS, recovery_point=end)
    log.set_high_watermark(log.log_end_offset)
    return log


def grow(log: Log, count: int) -> list[int]:
    first = log.log_end_offset
    for _ in range(count):
        logs.append(log, b"new", b"new", epoch=1)
    return list(range(first, log.log_end_offset))


@pytest.mark.parametrize("at", [BODY, LENGTH])
@pytest.mark.parametrize("numbers", [(0,), (2,), (0, 1), (2, 3), (2, 3, 4, 5), range(BATCHES)])
@pytest.mark.parametrize("offset", range(2 * BATCHES))
@pytest.mark.parametrize("rolls", [False, True])
def test_what_is_appended_behind_a_truncation_is_read_in_every_later_life(
    numbers: tuple[int, ...], offset: int, at: int, rolls: bool
) -> None:
    files, log = damaged(*numbers, at=at)
    log.truncate_to(offset, logs.NOW)
    assert log.log_end_offset <= offset
    # Behind two lengths that are wrong nothing is found, and so nothing is kept.
    found = BATCHES if at == BODY or len(numbers) == 1 else numbers[0]
    sound = [each for each in range(found) if each not in numbers and 2 * each + 2 <= offset]
    assert log.log_end_offset >= 2 * max(sound, default=-1) + 2
    if rolls:
        log.roll(logs.NOW)
    new = grow(log, 3)
    for _ in range(2):
        log.set_high_watermark(log.log_end_offset)
        assert served(log, new[0])[-len(new) :] == new
        for first in range(0, new[0], 2):
            if first // 2 in numbers:
                with pytest.raises(CorruptMessage):
                    served(log, first)
            elif first // 2 in sound:
                assert served(log, first)[0] == first
        log.close(logs.NOW)
        log = open_again(files, new[-1] + 1)
        assert log.log_end_offset == new[-1] + 1
