"""The settings of a listener's SASL, from where a node's file has them.

``listener.name.<listener>.<key>`` hides ``<key>``; what belongs to a mechanism has the prefix
``listener.name.<listener>.<mechanism>.`` and no other place, as in Kafka. Java classes are names
here: those that Kafka brings along are known, others are refused.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.kinds import Value
from ottla.security.jaas import (
    OAUTHBEARER_MODULE,
    PLAIN_MODULE,
    SCRAM_MODULE,
    JaasEntry,
    parse_jaas,
)
from ottla.security.mechanism import GSSAPI, OAUTHBEARER, PLAIN, NewServerMechanism
from ottla.security.oauthbearer import (
    CheckToken,
    OauthbearerServer,
    check_unsecured,
    unsecured_rules,
)
from ottla.security.plain import PlainServer, plain_users
from ottla.security.sasl_client import SaslLogin, login_of
from ottla.security.sasl_server import SaslSettings
from ottla.security.scram import MECHANISMS, ScramCredential, ScramMechanism
from ottla.security.scram_server import ScramSecrets, ScramServer, TokenLogin

SASL_PROTOCOLS: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})
DEFAULT_BUILDER: Final = (
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
)
_JAAS: Final = "sasl.jaas.config"
_HANDLER: Final = "sasl.server.callback.handler.class"
_DECOY_KEY_BYTES: Final = 32
_VALIDATORS: Final = frozenset(
    {
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    }
)
"""Kafka's own, of which the second is the name that it had before."""
_MODULES: Final = {
    PLAIN: PLAIN_MODULE,
    OAUTHBEARER: OAUTHBEARER_MODULE,
    **dict.fromkeys(MECHANISMS, SCRAM_MODULE),
}


class Credentials(NamedTuple):
    """Whom a node's logins are asked of, and what they need besides."""

    scram: Callable[[ScramMechanism, str], ScramCredential | None]
    token: Callable[[ScramMechanism, str], TokenLogin | None]
    signed: Callable[["SaslOfListener"], CheckToken]
    """Checks signed tokens for a listener, as its settings say."""
    wall_ms: Callable[[], int]
    chance: Chance


