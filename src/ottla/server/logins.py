"""Logins of a node: those of its clients at its listeners, and its own at other nodes.

Credentials are asked of the metadata as it is at that moment, so that a user that is removed
does not come in again.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.metadata.delegation_tokens import DelegationToken
from ottla.metadata.image import ImageSource
from ottla.network.connection import AnswerFrame
from ottla.network.login import SaslListener
from ottla.security.delegation_tokens import TokenLogins, token_key
from ottla.security.listener_settings import (
    SASL_PROTOCOLS,
    Credentials,
    SaslOfListener,
    node_login,
)
from ottla.security.oauthbearer import CheckToken
from ottla.security.sasl_client import SaslLogin
from ottla.security.sasl_server import SaslSettings
from ottla.security.scram import ScramCredential, ScramMechanism

if TYPE_CHECKING:
    from ottla.server.signing_keys import SigningKeys


class Logins:
    """InvalidConfig when the settings of a listener cannot be kept."""

    def __init__(
        self, config: BrokerConfig, metadata: ImageSource, scheduler: Scheduler, chance: Chance
    ) -> None:
        self._config = config
        self._metadata = metadata
        self._scheduler = scheduler
        self._signing_keys: list[SigningKeys] = []
        self._tokens = TokenLogins(
            token_key(config),
            self._token,
            scheduler.wall_ms,
            chance,
        )
        self._credentials = Credentials(
            self._scram, self._tokens.find, self._signed, scheduler.wall_ms, chance
        )
        self._at = {
            listener.name: SaslOfListener(config, listener.name).server(self._credentials)
            for listener in config.listeners
            if listener.security_protocol in SASL_PROTOCOLS
        }
        self.to_brokers = self._to_brokers(chance) if config.is_broker else None
        """How this node logs in at other brokers; None where nobody does."""
        self.to_controllers = self._to_controllers(chance)

    def _to_brokers(self, chance: Chance) -> SaslLogin | None:
        config = self._config
        return node_login(
            config,
            config.inter_broker_listener_name,
            config.sasl_mechanism_inter_broker_protocol,
            "sasl.mechanism.inter.broker.protocol",
            chance,
            self._scheduler.wall_ms,
        )

    def _to_controllers(self, chance: Chance) -> SaslLogin | None:
        config = self._config
        if not config.controller_listener_names:
            return None
        return node_login(
            config,
            config.controller_listener_names[0],
            config.sasl_mechanism_controller_protocol,
            "sasl.mechanism.controller.protocol",
            chance,
            self._scheduler.wall_ms,
        )

    def at(self, listeners: Iterable[Listener], answer: AnswerFrame) -> dict[str, SaslListener]:
        """What those of ``listeners`` that ask for a login begin with, before ``answer``."""
        return {
            listener.name: self._listener(listener.name, self._at[listener.name], answer)
            for listener in listeners
            if listener.name in self._at
        }

    def _listener(self, name: str, settings: SaslSettings, answer: AnswerFrame) -> SaslListener:
        config = self._config
        of_listener = SaslOfListener(config, name)
        return SaslListener(
            settings,
            answer,
            self._scheduler,
            frame_bytes=min(
                of_listener.number("sasl.server.max.receive.size"),
                config.socket_request_max_bytes,
            ),
            frame_bytes_after=config.socket_request_max_bytes,
            refusal_delay_ms=config.connection_failed_authentication_delay_ms,
        )

    def _scram(self, mechanism: ScramMechanism, name: str) -> ScramCredential | None:
        return self._metadata.image.scram.get((mechanism, name))

    def _token(self, token_id: str) -> DelegationToken | None:
        return self._metadata.image.delegation_tokens.get(token_id)

    def _signed(self, settings: SaslOfListener) -> CheckToken:
        try:
            from ottla.server.signing_keys import signed_tokens_of
        except ImportError:
            raise InvalidConfig(
                "signed tokens are checked by the PyJWT package: pip install 'ottla[security]'"
            ) from None
        allowed = self._config.ottla_sasl_oauthbearer_allowed_urls
        check, keys = signed_tokens_of(settings, allowed, self._scheduler)
        self._signing_keys.append(keys)
        return check

    def stop(self) -> None:
        """Keys are renewed no more."""
        for keys in self._signing_keys:
            keys.stop()
