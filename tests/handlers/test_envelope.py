"""Envelopes: what a broker puts in is what the controller finds, and nothing else is opened."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.handlers.broker import Broker, Peer

from ottla.common.authorization import ANONYMOUS, Principal
from ottla.common.errors import (
    ErrorCode,
    InvalidRequest,
    PrincipalDeserializationFailure,
    UnsupportedVersion,
)
from ottla.handlers import envelope
from ottla.handlers.envelope import seal, unseal
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.generated.metadata import MetadataRequest
from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message, from_buffer, from_bytes, to_bytes
from ottla.protocol.primitives import Writer
from ottla.requests.context import RequestContext


def request_bytes(message: Message, version: int, client_id: str | None = "c") -> bytes:
    header = Writer()
    encode_request_header(
        header,
        api_key=message.API_KEY,
        version=version,
        correlation_id=77,
        client_id=client_id,
    )
    return bytes(header.getvalue() + to_bytes(message, version))


def context(host: str = "10.0.0.9", principal: Principal = ANONYMOUS) -> RequestContext:
    found = RequestContext(version=0, peer=Peer(), principal=principal)
    found.peer_host = host
    return found


@given(
    name=st.text("abc", min_size=1),
    principal=st.text(),
    client_id=st.none() | st.text(),
    version=st.integers(2, 7),
    host=st.ip_addresses().map(str),
)
def test_what_is_sealed_is_found_again(
    name: str, principal: str, client_id: str | None, version: int, host: str
) -> None:
    message = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1)])
    data = request_bytes(message, version, client_id)
    sealed = to_bytes(seal(data, context(host, Principal("User", principal))), 0)
    envelope = from_bytes(EnvelopeRequest, sealed, 0)
    found = unseal(envelope)
    assert found[:4] == (ApiKey.CREATE_TOPICS, version, 77, client_id)
    assert (found.principal, found.client_host) == (Principal("User", principal), host)
    inner, _ = from_buffer(CreateTopicsRequest, envelope.request_data, found.body_at, version)
    assert inner == message


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (MetadataRequest(), 12),
        (EnvelopeRequest(request_principal=b"", client_host_address=bytes(4)), 0),
    ],
)
def test_what_is_not_for_the_controller_is_not_opened(message: Message, version: int) -> None:
    with pytest.raises(InvalidRequest, match="not eligible for forwarding"):
        unseal(seal(request_bytes(message, version), context()))


@given(data=st.binary(max_size=60), principal=st.none() | st.binary(max_size=20))
def test_what_is_no_envelope_is_refused(data: bytes, principal: bytes | None) -> None:
    envelope = EnvelopeRequest(
        request_data=data, request_principal=principal, client_host_address=b"\x7f\x00\x00\x01"
    )
    with pytest.raises((PrincipalDeserializationFailure, UnsupportedVersion, InvalidRequest)):
        unseal(envelope)


def test_what_is_wrong_with_an_envelope_has_its_own_code() -> None:
    whole = seal(request_bytes(CreateTopicsRequest(topics=[]), 7), context())
    for broken, code in (
        ({"request_principal": b"\x00\x01"}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"request_principal": None}, ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        ({"client_host_address": b"123"}, ErrorCode.INVALID_REQUEST),
        ({"request_data": b"\x00"}, ErrorCode.UNSUPPORTED_VERSION),
        ({"request_data": whole.request_data[:-1]}, ErrorCode.UNSUPPORTED_VERSION),
    ):
        asked = seal(whole.request_data, context())
        for name, value in broken.items():
            setattr(asked, name, value)
        answer = Broker().ask(envelope, asked, 0, EnvelopeResponse)
        assert answer.error_code == code, broken


@pytest.mark.parametrize("version", [1, 8, 32_767])
def test_a_request_in_a_version_that_is_not_served_is_refused_unread(version: int) -> None:
    data = bytearray(request_bytes(CreateTopicsRequest(topics=[]), 7))
    data[2:4] = version.to_bytes(2, "big")
    broker = Broker()
    refused = broker.ask(envelope, seal(bytes(data), context()), 0, EnvelopeResponse)
    assert refused.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (broker.controller.asked, broker.mistakes.told) == ([], [])
