"""Certificates for tests: one authority for all of them, since each takes a moment to make."""

import datetime as dt
from functools import cache
from pathlib import Path

from ottla.security.certificates import Authority, Issued

NOW = dt.datetime.now(dt.UTC)
HOSTS = ["localhost", "127.0.0.1", "::1"]


@cache
def authority() -> Authority:
    return Authority.create("test authority", NOW)


@cache
def stranger() -> Authority:
    """One that nobody trusts."""
    return Authority.create("stranger", NOW)


@cache
def server() -> Issued:
    return authority().issue("broker", HOSTS, NOW)


@cache
def client(name: str = "alice") -> Issued:
    return authority().issue(name, [], NOW)


def settings(issued: Issued | None = None) -> dict[str, str]:
    """Kafka's settings of a side that shows ``issued`` (a server's, unless told otherwise)."""
    shown = issued or server()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": shown.key,
        "ssl.keystore.certificate.chain": shown.certificate,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": authority().certificate,
    }


def write(directory: Path, issued: Issued) -> tuple[str, str, str]:
    """Files for clients of others: what to trust, the certificate, its key."""
    paths = directory / "ca.pem", directory / "own.pem", directory / "own.key"
    for path, text in zip(
        paths, (authority().certificate, issued.certificate, issued.key), strict=True
    ):
        path.write_text(text)
    return str(paths[0]), str(paths[1]), str(paths[2])
