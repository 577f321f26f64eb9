"""Keystores and truststores as Kafka's settings name them: PEM, PKCS12, and JKS as far as may be.

PEM stands in the settings themselves or in a file. PKCS12 is read by the ``cryptography`` package.
Java calls a PKCS12 file JKS as well, which is the default type: a file is judged by its bytes. The
old format of that name only Java reads.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla.common.errors import InvalidConfig

ReadFile = Callable[[str], bytes]
_PEM: Final = "PEM"
_TYPES: Final = (_PEM, "PKCS12", "JKS")
_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_BLOCK: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_KEYS: Final = (b"PRIVATE KEY", b"ENCRYPTED PRIVATE KEY")
_ENCRYPTED: Final = b"ENCRYPTED PRIVATE KEY"


class KeyStore(NamedTuple):
    """A private key and its certificates, in PEM."""

    key: bytes
    chain: bytes
    password: str | None

    def __repr__(self) -> str:
        return "KeyStore(hidden)"


def read_key_store(settings: Mapping[str, str], read_file: ReadFile) -> KeyStore | None:
    """What ``ssl.keystore.*`` names; None when it names nothing."""
    key = settings.get("ssl.keystore.key")
    chain = settings.get("ssl.keystore.certificate.chain")
    location = settings.get("ssl.keystore.location")
    kind = _type(settings, "ssl.keystore.type")
    password = settings.get("ssl.keystore.password")
    key_password = settings.get("ssl.key.password")
    if key is not None or chain is not None:
        _check_inline(kind, key, chain, location, password)
        return _pem_key_store(f"{key}\n{chain}".encode(), key_password, "ssl.keystore.key")
    if location is None:
        return None
    data = _read(read_file, location, "ssl.keystore.location")
    if kind == _PEM:
        if password is not None:
            raise InvalidConfig(
                "SSL key store password cannot be specified with PEM format, only key password "
                "may be specified."
            )
        return _pem_key_store(data, key_password, location)
    if password is None:
        raise InvalidConfig("SSL key store is specified, but key store password is not specified.")
    return _pkcs12_key_store(data, password, key_password, location)


def read_trust_store(settings: Mapping[str, str], read_file: ReadFile) -> str | None:
    """The trusted certificates in PEM; None when the system's own are to be taken."""
    inline = settings.get("ssl.truststore.certificates")
    location = settings.get("ssl.truststore.location")
    password = settings.get("ssl.truststore.password")
    kind = _type(settings, "ssl.truststore.type")
    if inline is not None:
        if kind != _PEM:
            raise InvalidConfig(
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{kind}."
            )
        if location is not None or password is not None:
            raise InvalidConfig(
                "Both SSL trust store location (or password) and certificates are specified."
            )
        return _certificates(inline.encode(), "ssl.truststore.certificates")
    if location is None:
        return None
    data = _read(read_file, location, "ssl.truststore.location")
    if kind == _PEM:
        if password is not None:
            raise InvalidConfig("SSL trust store password cannot be specified for PEM format.")
        return _certificates(data, location)
    return _pkcs12_certificates(data, password, location)


def _type(settings: Mapping[str, str], name: str) -> str:
    kind = settings.get(name, "JKS").upper()
    if kind not in _TYPES:
        raise InvalidConfig(f"{name}: {kind} is not one of {', '.join(_TYPES)}")
    return kind


def _check_inline(
    kind: str, key: str | None, chain: str | None, location: str | None, password: str | None
) -> None:
    if kind != _PEM:
        raise InvalidConfig(
            f"SSL private key can be specified only for PEM, but key store type is {kind}."
        )
    if location is not None:
        raise InvalidConfig("Both SSL key store location and separate private key are specified.")
    if password is not None:
        raise InvalidConfig(
            "SSL key store password cannot be specified with PEM format, only key "
            "password may be specified."
        )
    if key is None:
        raise InvalidConfig("SSL certificate chain is specified, but private key is not specified")
    if chain is None:
        raise InvalidConfig("SSL private key is specified, but certificate chain is not specified.")


def _read(read_file: ReadFile, location: str, setting: str) -> bytes:
    try:
        return read_file(location)
    except OSError as error:
        raise InvalidConfig(f"{setting}: {location} cannot be read: {error.strerror}") from None


def _blocks(data: bytes) -> list[tuple[bytes, bytes]]:
    """The label of each block of a PEM file, and the block; text around them is passed over."""
    return [(match[1], match[0]) for match in _BLOCK.finditer(data)]


def _pem_key_store(data: bytes, password: str | None, where: str) -> KeyStore:
    blocks = _blocks(data)
    keys = [(label, block) for label, block in blocks if label in _KEYS]
    if len(keys) != 1:
        raise InvalidConfig(
            f"{where}: expected one private key in PKCS#8 (BEGIN PRIVATE KEY), found {len(keys)}"
        )
    label, key = keys[0]
    if label == _ENCRYPTED and password is None:
        raise InvalidConfig(f"{where}: the private key is encrypted, set ssl.key.password")
    if label != _ENCRYPTED and password is not None:
        raise InvalidConfig(f"{where}: ssl.key.password is set, but the key is not encrypted")
    return KeyStore(key, _certificates(data, where).encode(), password)


def _certificates(data: bytes, where: str) -> str:
    found = [block for label, block in _blocks(data) if label == b"CERTIFICATE"]
    if not found:
        raise InvalidConfig(f"{where}: there is no certificate in it")
    return b"\n".join(found).decode("ascii", "replace") + "\n"


def _pkcs12_key_store(data: bytes, password: str, key_password: str | None, where: str) -> KeyStore:
    if key_password is not None and key_password != password:
        raise InvalidConfig(
            f"{where}: ssl.key.password must be the keystore's own: PKCS12 has one password"
        )
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    key, own, others = _load_pkcs12(data, password, where)
    if key is None or own is None:
        raise InvalidConfig(f"{where}: there is no private key with a certificate in it")
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyStore(pem, b"".join(each.public_bytes(Encoding.PEM) for each in (own, *others)), None)


def _pkcs12_certificates(data: bytes, password: str | None, where: str) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    _, own, others = _load_pkcs12(data, password, where)
    found = [*([own] if own is not None else ()), *others]
    if not found:
        raise InvalidConfig(f"{where}: there is no certificate in it")
    return b"".join(each.public_bytes(Encoding.PEM) for each in found).decode()


def _load_pkcs12(data: bytes, password: str | None, where: str) -> Any:
    if data.startswith(_JKS_MAGIC):
        raise InvalidConfig(
            f"{where} is a keystore in Java's own old format (JKS). Convert it: keytool "
            f"-importkeystore -srckeystore {where} -destkeystore {where}.p12 -deststoretype PKCS12"
        )
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_key_and_certificates
    except ImportError:
        raise InvalidConfig(
            f"{where}: PKCS12 is read by the cryptography package: pip install 'ottla[security]'"
        ) from None
    try:
        return load_key_and_certificates(data, None if password is None else password.encode())
    except ValueError as error:
        raise InvalidConfig(f"{where}: no PKCS12 file, or another password: {error}") from None
