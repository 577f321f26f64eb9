"""Certificates for development and tests: an authority, and what it issues. Not for production.

Needs the ``cryptography`` package (``pip install 'ottla[security]'``).
"""

import datetime as dt
import ipaddress
from typing import Final, NamedTuple, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

DAYS: Final = 825
"""The longest that common verifiers accept."""
_EARLIER: Final = dt.timedelta(hours=1)
"""Valid already for a verifier whose clock is behind."""


class Issued(NamedTuple):
    """A private key (PKCS#8) and its certificate, both in PEM."""

    key: str
    certificate: str

    def __repr__(self) -> str:
        return "Issued(hidden)"


class Authority:
    """Signs certificates; ``certificate`` is what others are to trust."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str, now: dt.datetime) -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, now, 10 * DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, issued: Issued) -> Self:
        key = load_pem_private_key(issued.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(key, x509.load_pem_x509_certificate(issued.certificate.encode()))

    @property
    def certificate(self) -> str:
        return self._certificate.public_bytes(Encoding.PEM).decode()

    def issued(self) -> Issued:
        """Itself, to be kept."""
        return Issued(_pem(self._key), self.certificate)

    def issue(self, name: str, hosts: list[str], now: dt.datetime) -> Issued:
        """For a server that is dialled by one of ``hosts``, or a client when there is none."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, self._certificate.subject, key, now, DAYS)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
            critical=False,
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(_pem(key), certificate.public_bytes(Encoding.PEM).decode())


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: dt.datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
