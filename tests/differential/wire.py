"""Requests as plain words, on a socket of their own: what the differential and hostile tests speak.

A request is written as a dictionary with the schema's own names; ``shape`` fills in the defaults of
a version and leaves out what the version does not have, so that one line serves all versions.
"""

import base64
import contextlib
import socket
import struct
from collections.abc import Mapping
from typing import Any, Final, Self

from ottla.protocol.api import APIS, Api
from ottla.protocol.describe import default_of, from_json, to_json
from ottla.protocol.headers import decode_response_header, encode_request_header
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.primitives import Writer
from ottla.protocol.schema_reader import Field, StructSchema
from ottla.protocol.schemas import schema_of

Json = Any
CLIENT_ID: Final = "tests"
API_BY_NAME: Final[dict[str, Api]] = {api.name: api for api in APIS.values()}
ZERO_UUID_TEXT: Final = "AAAAAAAAAAAAAAAAAAAAAA"


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


def shape(schema: StructSchema, version: int, given: Mapping[str, Json]) -> dict[str, Json]:
    """``given`` as the JSON of a whole struct of that version; names may be snake or camel case."""
    unknown = set(given) - {item.name for item in schema.fields}
    assert not unknown, f"{schema.name} has no {unknown}"
    out: dict[str, Json] = {}
    for item in schema.fields:
        if version not in item.versions:
            continue
        if item.name in given:
            out[item.json_name] = _shape_value(item, version, given[item.name])
        elif item.tag is None:
            out[item.json_name] = _default(item, version)
    return out


def _shape_value(item: Field, version: int, value: Json) -> Json:
    if value is None:
        return None
    if item.array:
        return [_shape_item(item, version, one) for one in value]
    return _shape_item(item, version, value)


def _shape_item(item: Field, version: int, value: Json) -> Json:
    if item.struct is not None:
        return shape(item.struct, version, value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str):
        return value.replace("{v}", str(version))
    return value


def _default(item: Field, version: int) -> Json:
    if item.struct is not None and not item.array:
        return None if item.default == "null" else shape(item.struct, version, {})
    value = default_of(item)
    if item.type == "uuid" and not item.array:
        return ZERO_UUID_TEXT
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value


def request_frame(
    api: str, version: int, fields: Mapping[str, Json], *, correlation_id: int = 1
) -> bytes:
    """A whole request with its length in front."""
    schema = schema_of(f"{api}Request")
    message = from_json(schema.name, shape(schema.root, version, fields), version)
    return raw_frame(api, version, to_bytes(message, version), correlation_id=correlation_id)


def raw_frame(api: str, version: int, body: bytes, *, correlation_id: int = 1) -> bytes:
    """Any bytes at all behind a proper header."""
    out = Writer()
    encode_request_header(
        out,
        api_key=API_BY_NAME[api].key,
        version=version,
        correlation_id=correlation_id,
        client_id=CLIENT_ID,
    )
    frame = out.getvalue() + body
    return struct.pack(">i", len(frame)) + frame


class Connection:
    """A blocking connection that sends frames and reads frames."""

    def __init__(self, port: int, *, timeout: float = 10) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        """Send all; a broker that has closed already shows when the answer is read."""
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(data)

    def receive(self) -> bytes:
        """One frame without its length; ConnectionClosed or TimeoutError when there is none."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size:
            try:
                part = self._socket.recv(min(size, 1 << 20))
            except ConnectionError:
                raise ConnectionClosed from None
            if not part:
                raise ConnectionClosed
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def ask(self, api: str, version: int, fields: Mapping[str, Json]) -> dict[str, Json]:
        """Send a request and decode its answer."""
        self.send(request_frame(api, version, fields))
        return decode_answer(api, version, self.receive())

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def decode_answer(api: str, version: int, frame: bytes) -> dict[str, Json]:
    """An answer as JSON; a refused ApiVersions comes in version 0, whatever was asked."""
    row = API_BY_NAME[api]
    if api == "ApiVersions" and struct.unpack_from(">h", frame, 4)[0] == 35:
        version = 0
    _, position = decode_response_header(frame, 0, api_key=row.key, version=version)
    message = from_bytes(row.response_class(), frame[position:], version)
    return to_json(message, version)


def ask(port: int, api: str, version: int, **fields: Json) -> dict[str, Json]:
    """One request on a connection of its own."""
    with Connection(port) as connection:
        return connection.ask(api, version, fields)
