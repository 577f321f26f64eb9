"""A real S3 server: moto's, in a process of its own on a port of its own."""

import contextlib
import http.client
import re
import subprocess
import sys
from collections.abc import Iterator

BUCKET = "tier"
_RUNNING = re.compile(r"Running on http://127\.0\.0\.1:(\d+)")


class S3Server:
    def __init__(self, port: int) -> None:
        self.port = port

    @property
    def settings(self) -> dict[str, str]:
        return {
            "ottla.remote.store.endpoint": f"http://127.0.0.1:{self.port}",
            "ottla.remote.store.allow.http": "true",
            "ottla.remote.store.region": "us-east-1",
            "ottla.remote.store.access.key.id": "key",
            "ottla.remote.store.secret.access.key": "secret",
        }

    def make_bucket(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        connection.close()


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """It says itself on which port it listens, once it does."""
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            match = _RUNNING.search(line.decode())
            if match is not None:
                server = S3Server(int(match[1]))
                server.make_bucket()
                # What it logs from now on must not fill the pipe.
                with _drained(process.stderr):
                    yield server
                return
        raise AssertionError("the S3 server did not start")
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()


@contextlib.contextmanager
def _drained(stream: object) -> Iterator[None]:
    import threading

    thread = threading.Thread(target=lambda: [None for _ in stream], daemon=True)  # type: ignore[attr-defined]
    thread.start()
    yield
