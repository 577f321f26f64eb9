"""The subject of a certificate reads as Java prints it."""

import datetime as dt
import ssl
from contextlib import suppress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from tests.security import certificates

from ottla.security.distinguished_name import BadCertificate, subject_name


def certificate_of(name: x509.Name) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(certificates.NOW)
        .not_valid_after(certificates.NOW + dt.timedelta(days=1))
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def named(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    return certificate_of(x509.Name([x509.NameAttribute(oid, text) for oid, text in attributes]))


def test_the_most_specific_part_stands_first() -> None:
    """As seen with Apache Kafka: a subject encoded CN, OU, O reads O, OU, CN."""
    der = named(
        (NameOID.COMMON_NAME, "alice"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, "People"),
        (NameOID.ORGANIZATION_NAME, "ottla"),
    )
    assert subject_name(der) == "O=ottla,OU=People,CN=alice"


def test_what_means_something_in_a_name_is_escaped() -> None:
    der = named((NameOID.COMMON_NAME, ' #a,b+c"d\\e<f>g;h '))
    assert subject_name(der) == 'CN=\\ #a\\,b\\+c\\"d\\\\e\\<f\\>g\\;h\\ '


def test_an_attribute_that_has_no_short_word_is_told_by_number_in_hex() -> None:
    der = named((NameOID.COMMON_NAME, "a"), (NameOID.EMAIL_ADDRESS, "a@b"))
    assert subject_name(der) == "1.2.840.113549.1.9.1=#1603614062,CN=a"


def test_several_attributes_of_one_part_stand_together() -> None:
    relative = x509.RelativeDistinguishedName(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
            x509.NameAttribute(NameOID.USER_ID, "7"),
        ]
    )
    assert set(subject_name(certificate_of(x509.Name([relative]))).split("+")) == {"CN=a", "UID=7"}


def test_a_name_of_other_scripts_reads_as_it_is() -> None:
    assert subject_name(named((NameOID.COMMON_NAME, "앨리스"))) == "CN=앨리스"


@given(st.data())
def test_broken_bytes_are_refused_or_read_and_nothing_else(data: st.DataObject) -> None:
    der = bytearray(ssl.PEM_cert_to_DER_cert(certificates.client().certificate))
    for _ in range(data.draw(st.integers(1, 4))):
        der[data.draw(st.integers(0, len(der) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(der[: data.draw(st.integers(0, len(der)))])
    with suppress(BadCertificate):
        assert isinstance(subject_name(cut), str)


def test_nothing_is_no_certificate() -> None:
    with pytest.raises(BadCertificate):
        subject_name(b"")
