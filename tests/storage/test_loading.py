"""Logs that are opened elsewhere than on the loop, some at a time."""

import errno

import pytest
from tests.storage import logs
from tests.storage.scheduler import ManualScheduler

from ottla.common.chance import Chance
from ottla.common.promise import run
from ottla.common.topic_partition import TopicPartition
from ottla.storage.loading import LOGS_PER_STEP, STOP_SECONDS, Loading
from ottla.storage.manager import LogManager
from ottla.testing.files import MemoryFilesystem

A, B = "/a", "/b"
LOGS = 4 * LOGS_PER_STEP


class Start:
    """A broker that was killed with some logs, and starts again."""

    def __init__(self, count: int = LOGS) -> None:
        self.files = MemoryFilesystem()
        self.clock = ManualScheduler(logs.NOW)
        manager = self._manager()
        manager.start()
        for partition in range(count):
            log = manager.get_or_create(TopicPartition("topic", partition), logs.TOPIC_ID)
            logs.append(log, b"a", b"b")
        manager.abandon()
        self.files.kill()
        self.count = count
        self.manager = self._manager()
        self.manager.lock()
        self.loads = self.manager.begin_load()
        self.loading = Loading(self.loads, self.clock)
        self.done = self.loading.run()

    def _manager(self) -> LogManager:
        return LogManager(
            self.files,
            [A, B],
            clock=self.clock,
            chance=Chance(1),
            config_for=lambda _topic: logs.settings(),
        )

    def is_whole(self) -> bool:
        self.done.result()
        self.manager.take_loaded(self.loads, lambda _log: False)
        return len(self.manager.logs) == self.count and all(
            log.log_end_offset == 2 for log in self.manager.logs.values()
        )


def test_directories_are_opened_side_by_side_and_in_pieces() -> None:
    start = Start()
    assert start.clock.background == 2
    start.clock.run_background()
    assert [len(load.logs) for load in start.loads] == [LOGS_PER_STEP, LOGS_PER_STEP]
    start.clock.advance(0)
    assert start.is_whole()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("left", [0, 1, 7, 100])
def test_a_process_that_has_too_little_tries_again(number: int, left: int) -> None:
    start = Start()

    def fail(operation: str, path: str) -> OSError | None:
        nonlocal left
        left -= operation in ("open", "create", "keep open")
        return OSError(number, "injected", path) if left < 0 else None

    start.files.fail = fail
    start.clock.advance(10)
    assert not start.done.done
    start.files.fail = lambda _operation, _path: None
    start.clock.advance(2)
    assert len(start.manager.online_directories) == 2
    assert start.is_whole()


def test_a_directory_that_fails_meanwhile_is_offline_and_the_other_is_not() -> None:
    start = Start()

    def fail(_operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "injected", path) if f"{B}/topic-3" in path else None

    start.files.fail = fail
    start.clock.advance(0)
    start.manager.take_loaded(start.loads, lambda _log: False)
    assert [each.path for each in start.manager.online_directories] == [A]
    assert set(start.manager.logs.counts) == {A}


def test_a_stop_waits_for_what_is_under_way_and_begins_nothing() -> None:
    start = Start()
    stopped: list[set[str]] = []
    run(start.clock.turn, start.loading.stop()).when_done(
        lambda done: stopped.append(done.result())
    )
    assert stopped == []
    start.clock.run_background()
    assert stopped == [set()]
    assert start.clock.background == 0
    assert [len(load.logs) for load in start.loads] == [LOGS_PER_STEP, LOGS_PER_STEP]


def test_a_directory_that_does_not_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    start = Start()
    start.clock.hung = {B}
    start.clock.advance(100)
    assert not start.done.done
    told = [each for each in caplog.records if each.getMessage() == "logs are still being opened"]
    assert [vars(each)["ottla_fields"]["directory"] for each in told] == [B, B, B]
    start.clock.hung = set()
    start.clock.advance(0)
    assert start.is_whole()
    caplog.clear()
    start.clock.advance(100)
    assert not caplog.records


def test_a_stop_does_not_wait_for_a_directory_that_does_not_answer() -> None:
    start = Start()
    start.clock.hung = {B}
    stopped = run(start.clock.turn, start.loading.stop())
    start.clock.advance(STOP_SECONDS - 1)
    assert not stopped.done
    start.clock.advance(1)
    hanging = stopped.result()
    assert hanging == {B}
    start.manager.abandon(hanging)
    # What hangs may still be writing: nothing else may use its directory in this process.
    assert start.files.locks == {f"{B}/.lock"}
    start.clock.advance(100)
    assert not start.done.done
