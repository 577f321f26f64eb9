"""Schemas from a registry that speaks Confluent's REST interface.

What an id or a version stands for never changes, so it is asked for once per process. An id that
the registry does not know is an answer (``BadSchema``: the record that names it is bad); a registry
that does not answer, or refuses to, is trouble (any other ``RegistryError``: no record is to blame,
the task fails and is tried again).
"""

import base64
import http.client
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

ANSWER_BYTES_MAX: Final = 8 << 20
REFERENCES_MAX: Final = 256
ATTEMPTS: Final = 3
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND: Final = 404


class RegistryError(Exception):
    """The registry's answer is none that can be worked with."""


class BadSchema(RegistryError):
    """Whatever names this schema is bad, however often it is asked for."""


class SchemaNotFound(BadSchema):
    """The registry knows no such id, subject or version."""


class RegistryUnavailable(RegistryError):
    """No address answered."""


@dataclass(frozen=True)
class RegistrySettings:
    """Where the registry is; goes to the executors with each task."""

    urls: tuple[str, ...]
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("schemaRegistry names no address")
        for url in self.urls:
            parts = urllib.parse.urlsplit(url)
            if parts.scheme not in {"http", "https"} or not parts.hostname:
                raise ValueError(f"schemaRegistry: {_shown(url)} is no http or https address")
            if parts.username or parts.password or parts.query or parts.fragment:
                raise ValueError(
                    f"schemaRegistry: {_shown(url)} holds more than scheme, host and path; "
                    "credentials go into schemaRegistryUser and schemaRegistryPassword"
                )


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema and all that it refers to, which stands in the registry on its own."""

    id: int
    kind: str
    """AVRO, JSON or PROTOBUF."""
    text: str
    """Of PROTOBUF: its FileDescriptorProto in base64, where the registry can give that."""
    name: str = ""
    """By which another schema refers to this one."""
    references: tuple["RegisteredSchema", ...] = ()

    def in_order(self) -> Iterator["RegisteredSchema"]:
        """What is referred to first, this one last; each name once."""
        seen: set[str] = set()
        for each in _depth_first(self):
            if each is self or each.name not in seen:
                seen.add(each.name)
                yield each


class Reference(NamedTuple):
    """By which name a schema refers to another, and where that one is."""

    name: str
    subject: str
    version: int


class Registry:
    """A client, blocking; one per process and registry (:func:`registry`)."""

    def __init__(
        self, settings: RegistrySettings, *, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._pause = pause
        # No handler of redirects, files or ftp: an address leads where it says, or nowhere.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)
        self._by_id: dict[int, RegisteredSchema] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        self._registered: dict[tuple[str, str, str, tuple[Reference, ...]], int] = {}

    def by_id(self, schema_id: int) -> RegisteredSchema:
        known = self._by_id.get(schema_id)
        if known is None:
            answer = self._ask("GET", f"/schemas/ids/{schema_id}?format=serialized")
            known = self._schema(answer, schema_id, _Budget())
            self._by_id[schema_id] = known
        return known

    def latest(self, subject: str) -> RegisteredSchema:
        """Asked for each time: the latest changes."""
        path = f"/subjects/{_quoted(subject)}/versions/latest?format=serialized"
        answer = self._ask("GET", path)
        schema = self._schema(answer, _number(answer, "id"), _Budget())
        return self._by_id.setdefault(schema.id, schema)

    def register(
        self, subject: str, kind: str, text: str, references: tuple[Reference, ...] = ()
    ) -> int:
        """The id under which the registry keeps this schema, new or known."""
        key = (subject, kind, text, references)
        if key not in self._registered:
            path = f"/subjects/{_quoted(subject)}/versions"
            answer = self._ask("POST", path, _posted(kind, text, references))
            self._registered[key] = _number(answer, "id")
        return self._registered[key]

    def refer(
        self, name: str, kind: str, text: str, references: tuple[Reference, ...] = ()
    ) -> Reference:
        """Register a schema that others refer to, under its own name, as Confluent's do."""
        self.register(name, kind, text, references)
        answer = self._ask("POST", f"/subjects/{_quoted(name)}", _posted(kind, text, references))
        return Reference(name, name, _number(answer, "version"))

    def _schema(
        self, answer: dict[str, Any], schema_id: int, budget: "_Budget", name: str = ""
    ) -> RegisteredSchema:
        text, kind = answer.get("schema"), answer.get("schemaType") or "AVRO"
        references = answer.get("references") or []
        if not isinstance(text, str) or not isinstance(references, list):
            raise RegistryError(f"schema {schema_id}: the registry's answer holds no schema")
        found = tuple(self._reference(each, budget) for each in references)
        return RegisteredSchema(schema_id, str(kind), text, name, found)

    def _reference(self, reference: Any, budget: "_Budget") -> RegisteredSchema:
        budget.spend()
        try:
            name, subject = str(reference["name"]), str(reference["subject"])
            version = int(reference["version"])
        except (KeyError, TypeError, ValueError) as error:
            raise RegistryError(f"{reference!r} is no reference to a schema") from error
        known = self._versions.get((subject, version))
        if known is None:
            path = f"/subjects/{_quoted(subject)}/versions/{version}?format=serialized"
            answer = self._ask("GET", path)
            known = self._schema(answer, _number(answer, "id"), budget, name)
            self._versions[subject, version] = known
        return RegisteredSchema(known.id, known.kind, known.text, name, known.references)

    def _ask(self, method: str, path: str, content: object = None) -> dict[str, Any]:
        trouble = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                self._pause(0.2 * attempt)
            for url in self._settings.urls:
                try:
                    return self._ask_one(url, method, path, content)
                except (OSError, http.client.HTTPException) as error:
                    trouble = f"{_shown(url)}: {error}"
        raise RegistryUnavailable(f"no schema registry answers {method} {path}; last: {trouble}")

    def _ask_one(self, url: str, method: str, path: str, content: object) -> dict[str, Any]:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(  # noqa: S310 (the settings allow http and https only)
            url.rstrip("/") + path, data, self._headers(), method=method
        )
        try:
            with self._opener.open(request, timeout=self._settings.timeout_s) as response:
                body = response.read(ANSWER_BYTES_MAX + 1)
        except urllib.error.HTTPError as error:
            with error:
                reason = _reason(error.read(ANSWER_BYTES_MAX))
            if error.code >= 500:
                raise OSError(f"status {error.code} {reason}") from error
            kind = SchemaNotFound if error.code == _NOT_FOUND else RegistryError
            text = f"{method} {path}: status {error.code} {reason}".rstrip()
            raise kind(f"schema registry {_shown(url)}: {text}") from error
        if len(body) > ANSWER_BYTES_MAX:
            raise RegistryError(f"{path}: an answer of more than {ANSWER_BYTES_MAX} bytes")
        return _object(body, path)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": CONTENT_TYPE, "Content-Type": CONTENT_TYPE}
        if self._settings.user is not None:
            pair = f"{self._settings.user}:{self._settings.password or ''}"
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return headers


