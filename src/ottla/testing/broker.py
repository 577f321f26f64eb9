"""An embedded broker: the real server on a thread of this process, on a free port of loopback.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Data goes to a temporary directory that is removed at the end, or to the one that is given, which
stays. ``stop`` and ``start`` restart it on the same data and the same port.
"""

import shutil
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.main import Running, new_event_loop
from ottla.server.prepare import prepare_storage

START_SECONDS = 30.0


class Broker:
    """One broker that is also its own controller."""

    def __init__(
        self, *, config: Mapping[str, str] | None = None, directory: str | None = None
    ) -> None:
        self._overrides = dict(config or {})
        self._temporary = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="ottla-")
        self._port = 0
        self._thread: threading.Thread | None = None
        self._running: Running | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        assert self._thread is None, "it runs already"
        properties = development_properties(self.directory, port=self._port)
        config = BrokerConfig.from_properties({**properties, **self._overrides})
        prepare_storage(config)
        started = threading.Event()
        failure: list[BaseException] = []
        self._thread = threading.Thread(
            target=self._serve, args=(config, started, failure), name="ottla-broker", daemon=True
        )
        self._thread.start()
        assert started.wait(START_SECONDS), "the broker did not start in time"
        if failure:
            self._thread.join()
            self._thread = None
            raise failure[0]

    def _serve(
        self, config: BrokerConfig, started: threading.Event, failure: list[BaseException]
    ) -> None:
        loop = new_event_loop()
        # One whose disk fails is left as it is: the test that brought it about looks at it.
        running = Running(config, loop, on_failure=lambda: None)
        try:
            running.start()
        except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
            failure.append(error)
            running.stop()
            return
        else:
            self._port = running.node.port
            self._running = running
        finally:
            started.set()
        loop.run_forever()
        running.stop()

    def stop(self) -> None:
        """Stop cleanly: everything is flushed and marked so."""
        thread, running = self._thread, self._running
        if thread is None or running is None:
            return
        running.loop.call_soon_threadsafe(running.loop.stop)
        thread.join()
        self._thread = self._running = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._clean_up()

    def _clean_up(self) -> None:
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
