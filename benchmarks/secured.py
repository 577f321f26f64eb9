"""A broker with secured listeners beside its plain one, the same for both programs.

Topics, users and ACLs are made on the plain listener, whose clients are super users. What is
measured comes by the others.
"""

import datetime as dt
import ssl
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from benchmarks.small_requests import TIMEOUT, Asking, request_frame
from benchmarks.throughput import NONE, ClientSettings, Settings
from confluent_kafka import admin as confluent
from tools.kafka_peer.broker_process import BrokerProcess, Program, free_ports

from ottla.common.chance import Chance
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeResponse
from ottla.protocol.message import from_bytes
from ottla.security.certificates import Authority
from ottla.security.mechanism import HANDSHAKE_VERSION
from ottla.security.sasl_client import SaslClient, SaslLogin, client_login

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
USER: Final = "alice"
PASSWORD: Final = "alice-secret"
ITERATIONS: Final = 4096
AUTHENTICATE_VERSION: Final = 2
_HEADER: Final = 4
"""A correlation id; the flexible versions have tags behind it."""
_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN: Final = f'{_SECURITY}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
_SCRAM: Final = f"{_SECURITY}.scram.ScramLoginModule required;"
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@cache
def _login(mechanism: str) -> SaslLogin:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": PASSWORD,
    }
    login = client_login(properties, Chance(), lambda: time.time_ns() // 1_000_000)
    assert login is not None
    return login


class SecuredBroker(BrokerProcess):
    """``tls_port`` and ``sasl_port`` are those of its other listeners."""

    def __init__(self, program: Program, directory: Path, more: Settings = NONE) -> None:
        super().__init__(program, directory)
        self.tls_port, self.sasl_port = free_ports(2)
        self.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},TLS://127.0.0.1:{self.tls_port},"
            f"SASL://127.0.0.1:{self.sasl_port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,"
            "CONTROLLER:PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "ssl.enabled.protocols": "TLSv1.3",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "log.segment.delete.delay.ms": "1000",
            **more,
        }
        for mechanism in MECHANISMS:
            entry = _PLAIN if mechanism == "PLAIN" else _SCRAM
            self.settings[f"listener.name.sasl.{mechanism.lower()}.sasl.jaas.config"] = entry

    @property
    def _authority(self) -> Path:
        return self.directory / "authority.pem"

    def start(self, *, timeout: float = 60) -> float:
        """Certificates are made before, the user's SCRAM credentials after."""
        now = dt.datetime.now(dt.UTC)
        authority = Authority.create("bench", now)
        issued = authority.issue("broker", ["127.0.0.1"], now)
        self._authority.write_text(authority.certificate)
        (self.directory / "broker.pem").write_text(issued.key + issued.certificate)
        seconds = super().start(timeout=timeout)
        try:
            self._add_user()
        except BaseException:
            self.kill()
            raise
        return seconds

    def _add_user(self) -> None:
        admin = self._admin()
        for mechanism in (
            confluent.ScramMechanism.SCRAM_SHA_256,
            confluent.ScramMechanism.SCRAM_SHA_512,
        ):
            info = confluent.ScramCredentialInfo(mechanism, ITERATIONS)
            wanted = confluent.UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
            for done in admin.alter_user_scram_credentials([wanted]).values():
                done.result(TIMEOUT)

    def _admin(self) -> confluent.AdminClient:
        return confluent.AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 4})

    def over_tls(self) -> ClientSettings:
        common = {"bootstrap.servers": f"127.0.0.1:{self.tls_port}", "security.protocol": "SSL"}
        trusted = str(self._authority)
        java = {"ssl.truststore.type": "PEM", "ssl.truststore.location": trusted}
        return ClientSettings({**common, **java}, {**common, "ssl.ca.location": trusted})

    def tls_context(self) -> ssl.SSLContext:
        """As a client has it."""
        return ssl.create_default_context(cafile=str(self._authority))

    def log_in(self, mechanism: str) -> Asking:
        """A connection to the SASL listener, as :data:`USER`."""
        client = SaslClient(_login(mechanism))
        asking = Asking(self.sasl_port)
        answer = asking.ask(request_frame(client.start(), HANDSHAKE_VERSION))
        token: SaslAuthenticateRequest | None = client.shaken(
            from_bytes(SaslHandshakeResponse, answer[_HEADER:], HANDSHAKE_VERSION)
        )
        while token is not None:
            answer = asking.ask(request_frame(token, AUTHENTICATE_VERSION))
            body = answer[_HEADER + 1 :]
            token = client.received(
                from_bytes(SaslAuthenticateResponse, body, AUTHENTICATE_VERSION)
            )
        return asking

    def allow(self, topics: Sequence[str], users: Sequence[str]) -> None:
        """An ACL for each of the users on each of the topics: they may write."""
        wanted = [
            confluent.AclBinding(
                confluent.ResourceType.TOPIC,
                topic,
                confluent.ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                confluent.AclOperation.WRITE,
                confluent.AclPermissionType.ALLOW,
            )
            for topic in topics
            for user in users
        ]
        admin = self._admin()
        for done in admin.create_acls(wanted).values():
            done.result(TIMEOUT)
