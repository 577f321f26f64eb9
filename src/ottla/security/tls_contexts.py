"""OpenSSL's contexts of a listener, made of Kafka's ``ssl.*`` settings; replaced when a store is.

Both sides are made of the same settings, as in Kafka: a broker shows the listener's certificate to
the brokers that it dials, too. New connections use new stores; those that are there stay.
"""

import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.security.cipher_suites import openssl_ciphers
from ottla.security.tls_stores import KeyStore, ReadFile, read_key_store, read_trust_store

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_ONLY_JAVA: Final = ("ssl.engine.factory.class",)


def read_file(path: str) -> bytes:
    with open(path, "rb") as file:  # noqa: PTH123 - a path of the settings, as it stands
        return file.read()


class Contexts(NamedTuple):
    """Both sides of a listener, as its stores were when they were read."""

    server: ssl.SSLContext
    client: ssl.SSLContext
    has_keys: bool

    def check_itself(self) -> None:
        """Whether its own truststore accepts its own keystore: it will dial its like."""
        try:
            _shake_hands(self.server, self.client)
        except ssl.SSLError as error:
            raise InvalidConfig(
                "The keystore of the inter-broker listener is not accepted by its own truststore: "
                f"{error.reason}"
            ) from None


class ListenerContexts:
    """Of one listener; implements ``TlsContexts``."""

    def __init__(self, settings: Mapping[str, str], read: ReadFile = read_file) -> None:
        """InvalidConfig says what is wrong with ``settings``, never what a secret is."""
        self._read = read
        self.use(self.made_of(settings))

    def made_of(self, settings: Mapping[str, str]) -> Contexts:
        """Read stores, which may take its time; nothing here changes by it."""
        keys = read_key_store(settings, self._read)
        trusted = read_trust_store(settings, self._read)
        return Contexts(*_contexts(settings, keys, trusted), has_keys=keys is not None)

    def use(self, contexts: Contexts) -> None:
        """Use other stores from now on, or the same files with other contents."""
        self._contexts = contexts
        self.server, self.client, self.has_keys = contexts

    def check_itself(self) -> None:
        self._contexts.check_itself()


def _contexts(
    settings: Mapping[str, str], keys: KeyStore | None, trusted: str | None
) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    for name in _ONLY_JAVA:
        if settings.get(name):
            raise InvalidConfig(f"{name} names a Java class, which cannot be used here")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    for context in (server, client):
        _set_versions(context, settings)
        _set_trust(context, trusted)
        if keys is not None:
            _set_keys(context, keys)
    text = settings.get("ssl.client.auth", "none").lower()
    if text not in _CLIENT_AUTH:
        raise InvalidConfig(f"ssl.client.auth: {text} is not one of none, requested, required")
    server.verify_mode = _CLIENT_AUTH[text]
    algorithm = settings.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "https"):
        raise InvalidConfig(f"ssl.endpoint.identification.algorithm: {algorithm} is unknown")
    client.check_hostname = algorithm == "https"
    return server, client


def _set_versions(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    text = settings.get("ssl.enabled.protocols") or "TLSv1.2,TLSv1.3"
    names = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [each for each in names if each not in VERSIONS]
    if unknown or not names:
        raise InvalidConfig(
            f"ssl.enabled.protocols: {', '.join(unknown) or 'nothing'} cannot be used, only "
            f"{' and '.join(VERSIONS)}"
        )
    suites = [each.strip() for each in settings.get("ssl.cipher.suites", "").split(",")]
    ciphers, has_13 = openssl_ciphers([each for each in suites if each])
    if ciphers is not None:
        if not has_13:
            names = [each for each in names if each != "TLSv1.3"] or names
        if ciphers:
            context.set_ciphers(ciphers)
        else:
            names = ["TLSv1.3"]
    versions = [VERSIONS[each] for each in names]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    context.options |= ssl.OP_NO_RENEGOTIATION


def _set_trust(context: ssl.SSLContext, trusted: str | None) -> None:
    if trusted is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=trusted)
    except ssl.SSLError as error:
        raise InvalidConfig(f"a certificate of the truststore cannot be read: {error}") from None
    # As Java has it: what is in the store is trusted itself, be its issuer known or not.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


def _set_keys(context: ssl.SSLContext, keys: KeyStore) -> None:
    """OpenSSL is given keys by a path: a file that is in memory, or that only we can read."""
    data = keys.key + b"\n" + keys.chain
    password = keys.password or ""
    try:
        if hasattr(os, "memfd_create"):
            with os.fdopen(os.memfd_create("keys", os.MFD_CLOEXEC), "wb") as file:
                file.write(data)
                file.flush()
                context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=password)
        else:
            with tempfile.NamedTemporaryFile() as file:
                file.write(data)
                file.flush()
                context.load_cert_chain(file.name, password=password)
    except ssl.SSLError as error:
        raise InvalidConfig(f"the private key cannot be used: {error.reason or error}") from None


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> None:
    """Both sides in memory, without a name to be checked."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    checks_hostname, client.check_hostname = client.check_hostname, False
    try:
        ours = client.wrap_bio(to_client, to_server)
    finally:
        client.check_hostname = checks_hostname
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    waiting = [ours, theirs]
    for _ in range(20):
        for side in tuple(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            break
    if server.verify_mode is not ssl.CERT_NONE:
        # In TLS 1.3 the server judges the certificate behind the client's end of the handshake.
        try:
            theirs.read(1)
        except ssl.SSLWantReadError:
            return
