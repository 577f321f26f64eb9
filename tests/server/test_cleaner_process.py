"""The process that cleans, as a broker starts it: it works, it dies, it is killed, it is left."""

import asyncio
import io
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage import cleaning, logs

from ottla.common.errors import CorruptMessage
from ottla.common.promise import Promise
from ottla.server.cleaner_process import CleanerProcess, Throttle, receive, send
from ottla.server.environment import LoopScheduler
from ottla.storage.cleaning.cleanable import log_to_clean
from ottla.storage.cleaning.log_cleaning import Cleaning
from ottla.storage.cleaning.plan import CleaningAborted, MapBuilt, MapPlan, SegmentToMap
from ottla.storage.cleaning.worker import WorkerDied, WorkerSettings
from ottla.storage.files import OsFilesystem
from ottla.storage.log import Log

SETTINGS = WorkerSettings(1 << 16, 1e300)


class Here:
    """A loop, a log on a real disk, and a worker."""

    def __init__(self, path: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.scheduler = LoopScheduler(self.loop)
        self.worker = CleanerProcess(self.scheduler, SETTINGS)
        self.log = logs.open_log(
            OsFilesystem(), cleaning.compacted(), directory=str(path / "topic-0")
        )
        for number in range(200):
            cleaning.put(self.log, [(b"%d" % (number % 10), b"v" * 100)], codec=number % 5)
        self.cleaning = Cleaning(log_to_clean(self.log, None, logs.NOW)[0], logs.NOW)

    def wait(self, promise: Promise[MapBuilt]) -> MapBuilt:
        if not promise.done:
            promise.when_done(lambda _: self.loop.stop())
            self.loop.run_forever()
        return promise.result()

    def process(self) -> "subprocess.Popen[bytes]":
        assert self.worker._process is not None
        return self.worker._process


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    found = Here(tmp_path)
    yield found
    found.worker.close()
    found.log.close(logs.NOW)
    found.scheduler.close()
    found.loop.close()


def clean(here: Here) -> Log:
    log = here.log
    built = here.wait(here.worker.build_map(here.cleaning.map_plan(1000, 0.9)))
    for group in here.cleaning.mapped(built):
        promise = here.worker.clean(here.cleaning.group_plan(group))
        promise.when_done(lambda _: here.loop.stop())
        here.loop.run_forever()
        assert promise.result().records_read > 0
        here.cleaning.swap(group)
    return log


def test_it_cleans_as_a_thread_would(here: Here) -> None:
    table = cleaning.newest(cleaning.read_committed(here.log))
    size = here.log.size()
    log = clean(here)
    assert log.size() < size / 4
    assert cleaning.newest(cleaning.read_committed(log)) == table


def test_what_it_cannot_do_it_says(here: Here) -> None:
    plan = here.cleaning.map_plan(1000, 0.9)
    segment = plan.segments[0]
    cut = plan._replace(segments=[segment._replace(size=segment.size - 1)])
    with pytest.raises(CorruptMessage):
        here.wait(here.worker.build_map(cut))
    missing = plan._replace(segments=[SegmentToMap(12345, 0, 100, 12346)])
    with pytest.raises(FileNotFoundError):
        here.wait(here.worker.build_map(missing))
    assert here.wait(here.worker.build_map(plan)).end_offset > 0, "and it goes on"


def test_its_death_is_told_and_not_an_error_of_the_disk(here: Here) -> None:
    plan = here.cleaning.map_plan(1000, 0.9)
    here.wait(here.worker.build_map(plan))
    process = here.process()
    process.kill()
    process.wait(30)
    with pytest.raises(WorkerDied):
        here.wait(here.worker.build_map(plan))


def test_without_threads_it_is_ended_all_the_same(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = here.cleaning.map_plan(1000, 0.9)
    here.wait(here.worker.build_map(plan))
    process = here.process()

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(WorkerDied):
        here.worker.build_map(plan)
    here.worker.abort()
    assert process.wait(30) != 0


def test_to_abort_is_to_kill_it(here: Here) -> None:
    plan = here.cleaning.map_plan(1000, 0.9)
    here.wait(here.worker.build_map(plan))
    process = here.process()
    process.send_signal(signal.SIGSTOP)
    promise = here.worker.build_map(plan)
    here.worker.abort()
    with pytest.raises(CleaningAborted):
        here.wait(promise)
    assert process.wait(30) == -signal.SIGKILL


def test_it_ends_with_its_input(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.server.cleaner_process", "4096", "1.0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    send(process.stdin, MapPlan(str(tmp_path), [], 0, [], 10, 9))
    assert receive(process.stdout.read) == MapBuilt(0, 0, 0.0)
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


def test_messages_are_whole_or_none() -> None:
    sink = io.BytesIO()
    send(sink, [1, "two"])
    data = sink.getvalue()
    pieces = iter([data[:3], data[3:8], data[8:9], data[9:]])
    assert receive(lambda _size: next(pieces)) == [1, "two"]
    cut = io.BytesIO(data[:-1])
    with pytest.raises(EOFError):
        receive(cut.read)


def test_the_throttle_keeps_the_rate() -> None:
    now = 0.0

    def let_pass(seconds: float) -> None:
        nonlocal now
        now += seconds

    throttle = Throttle(1000.0, lambda: now, let_pass)
    for _ in range(100):
        throttle(100)
        now += 0.001
    assert 9.5 <= now <= 10.5
    quick = Throttle(1e300, lambda: now, let_pass)
    before = now
    for _ in range(100):
        quick(1 << 20)
    assert now == before


def test_a_program_that_is_not_there_any_more_is_no_error_of_the_disk(
    here: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(WorkerDied, match="No such file"):
        here.wait(here.worker.build_map(here.cleaning.map_plan(1000, 0.9)))


def test_a_program_that_cannot_run_is_none_either(
    here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(WorkerDied):
        here.wait(here.worker.build_map(here.cleaning.map_plan(1000, 0.9)))