class SaslOfListener:
    """What a node's settings say of the SASL of one listener; InvalidConfig names the key."""

    def __init__(self, config: BrokerConfig, listener_name: str) -> None:
        self._config = config
        self._listener = f"listener.name.{listener_name.lower()}."
        self._check_builder()

    def value(self, name: str, mechanism: str = "") -> Value:
        """A setting as it holds for a mechanism of this listener."""
        originals = self._config.originals
        for prefix in (f"{self._listener}{mechanism.lower()}.", self._listener):
            text = originals.get(prefix + name)
            if text is not None:
                return BrokerConfig.keys[name].parse(text)
        return self._config.values[name]

    def number(self, name: str, mechanism: str = "") -> int:
        value = self.value(name, mechanism)
        assert isinstance(value, int)
        return value

    def words(self, name: str, mechanism: str = "") -> tuple[str, ...]:
        value = self.value(name, mechanism)
        assert isinstance(value, tuple)
        return value

    def text(self, name: str, mechanism: str = "") -> str | None:
        value = self.value(name, mechanism)
        assert value is None or isinstance(value, str)
        return value or None

    def jaas(self, mechanism: str) -> JaasEntry:
        name = self.key(_JAAS, mechanism)
        text = self._config.originals.get(name)
        if text is None:
            raise InvalidConfig(
                f"{name} is not set: the login of SASL mechanism {mechanism} is not known"
            )
        entry = parse_jaas(text, name)
        if entry.module != _MODULES[mechanism]:
            raise InvalidConfig(
                f"{name} must name {_MODULES[mechanism]}: Java classes of your own, and login "
                "modules of others, cannot be loaded"
            )
        return entry

    def key(self, name: str, mechanism: str) -> str:
        return f"{self._listener}{mechanism.lower()}.{name}"

    def _check_builder(self) -> None:
        if self.text("principal.builder.class") != DEFAULT_BUILDER:
            raise InvalidConfig(f"principal.builder.class must be {DEFAULT_BUILDER}")

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Those by which clients may log in."""
        enabled = self.words("sasl.enabled.mechanisms")
        for mechanism in enabled:
            if mechanism == GSSAPI:
                raise InvalidConfig(
                    "sasl.enabled.mechanisms has GSSAPI (its default), and Kerberos is not served: "
                    f"set {self._listener}sasl.enabled.mechanisms to some of {', '.join(_MODULES)}"
                )
            if mechanism not in _MODULES:
                raise InvalidConfig(
                    f"sasl.enabled.mechanisms has {mechanism!r}, which is none of "
                    f"{', '.join(_MODULES)}"
                )
        if not enabled:
            raise InvalidConfig("sasl.enabled.mechanisms is empty, and a listener speaks SASL")
        return enabled

    # The server's side

    def server(self, credentials: Credentials) -> SaslSettings:
        """How clients log in at this listener."""
        decoy_key = credentials.chance.bytes(_DECOY_KEY_BYTES)
        mechanisms = self.mechanisms
        return SaslSettings(
            {each: self._new(each, credentials, decoy_key) for each in mechanisms},
            {each: self.number("connections.max.reauth.ms", each) for each in mechanisms},
        )

    def _new(
        self, mechanism: str, credentials: Credentials, decoy_key: bytes
    ) -> NewServerMechanism:
        entry = self.jaas(mechanism)
        handler = self.text(_HANDLER, mechanism)
        if mechanism == OAUTHBEARER:
            check = self._check_token(entry, handler, credentials)
            return lambda: OauthbearerServer(check)
        if handler is not None:
            raise InvalidConfig(
                f"{self.key(_HANDLER, mechanism)} names a Java class, which cannot be loaded"
            )
        if mechanism == PLAIN:
            passwords = plain_users(entry.options)
            return lambda: PlainServer(passwords)
        scram = MECHANISMS[mechanism]
        secrets = ScramSecrets(
            scram,
            lambda name: credentials.scram(scram, name),
            lambda token_id: credentials.token(scram, token_id),
            decoy_key,
            credentials.chance,
        )
        return lambda: ScramServer(secrets)

    def _check_token(
        self, entry: JaasEntry, handler: str | None, credentials: Credentials
    ) -> CheckToken:
        if handler is None:
            rules = unsecured_rules(entry.options, self.key(_JAAS, OAUTHBEARER))
            return lambda token: check_unsecured(token, rules, credentials.wall_ms())
        if handler not in _VALIDATORS:
            raise InvalidConfig(
                f"{self.key(_HANDLER, OAUTHBEARER)} names a Java class that cannot be loaded; "
                f"{min(_VALIDATORS)} is known"
            )
        return credentials.signed(self)

    # The side of a node that dials another

    def login(self, mechanism: str, chance: Chance, wall_ms: Callable[[], int]) -> SaslLogin:
        """How this node logs in at others' listener of this name."""
        name = self.key(_JAAS, mechanism)
        return login_of(mechanism, self.jaas(mechanism), name, chance, wall_ms)


def node_login(
    config: BrokerConfig,
    listener_name: str,
    mechanism: str,
    setting: str,
    chance: Chance,
    wall_ms: Callable[[], int],
) -> SaslLogin | None:
    """How this node logs in at a listener of other nodes; None where nobody does.

    ``setting`` is the one that says by which mechanism.
    """
    if config.protocols.get(listener_name.upper()) not in SASL_PROTOCOLS:
        return None
    if mechanism == GSSAPI:
        raise InvalidConfig(
            f"{setting} is GSSAPI (its default), and Kerberos is not served: set it to one of "
            f"{', '.join(_MODULES)}"
        )
    if mechanism not in _MODULES:
        raise InvalidConfig(f"{setting} is {mechanism!r}, which is none of {', '.join(_MODULES)}")
    settings = SaslOfListener(config, listener_name)
    is_served = any(each.name == listener_name.upper() for each in config.listeners)
    if is_served and mechanism not in settings.mechanisms:
        raise InvalidConfig(
            f"{setting} must be included in sasl.enabled.mechanisms of the listener that nodes use"
        )
    return settings.login(mechanism, chance, wall_ms)
