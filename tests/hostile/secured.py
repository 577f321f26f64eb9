"""A broker with listeners of all kinds, on which strangers and users without rights try their luck.

The witness comes by the plain listener, whose clients may do everything.
"""

import base64
import json
import ssl
import time
from pathlib import Path
from typing import Any, Final

from tests.differential.wire import Connection, ask
from tests.security import certificates
from tools.kafka_peer.broker_process import BrokerProcess, Program, free_ports

from ottla.common.chance import Chance
from ottla.security.scram import MECHANISMS
from ottla.security.scram_client import ScramClient

Json = Any

ALICE: Final = "alice"
PASSWORD: Final = "alice-secret"
SCRAM: Final = "SCRAM-SHA-256"
SCOPE: Final = "kafka"
_SECURITY: Final = "org.apache.kafka.common.security"
_PLAIN: Final = (
    f'{_SECURITY}.plain.PlainLoginModule required username="admin" password="admin-secret" '
    f'user_admin="admin-secret" user_{ALICE}="{PASSWORD}" user_bob="bob-secret";'
)
_OAUTH: Final = (
    f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredValidatorRequiredScope="{SCOPE}";'
)
LIMIT: Final = 524_288
"""Of frames before a login."""


class SecuredBroker(BrokerProcess):
    """``sasl``, ``tls`` and ``sasl_tls`` are the ports of its other listeners."""

    def __init__(self, program: Program, directory: Path) -> None:
        super().__init__(program, directory)
        self.sasl, self.tls, self.sasl_tls = free_ports(3)
        self.settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},SASL://127.0.0.1:{self.sasl},"
            f"TLS://127.0.0.1:{self.tls},SASLTLS://127.0.0.1:{self.sasl_tls},"
            f"CONTROLLER://127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,TLS:SSL,"
            "SASLTLS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
            "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
            "log.retention.ms": "-1",
            "max.connections": "10000",
            **{key: text.replace("\n", "\\n") for key, text in certificates.settings().items()},
        }
        for listener in ("sasl", "sasltls"):
            for mechanism, entry in (
                ("plain", _PLAIN),
                (SCRAM.lower(), f"{_SECURITY}.scram.ScramLoginModule required;"),
                ("oauthbearer", _OAUTH),
            ):
                self.settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = entry

    def start(self, *, timeout: float = 60) -> float:
        seconds = super().start(timeout=timeout)
        mechanism, salt = MECHANISMS[SCRAM], b"salt"
        salted = mechanism.salted_password(PASSWORD.encode(), salt, 4096)
        given = {"name": ALICE, "mechanism": 1, "iterations": 4096, "salt": salt,
                 "salted_password": salted}  # fmt: skip
        answer = ask(self.port, "AlterUserScramCredentials", 0, upsertions=[given])
        assert answer["results"][0]["errorCode"] == 0, answer
        return seconds


def shake(port: int, mechanism: str, version: int = 1) -> Connection:
    """A connection on which tokens may follow."""
    connection = Connection(port)
    answer = connection.ask("SaslHandshake", version, {"mechanism": mechanism})
    assert answer["errorCode"] == 0, answer
    return connection


def token(connection: Connection, data: bytes) -> dict[str, Json]:
    return connection.ask("SaslAuthenticate", 2, {"auth_bytes": data})


def plain(name: str = ALICE, password: str = PASSWORD, authzid: str = "") -> bytes:
    return f"{authzid}\0{name}\0{password}".encode()


def logged_in(port: int, name: str = ALICE, password: str = PASSWORD) -> Connection:
    connection = shake(port, "PLAIN")
    assert token(connection, plain(name, password))["errorCode"] == 0
    return connection


def scram() -> ScramClient:
    return ScramClient(MECHANISMS[SCRAM], ALICE, PASSWORD, Chance())


def bearer(jwt: str, authzid: str = "") -> bytes:
    named = f"a={authzid}" if authzid else ""
    return f"n,{named},\x01auth=Bearer {jwt}\x01\x01".encode()


def jwt(header: Json = None, signature: str = "", **claims: Json) -> str:
    """An unsecured token that is good, but for what is changed; None leaves a claim out."""
    now = time.time()
    body = {"sub": ALICE, "iat": now - 5, "exp": now + 60, "scope": SCOPE, **claims}
    parts = [{"alg": "none"} if header is None else header]
    parts.append({key: value for key, value in body.items() if value is not None})
    encoded = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts
    ]
    return ".".join([*encoded, signature])


def client_context() -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.load_verify_locations(cadata=certificates.authority().certificate)
    return made
