"""The real environment: the operating system's clock, chance and threads, on an event loop."""

import asyncio
import mmap
import os
import struct
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from ottla.common.environment import Cancellable
from ottla.common.promise import Promise

T = TypeVar("T")

CLOCK_OFFSET_FILE = "OTTLA_TESTING_CLOCK_OFFSET_FILE"
"""For tests: a file with the milliseconds, as 8 bytes, by which the wall clock is to be wrong."""
BACKGROUND_THREADS = 4
"""For fsync and deletion: they wait for the disk, not for a core."""
REMOTE_THREADS_MAX = 256
"""For the remote store: bounded by the pools that use them; made when they are first needed."""


class LoopScheduler:
    """Time and waiting by an asyncio event loop; blocking work by a few threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._threads = ThreadPoolExecutor(BACKGROUND_THREADS, thread_name_prefix="ottla")
        self._remote_threads = ThreadPoolExecutor(
            REMOTE_THREADS_MAX, thread_name_prefix="ottla-remote"
        )
        self.monotonic = time.monotonic  # noqa: TID251 - the one place
        self.call_later: Callable[..., Cancellable] = loop.call_later
        self.call_soon: Callable[..., Cancellable] = loop.call_soon

        shifted = os.environ.get(CLOCK_OFFSET_FILE)
        self.wall_ms: Callable[[], int] = wall_ms if shifted is None else shifted_clock(shifted)

    def run_in_background(self, work: Callable[[], T]) -> Promise[T]:
        return self._run(self._threads, work)

    def run_remote(self, work: Callable[[], T]) -> Promise[T]:
        """The same for work that waits for the remote store, which may take its time."""
        return self._run(self._remote_threads, work)

    def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> Promise[T]:
        promise: Promise[T] = Promise()
        future = threads.submit(work)
        future.add_done_callback(lambda done: self._back_on_loop(done, promise))
        return promise

    def run_in_own_thread(self, work: Callable[[], T]) -> Promise[T]:
        """As ``run_in_background``, for work that waits long, and that no exit waits for."""
        promise: Promise[T] = Promise()
        future: Future[T] = Future()
        future.add_done_callback(lambda done: self._back_on_loop(done, promise))

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever reads the promise
                future.set_exception(error)

        threading.Thread(target=run, name="ottla-waiting", daemon=True).start()
        return promise

    def _back_on_loop(self, future: "Future[T]", promise: Promise[T]) -> None:
        # When the loop has ended, nobody waits for the answer any more.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_settle, future, promise)

    def close(self) -> None:
        self._threads.shutdown(wait=True)
        self._remote_threads.shutdown(wait=True, cancel_futures=True)


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
