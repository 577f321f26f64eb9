"""Stores are read in each form that Kafka's settings have, and refused with a word otherwise."""

import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from tests.security import certificates

from ottla.common.errors import InvalidConfig
from ottla.security.tls_contexts import ListenerContexts, read_file
from ottla.security.tls_stores import read_key_store, read_trust_store

SECRET = "open-sesame"


def encrypted_key() -> str:
    key = load_pem_private_key(certificates.server().key.encode(), None)
    protection = BestAvailableEncryption(SECRET.encode())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection).decode()


def pkcs12_store() -> bytes:
    issued = certificates.server()
    key = load_pem_private_key(issued.key.encode(), None)
    assert isinstance(key, EllipticCurvePrivateKey)
    certificate = x509.load_pem_x509_certificate(issued.certificate.encode())
    authority = x509.load_pem_x509_certificate(certificates.authority().certificate.encode())
    return pkcs12.serialize_key_and_certificates(
        b"broker", key, certificate, [authority], BestAvailableEncryption(SECRET.encode())
    )


def file_settings(directory: Path, kind: str) -> dict[str, str]:
    if kind == "PEM":
        issued = certificates.server()
        data = f"some text\n{issued.certificate}more\n{issued.key}".encode()
        trusted = certificates.authority().certificate.encode()
    else:
        data = trusted = pkcs12_store()
    (directory / "keys").write_bytes(data)
    (directory / "trusted").write_bytes(trusted)
    settings = {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(directory / "keys"),
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(directory / "trusted"),
    }
    if kind != "PEM":
        settings |= {"ssl.keystore.password": SECRET, "ssl.truststore.password": SECRET}
    return settings


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_stores_in_files_make_a_listener_that_accepts_itself(tmp_path: Path, kind: str) -> None:
    """JKS is what Java calls a PKCS12 file too, and the default."""
    ListenerContexts(file_settings(tmp_path, kind)).check_itself()


def test_stores_in_the_settings_make_a_listener_that_accepts_itself() -> None:
    ListenerContexts(certificates.settings()).check_itself()


@pytest.mark.parametrize("auth", ["none", "requested", "required"])
def test_a_listener_that_does_not_trust_itself_is_found_out(auth: str) -> None:
    settings = {**certificates.settings(), "ssl.client.auth": auth}
    ListenerContexts(settings).check_itself()
    settings["ssl.truststore.certificates"] = certificates.stranger().certificate
    with pytest.raises(InvalidConfig, match="not accepted by its own truststore"):
        ListenerContexts(settings).check_itself()


def test_an_encrypted_key_is_opened_with_its_password() -> None:
    settings = {**certificates.settings(), "ssl.keystore.key": encrypted_key()}
    ListenerContexts({**settings, "ssl.key.password": SECRET}).check_itself()


def without(*names: str) -> dict[str, str]:
    return {key: value for key, value in certificates.settings().items() if key not in names}


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (without("ssl.keystore.key"), "private key is not specified"),
        (without("ssl.keystore.certificate.chain"), "certificate chain is not specified"),
        (without("ssl.keystore.type"), "only for PEM"),
        (without("ssl.truststore.type"), "only for PEM"),
        ({**certificates.settings(), "ssl.keystore.location": "/x"}, "Both SSL key store"),
        ({**certificates.settings(), "ssl.keystore.password": SECRET}, "cannot be specified"),
        ({**certificates.settings(), "ssl.truststore.location": "/x"}, "Both SSL trust store"),
        ({**certificates.settings(), "ssl.key.password": SECRET}, "not encrypted"),
        ({**certificates.settings(), "ssl.keystore.key": encrypted_key()}, "ssl.key.password"),
        (
            {
                **certificates.settings(),
                "ssl.keystore.key": encrypted_key(),
                "ssl.key.password": "another",
            },
            "cannot be used",
        ),
        ({**certificates.settings(), "ssl.keystore.key": "no key"}, "one private key"),
        ({**certificates.settings(), "ssl.truststore.certificates": "none"}, "no certificate"),
        ({**certificates.settings(), "ssl.keystore.type": "BKS"}, "BKS is not one of"),
        ({"ssl.keystore.location": "/nowhere", "ssl.keystore.password": SECRET}, "cannot be read"),
        ({**certificates.settings(), "ssl.client.auth": "maybe"}, "none, requested, required"),
        ({**certificates.settings(), "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.1 cannot be used"),
        ({**certificates.settings(), "ssl.cipher.suites": "TLS_NO_SUCH"}, "unknown to OpenSSL"),
        ({**certificates.settings(), "ssl.engine.factory.class": "a.B"}, "a Java class"),
        (
            {**certificates.settings(), "ssl.endpoint.identification.algorithm": "LDAPS"},
            "unknown",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused_without_telling_a_secret(
    settings: dict[str, str], why: str
) -> None:
    with pytest.raises(InvalidConfig, match=why) as caught:
        ListenerContexts(settings)
    assert SECRET not in str(caught.value)
    assert "PRIVATE KEY-----" not in str(caught.value)


def test_a_store_with_another_password_is_refused(tmp_path: Path) -> None:
    settings = {**file_settings(tmp_path, "PKCS12"), "ssl.keystore.password": "wrong"}
    with pytest.raises(InvalidConfig, match="another password") as caught:
        read_key_store(settings, read_file)
    assert "wrong" not in str(caught.value)


def test_the_old_format_of_java_is_refused_with_the_way_out(tmp_path: Path) -> None:
    path = tmp_path / "old.jks"
    path.write_bytes(bytes.fromhex("feedfeed00000002"))
    settings = {"ssl.truststore.location": str(path), "ssl.truststore.password": SECRET}
    with pytest.raises(InvalidConfig, match="keytool -importkeystore"):
        read_trust_store(settings, read_file)


def test_a_key_store_does_not_show_its_key() -> None:
    store = read_key_store(certificates.settings(), read_file)
    assert "PRIVATE" not in repr(store)
    assert "PRIVATE" not in repr(certificates.server())


@pytest.mark.parametrize(
    ("suites", "version", "cipher"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLSv1.2",
            "ECDHE-ECDSA-CHACHA20-POLY1305",
        ),
        (
            "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256",
            "TLSv1.3",
            "TLS_AES_256_GCM_SHA384",
        ),
        ("", "TLSv1.3", "TLS_AES_256_GCM_SHA384"),
    ],
)
def test_suites_by_javas_names_are_those_that_are_used(
    suites: str, version: str, cipher: str
) -> None:
    contexts = ListenerContexts({**certificates.settings(), "ssl.cipher.suites": suites})
    ins, outs = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = contexts.client.wrap_bio(ins, outs, server_hostname="localhost")
    server = contexts.server.wrap_bio(outs, ins, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    used = client.cipher()
    assert used is not None
    assert (client.version(), used[0]) == (version, cipher)


def test_a_part_of_the_suites_of_tls_13_cannot_be_asked_for() -> None:
    with pytest.raises(InvalidConfig, match="only be allowed together"):
        ListenerContexts({**certificates.settings(), "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"})


def test_nobody_makes_us_shake_hands_again_and_again() -> None:
    made = ListenerContexts(certificates.settings())
    for context in (made.server, made.client):
        assert context.options & ssl.OP_NO_RENEGOTIATION
