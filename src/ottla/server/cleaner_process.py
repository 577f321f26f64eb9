"""The process that cleans logs, and the broker's end of it.

A thread would share the interpreter with the broker and take it away for milliseconds at a time,
so the heavy part of a cleaning runs in a process of its own. It is a plain child: started with
``-m`` when there is something to clean, told what to do by pickled plans on its standard input,
answering on its standard output. It touches closed segments and the files that were made for it.

1. It ends when its input does: a broker that stops, or is killed, takes it along, and if it is busy
   it sees that between two reads.
2. To abort is to kill it. What it was writing is removed by the broker.
3. What it cannot do it answers with the exception; if it dies, or cannot be started, its cleaning
   is begun anew later. Only an OSError that it answers with is one of the disk.
"""

import os
import pickle
import select
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import IO, Any, Final, TypeVar

import ottla
from ottla.common.promise import Promise
from ottla.server.environment import LoopScheduler
from ottla.storage.cleaning.plan import (
    CleaningAborted,
    GroupCleaned,
    GroupPlan,
    MapBuilt,
    MapPlan,
)
from ottla.storage.cleaning.worker import WorkerDied, WorkerSettings

NICENESS: Final = 10
"""A cleaning gives way to the broker where there are too few cores for both."""
THROTTLE_SECONDS: Final = 0.3
_LENGTH: Final = Struct(">Q")

T = TypeVar("T")


class CleanerProcess:
    """A worker of the cleaner driver."""

    def __init__(self, scheduler: LoopScheduler, settings: WorkerSettings) -> None:
        self._scheduler = scheduler
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._is_busy = False
        self._is_aborted = False

    def build_map(self, plan: MapPlan) -> Promise[MapBuilt]:
        return self._ask(plan, MapBuilt)

    def clean(self, plan: GroupPlan) -> Promise[GroupCleaned]:
        return self._ask(plan, GroupCleaned)

    def abort(self) -> None:
        self._is_aborted = True
        process = self._process
        if process is not None:
            process.kill()
        if not self._is_busy:
            self.close()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            self._scheduler.run_in_own_thread(lambda: _end(process))
        except RuntimeError:  # the machine has no thread left: nobody waits for its end
            _close_pipes(process)

    def _ask(self, plan: MapPlan | GroupPlan, _answer: type[T]) -> Promise[T]:
        # A thread of its own waits for the child, so that nobody else's work waits with it.
        self._is_busy = True
        try:
            promise: Promise[T] = self._scheduler.run_in_own_thread(lambda: self._exchange(plan))
        except RuntimeError as error:  # the machine has no thread left
            self._is_busy = False
            raise WorkerDied(str(error)) from error
        promise.when_done(lambda _: self._answered())
        return promise

    def _answered(self) -> None:
        self._is_busy = False
        if self._is_aborted:
            self.close()

    # In a thread

    def _exchange(self, plan: MapPlan | GroupPlan) -> Any:
        process = self._process
        try:
            if process is None:
                process = self._process = _start(self._settings)
            if self._is_aborted:
                process.kill()
            assert process.stdin is not None
            assert process.stdout is not None
            send(process.stdin, plan)
            answer = receive(process.stdout.read)
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            # Of a program that is not there any more, of pipes and processes; never of the disk.
            if self._is_aborted:
                raise CleaningAborted from error
            self._is_aborted = True
            what = "has ended" if isinstance(error, EOFError) else f"is of no use: {error}"
            raise WorkerDied(f"the cleaner process {what}") from error
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    with process:
        _close_pipes(process)


def _close_pipes(process: "subprocess.Popen[bytes]") -> None:
    """Its input ends, and so does it."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with suppress(OSError):
            pipe.close()


def send(sink: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    sink.write(_LENGTH.pack(len(data)) + data)
    sink.flush()


def receive(read: Callable[[int], bytes]) -> Any:
    """The next message; EOFError when there is none."""
    (length,) = _LENGTH.unpack(_read_exactly(read, _LENGTH.size))
    return pickle.loads(_read_exactly(read, length))  # noqa: S301 - both ends are this program


def _read_exactly(read: Callable[[int], bytes], size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _start(settings: WorkerSettings) -> "subprocess.Popen[bytes]":
    """Not in the terminal's group: its Ctrl-C is for the broker, which then ends this."""
    packages = str(Path(ottla.__file__).parent.parent)
    paths = [packages, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return subprocess.Popen(  # noqa: S603 - ourselves
        [
            sys.executable,
            "-P",
            "-m",
            "ottla.server.cleaner_process",
            str(settings.buffer_size),
            repr(settings.bytes_per_second),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    )


class Throttle:
    """Keeps a rate by sleeping, looked at every so often."""

    def __init__(
        self,
        bytes_per_second: float,
        now: Callable[[], float],
        sleep: Callable[[float], None],
    ) -> None:
        self._bytes_per_second = bytes_per_second
        self._now = now
        self._sleep = sleep
        self._since = now()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        self._bytes += size
        elapsed = self._now() - self._since
        due = self._bytes / self._bytes_per_second
        if elapsed < THROTTLE_SECONDS and due < THROTTLE_SECONDS:
            return
        if due > elapsed:
            self._sleep(due - elapsed)
        self._since, self._bytes = self._now(), 0


def serve(source: int, sink: IO[bytes], settings: WorkerSettings) -> None:
    """Carry out plans until the input, a descriptor, ends."""
    from ottla.storage.cleaning.cleaner import Cleaner
    from ottla.storage.files import OsFilesystem

    def check() -> None:
        # While we are busy nothing is sent: what can be read is the end.
        if select.select([source], [], [], 0)[0]:
            raise CleaningAborted

    cleaner = Cleaner(
        OsFilesystem(),
        buffer_size=settings.buffer_size,
        check=check,
        throttle=Throttle(settings.bytes_per_second, time.monotonic, time.sleep),  # noqa: TID251
    )
    while True:
        plan = receive(lambda size: os.read(source, size))
        answer: object
        try:
            if isinstance(plan, MapPlan):
                answer = cleaner.build_map(plan)
            else:
                answer = cleaner.clean(plan)
        except Exception as error:  # noqa: BLE001 - the broker decides what it means
            answer = error
        send(sink, answer)


def main() -> None:
    os.nice(NICENESS)
    settings = WorkerSettings(int(sys.argv[1]), float(sys.argv[2]))
    with suppress(EOFError, BrokenPipeError), os.fdopen(1, "wb") as sink:
        serve(0, sink, settings)


if __name__ == "__main__":
    main()