@lru_cache(maxsize=16)
def registry(settings: RegistrySettings) -> Registry:
    """The one client of this process for these settings, with what it has learned."""
    return Registry(settings)


class _Budget:
    """Bounds what one schema may refer to, circles included."""

    def __init__(self) -> None:
        self._left = REFERENCES_MAX

    def spend(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BadSchema(f"a schema with more than {REFERENCES_MAX} references")


def _depth_first(schema: RegisteredSchema) -> Iterator[RegisteredSchema]:
    for each in schema.references:
        yield from _depth_first(each)
    yield schema


def _posted(kind: str, text: str, references: tuple[Reference, ...]) -> dict[str, object]:
    content: dict[str, object] = {"schemaType": kind, "schema": text}
    return (
        {**content, "references": [each._asdict() for each in references]}
        if references
        else content
    )


def _quoted(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _shown(url: str) -> str:
    """Without what somebody may have put there as a password."""
    return url if "@" not in url else url.partition("://")[0] + "://***@" + url.rpartition("@")[2]


def _object(body: bytes, path: str) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RegistryError(f"{path}: the answer is no JSON") from error
    if not isinstance(answer, dict):
        raise RegistryError(f"{path}: the answer is no object")
    return answer


def _number(answer: dict[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise RegistryError(f"the registry's answer has no {name}")
    return value


def _reason(body: bytes) -> str:
    try:
        answer = _object(body, "")
    except RegistryError:
        return ""
    return str(answer.get("message", ""))[:500]
