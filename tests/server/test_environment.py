"""Work in the background of a real loop: what hangs holds up nothing but its own lane."""

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from ottla.common.promise import Promise
from ottla.server import environment
from ottla.server.environment import LANE_THREADS, LoopScheduler


@pytest.fixture
def here() -> Iterator[SimpleNamespace]:
    loop = asyncio.new_event_loop()
    mended = threading.Event()
    yield SimpleNamespace(loop=loop, scheduler=LoopScheduler(loop), mended=mended)
    mended.set()
    loop.close()


def wait(here: SimpleNamespace, promise: Promise[int]) -> int:
    if not promise.done:
        promise.when_done(lambda _: here.loop.stop())
        here.loop.run_forever()
    return promise.result()


def test_a_disk_that_hangs_holds_up_no_other_lane(here: SimpleNamespace) -> None:
    hanging = [
        here.scheduler.run_in_background(here.mended.wait, "/bad") for _ in range(3 * LANE_THREADS)
    ]
    for lane in ("/good", "metadata log", ""):
        assert wait(here, here.scheduler.run_in_background(lambda: 7, lane)) == 7
    assert not any(promise.done for promise in hanging)
    here.mended.set()
    for promise in hanging:
        assert wait(here, promise)
    here.scheduler.close()


def test_within_a_lane_there_are_several_threads(here: SimpleNamespace) -> None:
    for _ in range(LANE_THREADS - 1):
        here.scheduler.run_in_background(here.mended.wait, "/slow")
    for number in range(10):
        assert wait(here, here.scheduler.run_in_background(lambda n=number: n, "/slow")) == number


def test_a_disk_that_hangs_for_ever_does_not_keep_the_process(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "CLOSE_SECONDS", 0.05)
    here.scheduler.run_in_background(here.mended.wait, "/bad")
    here.scheduler.close()
    assert not here.mended.is_set()


def test_a_machine_without_threads_refuses_work(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", cannot)
    with pytest.raises(BlockingIOError):
        wait(here, here.scheduler.run_in_background(lambda: 7, "/any"))


def test_a_remote_store_that_hangs_for_ever_does_not_keep_the_process(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "CLOSE_SECONDS", 0.05)
    begun = threading.Event()

    def hang() -> None:
        begun.set()
        here.mended.wait(20)

    here.scheduler.run_remote(hang)
    begun.wait()
    here.scheduler.close()
    assert not here.mended.is_set()
    threads = [each for each in threading.enumerate() if each.name.startswith("ottla remote")]
    assert threads
    assert all(thread.daemon for thread in threads)


def test_what_a_remote_store_was_not_asked_yet_is_not_begun_at_the_end(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "REMOTE_THREADS_MAX", 1)
    scheduler = LoopScheduler(here.loop)
    begun: list[int] = []
    scheduler.run_remote(here.mended.wait)
    scheduler.run_remote(lambda: begun.append(1))
    monkeypatch.setattr(environment, "CLOSE_SECONDS", 0.05)
    scheduler.close()
    here.mended.set()
    monkeypatch.setattr(environment, "CLOSE_SECONDS", 10.0)
    scheduler.close()
    assert begun == []


def test_a_machine_without_threads_refuses_what_is_to_be_done_remotely(
    here: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", cannot)
    with pytest.raises(BlockingIOError):
        wait(here, here.scheduler.run_remote(lambda: 7))
