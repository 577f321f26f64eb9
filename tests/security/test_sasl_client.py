"""The client's side of a login, with a server that does not mean it well."""

import pytest

from ottla.common.errors import ProtocolViolation
from ottla.protocol.generated.sasl_authenticate import SaslAuthenticateResponse
from ottla.security.sasl_client import STEPS_MAX, SaslClient, SaslLogin


class Endless:
    """A mechanism of which all is never said."""

    def first(self) -> bytes:
        return b""

    def evaluate(self, challenge: bytes) -> bytes | None:
        return challenge


def test_a_login_has_an_end() -> None:
    client = SaslClient(SaslLogin("ENDLESS", Endless))
    for _ in range(STEPS_MAX):
        assert client.received(SaslAuthenticateResponse(auth_bytes=b"more")) is not None
    with pytest.raises(ProtocolViolation, match="without end"):
        client.received(SaslAuthenticateResponse(auth_bytes=b"more"))
