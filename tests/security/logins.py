"""A server with users of all kinds, and requests of a login as frames."""

from collections.abc import Mapping
from struct import pack
from typing import TypeVar

from ottla.common.chance import Chance
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.protocol.headers import encode_request_header, response_header_version
from ottla.protocol.message import Message, from_bytes, to_bytes
from ottla.protocol.primitives import Writer
from ottla.security.mechanism import NewServerMechanism, user
from ottla.security.plain import PlainServer
from ottla.security.sasl_server import SaslSettings
from ottla.security.scram import ScramCredential, ScramMechanism, credential_of
from ottla.security.scram_server import ScramSecrets, ScramServer, TokenLogin

M = TypeVar("M", bound=Message)

NOW_MS = 1_700_000_000_000
PASSWORDS = {"alice": b"alice-secret", "bob": b"bob-secret"}
TOKEN_ID, TOKEN_SECRET = "token-1", "dG9rZW4="
TOKEN_EXPIRES_MS = NOW_MS + 60_000


def credential(
    mechanism: ScramMechanism, password: bytes, iterations: int = 4096
) -> ScramCredential:
    salt = b"salt of the test" * 2
    salted = mechanism.salted_password(password, salt, iterations)
    return credential_of(mechanism, salted, salt, iterations)


def scram_secrets(
    mechanism: ScramMechanism, more: Mapping[str, ScramCredential] | None = None
) -> ScramSecrets:
    known = {name: credential(mechanism, word) for name, word in PASSWORDS.items()}
    known.update(more or {})
    login = TokenLogin(
        user("carol"), credential(mechanism, TOKEN_SECRET.encode()), TOKEN_EXPIRES_MS
    )
    return ScramSecrets(mechanism, known.get, {TOKEN_ID: login}.get, b"decoy", Chance(1))


def settings(reauthentication_ms: int = 0) -> SaslSettings:
    secrets = {each.mechanism_name: scram_secrets(each) for each in ScramMechanism}
    mechanisms: dict[str, NewServerMechanism] = {
        "PLAIN": lambda: PlainServer(PASSWORDS),
        "SCRAM-SHA-256": lambda: ScramServer(secrets["SCRAM-SHA-256"]),
        "SCRAM-SHA-512": lambda: ScramServer(secrets["SCRAM-SHA-512"]),
    }
    return SaslSettings(mechanisms, dict.fromkeys(mechanisms, reauthentication_ms))


def request(key: int, version: int, body: bytes = b"", correlation_id: int = 7) -> bytes:
    out = Writer()
    encode_request_header(
        out, api_key=key, version=version, correlation_id=correlation_id, client_id="c"
    )
    return out.getvalue() + body


def handshake(mechanism: str, version: int = 1) -> bytes:
    asked = SaslHandshakeRequest(mechanism=mechanism)
    return request(ApiKey.SASL_HANDSHAKE, version, to_bytes(asked, version))


def authenticate(token: bytes, version: int = 2) -> bytes:
    asked = SaslAuthenticateRequest(auth_bytes=token)
    return request(ApiKey.SASL_AUTHENTICATE, version, to_bytes(asked, version))


def plain(name: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{name}\0{password}".encode()


def shaken(answer: bytes, version: int = 1) -> SaslHandshakeResponse:
    return _decoded(SaslHandshakeResponse, answer, version)


def authenticated(answer: bytes, version: int = 2) -> SaslAuthenticateResponse:
    return _decoded(SaslAuthenticateResponse, answer, version)


def _decoded(kind: type[M], answer: bytes, version: int) -> M:
    flexible = response_header_version(kind.API_KEY, version)
    size = len(answer) - 4
    assert answer[:8] == pack(">ii", size, 7)
    return from_bytes(kind, answer[8 + flexible :], version)
