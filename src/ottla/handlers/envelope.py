"""Envelope (key 58): a client's request, from a broker to the active controller (KIP-590).

The broker sends on what it got, header and body as they came, and says whose it is and from where;
the controller answers that request as if the client had dialled it, and puts the whole answer into
the envelope's. When it is not the active one, only the envelope's error says so, and the broker
looks for the one that is.

There is v0 only.
"""

from ipaddress import ip_address
from typing import Final, NamedTuple, TypeVar

from ottla.common.authorization import AclOperation, Client, Principal, ResourceType
from ottla.common.errors import (
    ApiError,
    InvalidRequest,
    PrincipalDeserializationFailure,
    ProtocolViolation,
    UnsupportedVersion,
)
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.default_principal_data import DefaultPrincipalData
from ottla.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.headers import (
    decode_request_header,
    decode_response_header,
    encode_request_header,
)
from ottla.protocol.message import Request, Response, from_buffer, response_class, to_bytes
from ottla.protocol.primitives import Writer
from ottla.requests.context import ControllerServices, RequestContext
from ottla.requests.contract import Handler, Quota, by_code
from ottla.requests.needs import Whole
from ottla.requests.table import HANDLERS, load

R = TypeVar("R", bound=Response)

_PRINCIPAL_VERSION: Final = 0
_VERSION_BYTES: Final = 2
_SIZE_BYTES: Final = 4
_NO_ADDRESS: Final = bytes((127, 0, 0, 1))
"""For a client that has none, in the same process."""


class Enclosed(NamedTuple):
    """A client's request, as the broker that sends it on tells of it."""

    key: ApiKey
    version: int
    correlation_id: int
    client_id: str | None
    body_at: int
    principal: Principal
    client_host: str


def seal(request: bytes, client: Client) -> EnvelopeRequest:
    """Put a client's request, header and body, into an envelope."""
    principal = DefaultPrincipalData(
        type=client.principal.type,
        name=client.principal.name,
        token_authenticated=client.principal.token_authenticated,
    )
    version = _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big")
    return EnvelopeRequest(
        request_data=request,
        request_principal=version + to_bytes(principal, _PRINCIPAL_VERSION),
        client_host_address=_packed(client.peer_host),
    )


def enclose(request: Request[R], client: Client) -> EnvelopeRequest:
    """A request that this broker makes for a client, in an envelope."""
    api = APIS[request.API_KEY]
    out = Writer()
    encode_request_header(
        out,
        api_key=api.key,
        version=api.highest_stable_version,
        correlation_id=0,
        client_id=client.client_id,
    )
    return seal(out.getvalue() + to_bytes(request, api.highest_stable_version), client)


def disclose(request: Request[R], envelope: EnvelopeResponse) -> R:
    """The response to what :func:`enclose` has made of ``request``."""
    api = APIS[request.API_KEY]
    version, data = api.highest_stable_version, envelope.response_data
    if data is None:
        raise ApiError("an envelope came back empty")
    _, pos = decode_response_header(data, 0, api_key=api.key, version=version)
    return from_buffer(response_class(type(request)), data, pos, version)[0]


def _packed(host: str) -> bytes:
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _NO_ADDRESS


def unseal(envelope: EnvelopeRequest) -> Enclosed:
    """Look into an envelope; a refusal when nothing is in it that may be sent on."""
    try:
        principal = _principal(envelope.request_principal)
    except ProtocolViolation as error:
        raise PrincipalDeserializationFailure(
            f"a principal that cannot be read: {error}"
        ) from error
    try:
        host = str(ip_address(envelope.client_host_address))
    except ValueError as error:
        raise InvalidRequest(f"an envelope without an address: {error}") from error
    try:
        header, body_at = decode_request_header(envelope.request_data, 0)
    except ProtocolViolation as error:
        raise UnsupportedVersion(f"an envelope that cannot be opened: {error}") from error
    api = APIS[header.request_api_key]
    if not api.forwardable or api.key not in HANDLERS:
        raise InvalidRequest(f"API {api.name} is not enabled or is not eligible for forwarding")
    return Enclosed(
        api.key,
        header.request_api_version,
        header.correlation_id,
        header.client_id,
        body_at,
        principal,
        host,
    )


def _principal(data: bytes | None) -> Principal:
    if data is None or data[:_VERSION_BYTES] != _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big"):
        raise ProtocolViolation("a principal in an unknown form")
    found, _ = from_buffer(DefaultPrincipalData, data, _VERSION_BYTES, _PRINCIPAL_VERSION)
    return Principal(found.type, found.name, found.token_authenticated)


async def handle(
    envelope: EnvelopeRequest, context: RequestContext, services: ControllerServices
) -> EnvelopeResponse:
    enclosed = unseal(envelope)
    handler = load(enclosed.key, of_controller=True)
    assert isinstance(handler, Handler)  # no API that is passed on goes the hot way
    inner = RequestContext(
        version=enclosed.version,
        correlation_id=enclosed.correlation_id,
        client_id=enclosed.client_id,
        principal=enclosed.principal,
        of_controller=True,
        request_name=handler.name,
    )
    inner.is_forwarded = True
    inner.listener_name = context.listener_name
    inner.peer_host = enclosed.client_host
    if not handler.lowest <= enclosed.version <= handler.highest:
        raise UnsupportedVersion
    try:
        request = handler.decode(envelope.request_data, enclosed.body_at, enclosed.version)
    except ProtocolViolation as violation:
        # So that it is told from what is wrong with the envelope itself.
        raise UnsupportedVersion(str(violation)) from violation
    try:
        response = await handler.decided(request, inner, services)
        framed = handler.frame(response, inner, services)
    except ProtocolViolation as violation:
        raise InvalidRequest(str(violation)) from violation
    return EnvelopeResponse(response_data=framed[_SIZE_BYTES:])


HANDLER: Final = Handler(
    EnvelopeRequest,
    handle,
    refuse=by_code(EnvelopeResponse),
    needs=[Whole(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)],
    quota=Quota.EXEMPT,
)
