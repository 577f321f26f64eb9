"""A client's settings of security: what they make, what they refuse, and what they never show."""

import pickle
import ssl
from pathlib import Path

import pytest
from tests.security import certificates

from ottla.client.security import (
    PROTOCOLS,
    SECURITY_SETTINGS,
    UNSECURED,
    ClientSecurity,
    security_of,
)
from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig

SCRAM = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "very-secret",
}
TRUST = {
    "ssl.truststore.type": "PEM",
    "ssl.truststore.certificates": certificates.authority().certificate,
}


def pem_files(directory: Path) -> dict[str, str]:
    trusted, certificate, key = certificates.write(directory, certificates.client())
    return {
        "ssl.ca.location": trusted,
        "ssl.certificate.location": certificate,
        "ssl.key.location": key,
    }


def mechanism(security: ClientSecurity) -> str | None:
    login = security.login(Chance(1), lambda: 0)
    return None if login is None else login.mechanism


def test_nothing_said_is_plain() -> None:
    assert security_of({"bootstrap.servers": "b:1"}) is UNSECURED
    assert security_of({"security.protocol": "plaintext", "sasl.username": "x"}) is UNSECURED
    assert UNSECURED.tls() is None
    assert mechanism(UNSECURED) is None
    assert UNSECURED.protocol == "PLAINTEXT"


@pytest.mark.parametrize(
    ("protocol", "encrypted", "logs_in"),
    [("ssl", True, None), ("Sasl_Plaintext", False, "SCRAM-SHA-512"),
     (" SASL_SSL ", True, "SCRAM-SHA-512")],
)  # fmt: skip
def test_a_protocol_says_what_is_done(protocol: str, encrypted: bool, logs_in: str | None) -> None:
    security = security_of({**SCRAM, **TRUST, "security.protocol": protocol})
    assert (security.tls() is not None) is encrypted
    assert mechanism(security) == logs_in


def test_an_unknown_protocol_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="not one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"):
        security_of({"security.protocol": "TLS"})


def test_a_login_that_lacks_something_is_refused_at_once() -> None:
    for missing in ("sasl.username", "sasl.password"):
        with pytest.raises(InvalidConfig):
            security_of({name: value for name, value in SCRAM.items() if name != missing})


def test_it_shows_no_secret_and_is_a_value() -> None:
    security = security_of({**SCRAM, **TRUST, "ssl.key.password": "key-secret"})
    for shown in (repr(security), str(security), f"{security}", f"{(security,)}"):
        assert "secret" not in shown
        assert "SASL_SSL" in shown
    again = pickle.loads(pickle.dumps(security))
    assert again == security
    assert hash(again) == hash(security)
    assert again.tls() is not None
    assert security != security_of({**SCRAM, **TRUST})


def handshake(client: ssl.SSLContext, host: str, server: ssl.SSLContext) -> None:
    """Both sides in memory; ssl.SSLError where they do not come together."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for side in (ours, theirs, ours, theirs):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


def server_context(directory: Path, *, asks: bool = False) -> ssl.SSLContext:
    path = directory / "server.pem"
    issued = certificates.server()
    path.write_text(issued.key + issued.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=certificates.authority().certificate)
    return context


def context_of(**settings: str) -> ssl.SSLContext:
    made = security_of({"security.protocol": "SSL", **settings}).tls()
    assert made is not None
    return made


def test_servers_are_known_by_the_truststore_and_by_their_names(tmp_path: Path) -> None:
    server = server_context(tmp_path)
    handshake(context_of(**TRUST), "localhost", server)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context_of(**TRUST), "elsewhere", server)
    stranger = {**TRUST, "ssl.truststore.certificates": certificates.stranger().certificate}
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context_of(**stranger), "localhost", server)


@pytest.mark.parametrize("unchecked", ["", "none"])
def test_names_are_not_looked_at_where_that_is_said(unchecked: str, tmp_path: Path) -> None:
    name = "ssl.endpoint.identification.algorithm"
    handshake(context_of(**TRUST, **{name: unchecked}), "elsewhere", server_context(tmp_path))


def test_files_by_the_names_of_librdkafka(tmp_path: Path) -> None:
    made = context_of(**pem_files(tmp_path))
    handshake(made, "localhost", server_context(tmp_path, asks=True))
    with pytest.raises(ssl.SSLError):
        handshake(context_of(**TRUST), "localhost", server_context(tmp_path, asks=True))


def test_a_key_and_its_certificate_go_together(tmp_path: Path) -> None:
    files = pem_files(tmp_path)
    del files["ssl.key.location"]
    with pytest.raises(InvalidConfig, match="go together"):
        context_of(**files)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    for name in ("ssl.ca.location", "ssl.truststore.location"):
        with pytest.raises(InvalidConfig, match=f"{name}: .*nowhere cannot be read"):
            context_of(**{name: str(tmp_path / "nowhere"), "ssl.truststore.type": "PEM"})


def test_the_system_is_asked_whom_to_trust_where_nothing_is_said(tmp_path: Path) -> None:
    for settings in ({}, {"ssl.ca.location": "probe"}):
        with pytest.raises(ssl.SSLCertVerificationError):
            handshake(context_of(**settings), "localhost", server_context(tmp_path))


def test_every_setting_of_security_is_a_setting_of_kafka_or_librdkafka() -> None:
    assert len(PROTOCOLS) == 4
    assert all(
        name == "security.protocol" or name.startswith(("ssl.", "sasl."))
        for name in SECURITY_SETTINGS
    )
