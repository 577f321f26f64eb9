"""SCRAM (RFC 5802, RFC 7677) as Kafka has it: what both sides compute, and their messages.

As in Kafka there is no SASLprep: names are ASCII, and passwords are taken as UTF-8 as they are.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.security.mechanism import LoginRefused

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384
MESSAGE_MAX: Final = 4096
"""Of a message; the longest that a name and a nonce make is far from it."""
GS2_HEADER: Final = b"n,,"
TOKEN_AUTH: Final = "tokenauth"  # noqa: S105 - the name of an extension
"""The extension of a login with a delegation token."""

_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = rb"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_BASE64: Final = rb"[a-zA-Z0-9/+]+={0,2}"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_CLIENT_FIRST: Final = re.compile(
    rb"n,(?:a=(?P<authzid>" + _NAME + rb"))?,"
    rb"(?P<bare>n=(?P<name>" + _NAME + rb"),r=(?P<nonce>" + _PRINTABLE + rb")"
    rb"(?P<extensions>" + _EXTENSIONS + rb"))"
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<unproved>c=(?P<channel>"
    + _BASE64
    + rb"),r=(?P<nonce>"
    + _PRINTABLE
    + rb")"
    + _EXTENSIONS
    + rb"),p=(?P<proof>"
    + _BASE64
    + rb")"
)
_SERVER_FIRST: Final = re.compile(
    rb"r=(?P<nonce>" + _PRINTABLE + rb"),s=(?P<salt>" + _BASE64 + rb"),"
    rb"i=(?P<iterations>[0-9]{1,9})" + _EXTENSIONS
)
_SERVER_FINAL: Final = re.compile(
    rb"(?:e=(?P<error>" + _VALUE + rb")|v=(?P<signature>" + _BASE64 + rb"))" + _EXTENSIONS
)
_NONCE_BYTES: Final = 24
SALT_BYTES: Final = 24


class ScramMechanism(IntEnum):
    """By the number that it has in requests and records."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: bytes, salt: bytes, iterations: int) -> bytes:
        """``Hi``; what takes its time, on purpose."""
        return hashlib.pbkdf2_hmac(self.hash_name, password, salt, iterations)


MECHANISMS: Final = {each.mechanism_name: each for each in ScramMechanism}


class ScramCredential(NamedTuple):
    """What the server keeps of a password, by which it can be checked but not shown."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential([hidden], iterations={self.iterations})"


def credential_of(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    client_key = mechanism.hmac(salted_password, b"Client Key")
    server_key = mechanism.hmac(salted_password, b"Server Key")
    return ScramCredential(salt, mechanism.hash(client_key), server_key, iterations)


def nonce(chance: Chance) -> bytes:
    return base64.b64encode(chance.bytes(_NONCE_BYTES))


class ClientFirst(NamedTuple):
    header: bytes
    """What binds the rest to the channel: gs2-header."""
    bare: bytes
    name: str
    authorization_id: str
    nonce: bytes
    extensions: Mapping[str, str]


class ClientFinal(NamedTuple):
    channel: bytes
    nonce: bytes
    unproved: bytes
    """All but the proof."""
    proof: bytes


class ServerFirst(NamedTuple):
    nonce: bytes
    salt: bytes
    iterations: int


def _matched(form: re.Pattern[bytes], message: bytes) -> "re.Match[bytes] | None":
    return form.fullmatch(message) if len(message) <= MESSAGE_MAX else None


def read_client_first(message: bytes) -> ClientFirst:
    found = _matched(_CLIENT_FIRST, message)
    if found is None:
        raise LoginRefused
    extensions = {}
    for part in found["extensions"].decode("ascii").split(",")[1:]:
        key, _, value = part.partition("=")
        extensions[key] = value
    return ClientFirst(
        message[: found.start("bare")],
        found["bare"],
        _unescaped(found["name"]),
        _unescaped(found["authzid"] or b""),
        found["nonce"],
        extensions,
    )


def read_client_final(message: bytes) -> ClientFinal:
    found = _matched(_CLIENT_FINAL, message)
    if found is None:
        raise LoginRefused
    return ClientFinal(
        _decoded(found["channel"]), found["nonce"], found["unproved"], _decoded(found["proof"])
    )


def read_server_first(message: bytes) -> ServerFirst:
    found = _matched(_SERVER_FIRST, message)
    if found is None:
        raise LoginRefused("an answer that is no SCRAM")
    return ServerFirst(found["nonce"], _decoded(found["salt"]), int(found["iterations"]))


def read_server_final(message: bytes) -> bytes:
    """The server's signature."""
    found = _matched(_SERVER_FINAL, message)
    if found is None or found["error"] is not None:
        raise LoginRefused("the server has refused the proof")
    return _decoded(found["signature"])


def escaped(name: str) -> bytes:
    return name.replace("=", "=3D").replace(",", "=2C").encode()


def _unescaped(name: bytes) -> str:
    return name.decode("ascii").replace("=2C", ",").replace("=3D", "=")


def _decoded(data: bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise LoginRefused from None


def xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))
