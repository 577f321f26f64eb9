"""A node as a process: its event loop, its signals, its exit code."""

import asyncio
import gc
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

from ottla.common.chance import Chance
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.network.sockets import LoopNetwork
from ottla.observability.logging import logger
from ottla.server.environment import LoopScheduler
from ottla.server.node import Node, StartRefused
from ottla.storage.files import OsFilesystem

log = logger(__name__)


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Uvloop's when it is installed (``pip install ottla[fast]``), else asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class Running:
    """A node on its event loop; what embeds it or prints its address holds this."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.scheduler = LoopScheduler(loop)
        self.node = Node(
            config,
            filesystem=OsFilesystem(),
            network=LoopNetwork(
                loop,
                send_buffer=config.socket_send_buffer_bytes,
                receive_buffer=config.socket_receive_buffer_bytes,
            ),
            scheduler=self.scheduler,
            chance=Chance(),
        )

    def start(self) -> None:
        """Run the loop until the node serves; StartRefused when it cannot."""
        self._run(self.node.start())

    def stop(self) -> None:
        """Run the loop until everything is on disk; then end it."""
        try:
            self._run(self.node.stop())
        finally:
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
    loop = new_event_loop()
    running = Running(config, loop)
    try:
        running.start()
    except (StartRefused, ApiError, OSError) as refusal:
        log.error("the node does not start", reason=str(refusal))
        with suppress(Exception):
            running.stop()
        return 1
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, loop.stop)
    # What was made until now lives as long as the process: the collector need not look at it.
    gc.collect()
    gc.freeze()
    if ready is not None:
        # On the loop: a signal that came before it runs would be lost.
        loop.call_soon(ready, running)
    loop.run_forever()
    log.info("stopping", node=config.node_id)
    failed = running.node.failure is not None
    running.stop()
    log.info("stopped", node=config.node_id)
    return 1 if failed else 0


def _raise_open_file_limit() -> None:
    """Ask for as many descriptors as we may have: each partition keeps one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
