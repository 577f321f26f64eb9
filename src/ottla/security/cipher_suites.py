"""Java's names of cipher suites (``ssl.cipher.suites``) as OpenSSL's."""

import re
import ssl
from collections.abc import Sequence
from typing import Final

from ottla.common.errors import InvalidConfig

TLS_13: Final = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"}
)
"""They are on or off together: the interpreter has no switch for each."""
_NAME: Final = re.compile(r"TLS_(?:(ECDHE|DHE|RSA)_?(RSA|ECDSA)?)_WITH_(.+)_(SHA\d*)")
_AES: Final = re.compile(r"AES_(128|256)_(CBC|GCM)")


def openssl_ciphers(suites: Sequence[str]) -> tuple[str | None, bool]:
    """The list for TLS 1.2, and whether TLS 1.3 may be used; None for the default ones."""
    if not suites:
        return None, True
    newest = {each for each in suites if each in TLS_13}
    if newest and newest != TLS_13:
        raise InvalidConfig(
            "ssl.cipher.suites: the suites of TLS 1.3 can only be allowed together: "
            f"{', '.join(sorted(TLS_13))}"
        )
    names = [_openssl(each) for each in suites if each not in newest]
    return ":".join(names), bool(newest)


def _openssl(name: str) -> str:
    converted = name
    match = _NAME.fullmatch(name)
    if match is not None:
        exchange, signature, cipher, digest = match.groups()
        aes = _AES.fullmatch(cipher)
        if aes is not None:
            cipher = f"AES{aes[1]}" + ("-GCM" if aes[2] == "GCM" else "")
        elif cipher == "CHACHA20_POLY1305":
            cipher, digest = "CHACHA20-POLY1305", ""
        parts = [exchange if exchange != "RSA" else "", signature or "", cipher, digest]
        converted = "-".join(part for part in parts if part)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_ciphers(converted)
    except ssl.SSLError:
        raise InvalidConfig(f"ssl.cipher.suites: {name} is unknown to OpenSSL") from None
    return converted
