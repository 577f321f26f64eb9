"""The real environment: the operating system's clock, chance and threads, on an event loop."""

import asyncio
import errno
import mmap
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from ottla.common.environment import Cancellable
from ottla.common.promise import Promise
from ottla.common.turn import Turn

T = TypeVar("T")

CLOCK_OFFSET_FILE = "OTTLA_TESTING_CLOCK_OFFSET_FILE"
"""For tests: a file with the milliseconds, as 8 bytes, by which the wall clock is to be wrong."""
LANE_THREADS = 4
"""Of each lane, for fsync and deletion: they wait for the disk, not for a core."""
CLOSE_SECONDS = 10.0
"""How long the end waits for work that is under way; a disk that hangs may never let it go."""
REMOTE_THREADS_MAX = 256
"""For the remote store: bounded by the pools that use them; made when they are first needed."""


class LoopScheduler:
    """Time and waiting by an asyncio event loop; blocking work by a few threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lanes: dict[str, _Lane] = {}
        self._remote = _Lane("remote", REMOTE_THREADS_MAX)
        self.monotonic = time.monotonic  # noqa: TID251 - the one place
        self.turn = Turn(loop.call_soon)
        self.call_soon: Callable[..., Cancellable] = partial(
            loop.call_soon,
            self.turn.run,  # type: ignore[arg-type]
        )

        shifted = os.environ.get(CLOCK_OFFSET_FILE)
        self.wall_ms: Callable[[], int] = wall_ms if shifted is None else shifted_clock(shifted)

    def call_later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> Cancellable:
        return self._loop.call_later(seconds, self.turn.run, callback, *args)

    def run_in_background(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        threads = self._lanes.get(lane)
        if threads is None:
            threads = self._lanes[lane] = _Lane(lane, LANE_THREADS)
        return self._submit(threads, work)

    def run_remote(self, work: Callable[[], T]) -> Promise[T]:
        """The same for work that waits for the remote store, which may take its time."""
        return self._submit(self._remote, work)

    def _submit(self, threads: "_Lane", work: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise(self.turn)
        future: Future[T] = Future()
        future.add_done_callback(lambda done: self._back_on_loop(done, promise))
        if not threads.submit(lambda: _fulfil(future, work)):
            self.call_soon(promise.fail, OSError(errno.EAGAIN, "no thread can be started"))
        return promise

    def run_in_own_thread(self, work: Callable[[], T]) -> Promise[T]:
        """As ``run_in_background``, for work that waits long, and that no exit waits for."""
        promise: Promise[T] = Promise(self.turn)
        future: Future[T] = Future()
        future.add_done_callback(lambda done: self._back_on_loop(done, promise))

        threading.Thread(
            target=lambda: _fulfil(future, work), name="ottla-waiting", daemon=True
        ).start()
        return promise

    def _back_on_loop(self, future: "Future[T]", promise: Promise[T]) -> None:
        # When the loop has ended, nobody waits for the answer any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.turn.run, _settle, future, promise)

    def close(self) -> None:
        deadline = self.monotonic() + CLOSE_SECONDS
        self._remote.drop()
        lanes = [*self._lanes.values(), self._remote]
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.join(lambda: max(0.0, deadline - self.monotonic()))


class _Lane:
    """Threads that are made as they are needed, and that a process does not wait for to end."""

    def __init__(self, name: str, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._condition = threading.Condition()
        self._queue: deque[Callable[[], None]] = deque()
        self._waiting = 0
        """Threads that have nothing to do."""
        self._threads: list[threading.Thread] = []
        self._has_ended = False

    def submit(self, work: Callable[[], None]) -> bool:
        """Whether there is a thread that will do it."""
        with self._condition:
            self._queue.append(work)
            if self._waiting >= len(self._queue):
                self._condition.notify()
            elif len(self._threads) < self._threads_max and not self._start() and not self._threads:
                self._queue.pop()
                return False
        return True

    def _start(self) -> bool:
        thread = threading.Thread(target=self._run, name=f"ottla {self._name}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the machine has none left
            return False
        self._threads.append(thread)
        return True

    def _run(self) -> None:
        while True:
            with self._condition:
                while not self._queue:
                    if self._has_ended:
                        return
                    self._waiting += 1
                    self._condition.wait()
                    self._waiting -= 1
                work = self._queue.popleft()
            work()

    def drop(self) -> None:
        """Begin nothing of what waits."""
        with self._condition:
            self._queue.clear()

    def end(self) -> None:
        with self._condition:
            self._has_ended = True
            self._condition.notify_all()

    def join(self, seconds_left: Callable[[], float]) -> None:
        for thread in self._threads:
            thread.join(seconds_left())


def _fulfil(future: "Future[T]", work: Callable[[], T]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it belongs to the promise
        future.set_exception(error)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def shifted_clock(path: str) -> Callable[[], int]:
    """A wall clock that is off by what a file says at each moment."""
    with open(path, "rb") as file:  # noqa: PTH123 - only its mapping stays
        shared = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    return lambda: wall_ms() + int(struct.unpack("=q", shared[:8])[0])


def _settle(future: "Future[Any]", promise: Promise[Any]) -> None:
    error = future.exception()
    if error is None:
        promise.fulfil(future.result())
    else:
        promise.fail(error)
