"""An embedded broker: the real server on a thread of this process, on a free port of loopback.

    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

Data goes to a temporary directory that is removed at the end, or to the one that is given, which
stays. ``stop`` and ``start`` restart it on the same data and the same port.

``Broker(security="sasl_ssl")``, or "ssl" or "sasl_plaintext", has made-up certificates and users;
``broker.librdkafka_properties()`` and ``broker.client_properties()`` let a client in.
"""

import shutil
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.config.broker import BrokerConfig
from ottla.server.defaults import development_properties
from ottla.server.local_security import LocalSecurity
from ottla.server.main import Running, new_event_loop
from ottla.server.prepare import prepare_storage
from ottla.testing.secured import Secured

START_SECONDS = 30.0


class Broker(Secured):
    """One broker that is also its own controller."""

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        directory: str | None = None,
        security: str | None = None,
    ) -> None:
        self._overrides = dict(config or {})
        self._temporary = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="ottla-")
        self._data = self.directory
        self.security = None
        if security is not None:
            # Beside the data, which is a log directory and holds nothing else.
            self._data = str(Path(self.directory) / "data")
            self.security = LocalSecurity(security, Path(self.directory) / "security")
        self._port = 0
        self._thread: threading.Thread | None = None
        self._running: Running | None = None

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        assert self._thread is None, "it runs already"
        properties = development_properties(self._data, port=self._port)
        users: list[str] = []
        if self.security is not None:
            properties |= _secured_listeners(self.security.protocol, self._port)
            properties |= self.security.node_settings()
            users = self.security.scram_users()
        config = BrokerConfig.from_properties({**properties, **self._overrides})
        prepare_storage(config, add_scram=users)
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


def _secured_listeners(protocol: str, port: int) -> dict[str, str]:
    return {
        "listeners": f"{protocol}://127.0.0.1:{port},CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": f"{protocol}:{protocol},CONTROLLER:{protocol}",
        "inter.broker.listener.name": protocol,
    }
