"""The client's side of a SASL login: which requests, until the server lets us in.

The owner of a connection sends what :meth:`SaslClient.start` and :meth:`SaslClient.received` say.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import ErrorCode, InvalidConfig, ProtocolViolation
from ottla.protocol.generated.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from ottla.protocol.generated.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from ottla.security.jaas import JaasEntry, parse_jaas
from ottla.security.mechanism import (
    GSSAPI,
    OAUTHBEARER,
    PLAIN,
    ClientMechanism,
    LoginRefused,
)
from ottla.security.plain import PlainClient
from ottla.security.scram import MECHANISMS, TOKEN_AUTH
from ottla.security.scram_client import ScramClient

PROTOCOL: Final = "security.protocol"
MECHANISM: Final = "sasl.mechanism"
JAAS: Final = "sasl.jaas.config"
USERNAME: Final = "sasl.username"
PASSWORD: Final = "sasl.password"  # noqa: S105 - the name of a setting
STEPS_MAX: Final = 16
_REAUTHENTICATION_SHARE: Final = 0.85
"""When a session is made to go on, of its lifetime; as Kafka's clients do at the earliest."""

NewClientMechanism = Callable[[], ClientMechanism]


class SaslLogin(NamedTuple):
    """By which mechanism, and as whom, we log in."""

    mechanism: str
    new: NewClientMechanism

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism}, [hidden])"

    def client(self) -> "SaslClient":
        """Begins a login on a connection."""
        return SaslClient(self)


def client_login(
    properties: Mapping[str, str], chance: Chance, wall_ms: Callable[[], int]
) -> SaslLogin | None:
    """What a client's settings say; None where nobody is to log in.

    InvalidConfig says what is missing, and shows no secret.
    """
    protocol = properties.get(PROTOCOL, "PLAINTEXT").strip().upper()
    if not protocol.startswith("SASL_"):
        return None
    # librdkafka takes the plural for the same thing.
    mechanism = properties.get(MECHANISM) or properties.get("sasl.mechanisms", GSSAPI)
    entry = None
    text = properties.get(JAAS)
    if text is not None:
        entry = parse_jaas(text, JAAS)
    elif USERNAME in properties:
        password = properties.get(PASSWORD)
        if password is None:
            raise InvalidConfig(f"{USERNAME} is set and {PASSWORD} is not")
        entry = JaasEntry("", {"username": properties[USERNAME], "password": password})
    if entry is None:
        raise InvalidConfig(f"{PROTOCOL}={protocol} needs {JAAS}, or {USERNAME} and {PASSWORD}")
    return login_of(mechanism, entry, JAAS, chance, wall_ms)


def login_of(
    mechanism: str, entry: JaasEntry, name: str, chance: Chance, wall_ms: Callable[[], int]
) -> SaslLogin:
    """The login that the JAAS entry of the setting ``name`` has for a mechanism."""
    if mechanism == OAUTHBEARER:
        from ottla.security.oauthbearer import unsecured_client

        return SaslLogin(mechanism, unsecured_client(entry.options, name, wall_ms))
    if mechanism == GSSAPI:
        raise InvalidConfig(
            "GSSAPI (Kerberos) is not served; sasl.mechanism may be PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512 or OAUTHBEARER"
        )
    if mechanism != PLAIN and mechanism not in MECHANISMS:
        raise InvalidConfig(f"sasl.mechanism {mechanism!r} is not known")
    options = entry.options
    if not options.get("username") or "password" not in options:
        raise InvalidConfig(f"{name} has no username, or no password")
    username, password = options["username"], options["password"]
    if mechanism == PLAIN:
        return SaslLogin(mechanism, lambda: PlainClient(username, password))
    scram = MECHANISMS[mechanism]
    with_token = options.get(TOKEN_AUTH, "").lower() == "true"
    return SaslLogin(
        mechanism, lambda: ScramClient(scram, username, password, chance, with_token=with_token)
    )


class SaslClient:
    """One login on one connection."""

    def __init__(self, login: SaslLogin) -> None:
        self._login = login
        self._mechanism = login.new()
        self._steps = 0
        self.session_seconds: float | None = None
        """After which time to log in again; None for never."""

    def start(self) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(mechanism=self._login.mechanism)

    def shaken(self, response: SaslHandshakeResponse) -> SaslAuthenticateRequest:
        """What follows the handshake."""
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            enabled = ", ".join(response.mechanisms)
            raise LoginRefused(
                f"SASL mechanism {self._login.mechanism} is not enabled there; {enabled} is"
            )
        if response.error_code != ErrorCode.NONE:
            raise LoginRefused(f"the handshake is refused with error {response.error_code}")
        return SaslAuthenticateRequest(auth_bytes=self._mechanism.first())

    def check(self, response: SaslAuthenticateResponse) -> None:
        """LoginRefused where the server has refused."""
        if response.error_code != ErrorCode.NONE:
            raise LoginRefused(
                response.error_message or f"the login is refused with error {response.error_code}"
            )

    def received(self, response: SaslAuthenticateResponse) -> SaslAuthenticateRequest | None:
        """What is next, or None when we are in; LoginRefused when we are not."""
        self.check(response)
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise ProtocolViolation("a login without end")
        answer = self._mechanism.evaluate(response.auth_bytes)
        if answer is not None:
            return SaslAuthenticateRequest(auth_bytes=answer)
        if response.session_lifetime_ms > 0:
            lifetime = response.session_lifetime_ms / 1000
            self.session_seconds = lifetime * _REAUTHENTICATION_SHARE
        return None
