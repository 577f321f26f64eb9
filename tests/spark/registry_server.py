"""A schema registry in this process: Confluent's REST interface, as far as it is asked."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import unquote, urlsplit


class RegistryServer:
    """Keeps schemas, counts requests, and can be told to misbehave."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.requests: list[str] = []
        self.credentials: str | None = None
        self.failures = 0
        """So many requests are answered with status 503."""
        self.body: bytes | None = None
        """What every request is answered with, whatever it asks."""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def do_POST(self) -> None:
                outer.answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, subject: str, kind: str, text: str, references: object = ()) -> int:
        for number, known in self.schemas.items():
            if (known["schemaType"], known["schema"]) == (kind, text):
                versions = self.subjects.setdefault(subject, [])
                if number not in versions:
                    versions.append(number)
                return number
        number = len(self.schemas) + 1
        self.schemas[number] = {"schema": text, "schemaType": kind, "references": references}
        self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path
        self.requests.append(f"{request.command} {path}")
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        if self.failures:
            self.failures -= 1
            status, answer = 503, {"error_code": 50301, "message": "leader not known"}
        elif self.credentials is not None and not self._allowed(request):
            status, answer = 401, {"error_code": 401, "message": "Unauthorized"}
        else:
            status, answer = self._find(request.command, path, body)
        content = json.dumps(answer).encode() if self.body is None else self.body
        request.send_response(status)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)

    def _allowed(self, request: BaseHTTPRequestHandler) -> bool:
        wanted = base64.b64encode((self.credentials or "").encode()).decode()
        return request.headers.get("Authorization") == f"Basic {wanted}"

    def _find(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if parts[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(parts[2]))
            return (200, found) if found else (404, {"error_code": 40403, "message": "not found"})
        subject = parts[1]
        versions = self.subjects.setdefault(subject, [])
        if method == "POST":
            content = json.loads(body)
            kind, text = content["schemaType"], content["schema"]
            if len(parts) == 3:
                return 200, {"id": self.add(subject, kind, text, content.get("references", ()))}
            for version, number in enumerate(versions, 1):
                if self.schemas[number]["schema"] == text:
                    return 200, {"id": number, "version": version, "subject": subject}
            return 404, {"error_code": 40403, "message": "Schema not found"}
        version = len(versions) if parts[3] == "latest" else int(parts[3])
        if not 0 < version <= len(versions):
            return 404, {"error_code": 40401, "message": f"Subject '{subject}' not found."}
        number = versions[version - 1]
        return 200, {"id": number, "subject": subject, "version": version, **self.schemas[number]}
