"""What a node without TLS has for its networks, and one without SASL for its logins."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener
from ottla.network.connection import AnswerFrame
from ottla.network.sockets import DiallingNetwork

if TYPE_CHECKING:
    from ottla.network.login import SaslListener


class PlainNetworks:
    """The one network for all listeners; see ``SecuredNetworks``."""

    def __init__(self, network: DiallingNetwork) -> None:
        self._network = network

    def of(self, _listener_name: str) -> DiallingNetwork:
        return self._network

    def of_controllers(self) -> DiallingNetwork:
        return self._network

    def identify(self, _listener_name: str) -> None:
        """No certificate tells whose connection it is."""

    def reconfigured(self, _config: BrokerConfig) -> None:
        """There are no stores."""

    def close(self) -> None:
        """There is nothing to watch."""


class NoLogins:
    """Nobody logs in; see ``Logins``."""

    to_brokers: Final = None
    to_controllers: Final = None

    def at(self, _listeners: Iterable[Listener], _answer: AnswerFrame) -> dict[str, "SaslListener"]:
        return {}

    def stop(self) -> None:
        """There are no keys."""
