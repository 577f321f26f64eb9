"""Who a client is and how it is encrypted, by the settings of Kafka's clients.

All of ours take them from here: the command line, Spark's tasks, tests. They are values that can be
compared and sent to other processes, and that show no secret. Files are read where a connection is
made. Names of librdkafka are taken where it has others for the same thing.
"""

import ssl
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.security.sasl_client import (
    JAAS,
    MECHANISM,
    PASSWORD,
    PROTOCOL,
    USERNAME,
    SaslLogin,
    client_login,
)
from ottla.security.tls_contexts import ListenerContexts, read_file
from ottla.security.tls_stores import ReadFile

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SASL: Final = (MECHANISM, "sasl.mechanisms", JAAS, USERNAME, PASSWORD)
_SSL: Final = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.engine.factory.class",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
_LIBRDKAFKA: Final = (
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
)
_SYSTEM: Final = "probe"
"""What librdkafka calls the authorities that the system trusts."""
SECURITY_SETTINGS: Final = frozenset({PROTOCOL, *_SASL, *_SSL, *_LIBRDKAFKA})


class ClientSecurity(NamedTuple):
    """Settings that are set, by name; made by :func:`security_of`."""

    settings: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ClientSecurity({self.protocol}, [hidden])"

    def __str__(self) -> str:
        return repr(self)

    @property
    def protocol(self) -> str:
        return dict(self.settings).get(PROTOCOL, PROTOCOLS[0])

    def tls(self, read: ReadFile = read_file) -> ssl.SSLContext | None:
        """How connections are encrypted; None where they are not."""
        if not self.protocol.endswith("SSL"):
            return None
        return ListenerContexts(_stores(dict(self.settings), read), read).client

    def login(self, chance: Chance, wall_ms: Callable[[], int]) -> SaslLogin | None:
        """How to log in; None where nobody does."""
        return client_login(dict(self.settings), chance, wall_ms)


UNSECURED: Final = ClientSecurity()


def security_of(properties: Mapping[str, str]) -> ClientSecurity:
    """What a client's settings say of it; others are passed over.

    InvalidConfig says what is wrong, and shows no secret.
    """
    given = {name: properties[name] for name in sorted(SECURITY_SETTINGS & properties.keys())}
    protocol = given.get(PROTOCOL, PROTOCOLS[0]).strip().upper()
    if protocol not in PROTOCOLS:
        raise InvalidConfig(f"{PROTOCOL}: {protocol} is not one of {', '.join(PROTOCOLS)}")
    if protocol == PROTOCOLS[0]:
        return UNSECURED
    made = ClientSecurity(tuple({**given, PROTOCOL: protocol}.items()))
    made.login(Chance(), lambda: 0)
    return made


def _stores(settings: dict[str, str], read: ReadFile) -> dict[str, str]:
    """Settings of stores as Kafka has them, made of librdkafka's where those are given."""
    kept: dict[str, str] = {name: settings[name] for name in _SSL if name in settings}
    # librdkafka's word for what Kafka says by leaving it empty.
    if kept.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
        kept["ssl.endpoint.identification.algorithm"] = ""
    authority = _text(settings, "ssl.ca.pem", "ssl.ca.location", read)
    if authority is not None:
        kept["ssl.truststore.type"] = "PEM"
        kept["ssl.truststore.certificates"] = authority
    chain = _text(settings, "ssl.certificate.pem", "ssl.certificate.location", read)
    key = _text(settings, "ssl.key.pem", "ssl.key.location", read)
    if (chain is None) != (key is None):
        raise InvalidConfig("ssl.certificate.location and ssl.key.location go together")
    if chain is not None and key is not None:
        kept["ssl.keystore.type"] = "PEM"
        if chain == key and "ssl.key.location" in settings:
            # One file with both, as Kafka has them.
            return kept | {"ssl.keystore.location": settings["ssl.key.location"]}
        kept["ssl.keystore.certificate.chain"] = chain
        kept["ssl.keystore.key"] = key
    return kept


def _text(settings: Mapping[str, str], inline: str, location: str, read: ReadFile) -> str | None:
    """What is given by itself, or by a file."""
    path = settings.get(location)
    if inline in settings or path is None or path == _SYSTEM:
        return settings.get(inline)
    try:
        return read(path).decode("ascii", "replace")
    except OSError as error:
        raise InvalidConfig(f"{location}: {path} cannot be read: {error.strerror}") from None
