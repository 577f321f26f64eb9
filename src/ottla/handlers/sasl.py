"""SaslHandshake (key 17) and SaslAuthenticate (key 36) where no login is awaited.

A login is answered by the connection before any handler is asked (`network/login.py`). What comes
here is a request of somebody who is in already, or on a listener without logins: it is refused.

SaslHandshake v1 (KIP-152): tokens follow in SaslAuthenticate. SaslAuthenticate v1 the lifetime of
a session (KIP-368); v2 flexible.
"""

from typing import Final

from ottla.common.errors import IllegalSaslState
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.contract import Contract, Handler, by_code


def refuse_handshake(
    _request: SaslHandshakeRequest,
    _context: RequestContext,
    services: NodeServices,  # noqa: ARG001 - all handlers have it
) -> SaslHandshakeResponse:
    raise IllegalSaslState


def refuse_token(
    _request: SaslAuthenticateRequest,
    _context: RequestContext,
    services: NodeServices,  # noqa: ARG001 - all handlers have it
) -> SaslAuthenticateResponse:
    raise IllegalSaslState("SaslAuthenticate request received after successful authentication")


ROWS: Final[tuple[Contract, ...]] = (
    Handler(
        SaslHandshakeRequest,
        refuse_handshake,
        refuse=by_code(SaslHandshakeResponse),
        needs=[],
        before_authentication=True,
    ),
    Handler(
        SaslAuthenticateRequest,
        refuse_token,
        refuse=by_code(SaslAuthenticateResponse),
        needs=[],
        before_authentication=True,
    ),
)
HANDLERS: Final = {row.key: row for row in ROWS}
