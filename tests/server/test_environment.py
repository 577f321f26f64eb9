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
