"""Each sync of a log's life fails once: it is never taken as done later.

A log is appended to, rolled, flushed at once and in the background, truncated and closed. In each
trial one of its syncs, of a file or of a directory, gives EIO, and the disk keeps nothing of what
that sync was for. From then on the log refuses everything; what a power loss leaves has at least
all that was known to be flushed before.
"""

import errno

import pytest
from tests.storage import logs

from ottla.common.chance import Chance
from ottla.storage.directories import LogDirFailed
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

CONFIG = logs.settings(internal_segment_bytes=700)


class FailingSync:
    """Lets the ``number``-th sync fail, and counts those that come after it."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.has_failed = False
        self.later = 0

    def __call__(self, operation: str, path: str) -> OSError | None:
        if not operation.startswith("sync"):
            return None
        if self.has_failed:
            self.later += 1
            return None
        self._left -= 1
        self.has_failed = self._left < 0
        return OSError(errno.EIO, "injected", path) if self.has_failed else None


def live(log: Log, flushed: list[int]) -> None:
    """What a log goes through; ``flushed`` gets how far it is known to be on disk."""
    for number in range(4):
        for _ in range(6):
            logs.append(log, b"%d" % number * 60, epoch=number)
        if number % 2:
            log.flush(logs.NOW)
        else:
            flush = log.prepare_flush()
            assert flush is not None
            logs.append(log, b"meanwhile" * 10, epoch=number)
            try:
                flush.run()
            except OSError as error:
                log.flushed(flush, logs.NOW, error)
            log.flushed(flush, logs.NOW)
        flushed.append(log.recovery_point)
    end = log.log_end_offset - 3
    flushed[:] = [min(each, end) for each in flushed]
    log.truncate_to(end, logs.NOW)
    logs.append(log, b"last", epoch=9)
    log.close(logs.NOW)
    flushed.append(log.log_end_offset)


def trial(number: int) -> bool:
    files: MemoryFilesystem = logs.filesystem()
    log = logs.open_log(files, CONFIG)
    failing = FailingSync(number)
    files.fail = failing
    flushed: list[int] = [0]
    try:
        live(log, flushed)
    except LogDirFailed:
        assert failing.has_failed
        with pytest.raises(LogDirFailed):
            logs.append(log, b"more")
        with pytest.raises(LogDirFailed):
            log.flush(logs.NOW)
        with pytest.raises(LogDirFailed):
            log.read(0, 100, upper_bound_offset=1, at_least_one=True)
        assert failing.later == 0
    files.fail = lambda _operation, _path: None
    for chance in (None, Chance(number)):
        found = files.after_crash(chance)
        again = logs.open_log(found, CONFIG, clean=False, recovery_point=max(flushed))
        assert again.log_end_offset >= max(flushed)
        assert len(logs.read_all(again)) == again.log_end_offset
    return failing.has_failed


def test_a_sync_that_failed_is_never_taken_as_done() -> None:
    number = 0
    while trial(number):
        number += 1
    assert number > 20
