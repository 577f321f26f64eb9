"""A node as a process: its event loop, its signals, its exit code."""

import asyncio
import ctypes
import gc
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.network.sockets import LoopNetwork
from ottla.observability.logging import logger
from ottla.server.environment import LoopScheduler
from ottla.server.node import Node
from ottla.server.shared_server import StartRefused
from ottla.storage.cleaning.worker import BackgroundWorker, CleanerWorker, WorkerSettings
from ottla.storage.files import OsFilesystem

log = logger(__name__)

DESCRIPTORS_RESERVED = 32
"""For logs, when connections have taken all others: as many as threads may open files at once."""
MAPPED_BYTES_MIN = 4 << 20
SIZED_BY_SYSTEM = -1
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's when it is installed (``pip install ottla[fast]``), else asyncio's own.

    On Linux they are equally fast, since all sockets are behind one descriptor.
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Running:
    """A node on its event loop; what embeds it or prints its address holds this."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        on_failure: Callable[[], None],
    ) -> None:
        self.loop = loop
        self.scheduler = LoopScheduler(loop)
        self.network = LoopNetwork(
            loop,
            self.scheduler.turn,
            send_buffer=_buffer_bytes(config, "socket.send.buffer.bytes"),
            receive_buffer=_buffer_bytes(config, "socket.receive.buffer.bytes"),
        )
        self.node = Node(
            config,
            filesystem=OsFilesystem(DESCRIPTORS_RESERVED),
            network=self.network,
            scheduler=self.scheduler,
            chance=Chance(),
            on_failure=on_failure,
            start_cleaner=self._start_cleaner,
            remote_background=self.scheduler.run_remote,
        )

    def _start_cleaner(self, settings: WorkerSettings) -> CleanerWorker:
        """In a process of its own, unless nobody can say which program we are."""
        if not sys.executable:
            return BackgroundWorker(OsFilesystem(), self.scheduler, settings)
        from ottla.server.cleaner_process import CleanerProcess

        return CleanerProcess(self.scheduler, settings)

    def start(self) -> None:
        """Run the loop until the node serves; StartRefused when it cannot."""
        self._run(self.node.start())

    def stop(self) -> None:
        """Run the loop until everything is on disk; then end it."""
        try:
            self._run(self.node.stop())
        finally:
            self.close()

    def close(self) -> None:
        self.scheduler.close()
        self.loop.close()

    def _run(self, promise: Promise[None]) -> None:
        if not promise.done:
            promise.when_done(lambda _: self.loop.stop())
            self.loop.run_forever()
        promise.result()


def run_server(config: BrokerConfig, *, ready: Callable[[Running], None] | None = None) -> int:
    """Run a node until SIGINT or SIGTERM; return the exit code."""
    _raise_open_file_limit()
    _keep_freed_memory()
    process = _Process(config, ready)
    return process.run()


class _Process:
    """The life of a node as a process, in one run of the loop: a signal between two is lost."""

    def __init__(self, config: BrokerConfig, ready: Callable[[Running], None] | None) -> None:
        self._loop = new_event_loop()
        self._running = Running(config, self._loop, self._failed)
        self._ready = ready
        self._stopping = False
        self._exit_code = 0

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._signalled)
        self._running.scheduler.call_soon(self._start)
        self._loop.run_forever()
        self._running.close()
        return self._exit_code

    def _start(self) -> None:
        self._running.node.start().when_done(self._has_started)

    def _has_started(self, started: Promise[None]) -> None:
        if self._stopping:
            return
        try:
            started.result()
        except (StartRefused, ApiError, OSError) as refusal:
            log.error("the node does not start", reason=str(refusal))
            self._failed()
            return
        except Exception as error:
            # Whatever it is: a node that runs and does not serve would keep its place from another.
            log.exception("the node does not start", reason=f"{type(error).__name__}: {error}")
            self._failed()
            return
        # What was made until now lives as long as the process: the collector need not look at it.
        gc.collect()
        gc.freeze()
        if self._ready is not None:
            self._ready(self._running)

    def _signalled(self) -> None:
        if self._stopping:
            self._running.node.hurry()
        self._stop()

    def _failed(self) -> None:
        self._exit_code = 1
        self._stop()

    def _stop(self) -> None:
        if not self._stopping:
            self._stopping = True
            log.info("stopping", node=self._running.node.config.node_id)
            self._running.node.stop().when_done(self._has_stopped)

    def _has_stopped(self, stopped: Promise[None]) -> None:
        try:
            stopped.result()
            log.info("stopped", node=self._running.node.config.node_id)
        except Exception:
            log.exception("the node did not stop cleanly")
            self._exit_code = 1
        finally:
            self._loop.stop()


def _buffer_bytes(config: BrokerConfig, name: str) -> int:
    """What the file says; without a word of it the system is left to find the best size itself."""
    return int(str(config.values[name])) if name in config.originals else SIZED_BY_SYSTEM


def _keep_freed_memory() -> None:
    """Let the C library reuse the blocks of large frames; by itself it maps and faults each anew.

    Only glibc has the switch; elsewhere nothing happens.
    """
    with suppress(OSError, AttributeError, TypeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * MAPPED_BYTES_MIN)


def _raise_open_file_limit() -> None:
    """Ask for as many descriptors as we may have: each partition keeps one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
