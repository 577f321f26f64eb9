"""The network of each listener: plain, or with TLS upon it, as its security protocol says.

A listener's settings are those with its prefix, ``listener.name.<name>.ssl.*``, before the ones
without. Its stores are read again when these settings change and when their files do, in the
background: a disk that hangs holds up no client. Stores that cannot be used change nothing.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from ottla.common.authorization import ANONYMOUS, Principal
from ottla.common.environment import Cancellable, Scheduler
from ottla.common.errors import InvalidConfig
from ottla.common.promise import Promise
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import listener_settings
from ottla.network.sockets import DiallingNetwork, StreamSocket
from ottla.network.tls import TlsNetwork, TlsSocket
from ottla.observability.logging import logger
from ottla.security.distinguished_name import subject_name
from ottla.security.principal_rules import parse_rules
from ottla.security.tls_contexts import Contexts, ListenerContexts, read_file
from ottla.security.tls_stores import ReadFile

log = logger(__name__)

TLS_PROTOCOLS: Final = ("SSL", "SASL_SSL")
LOOK_SECONDS: Final = 10.0
"""How often it is looked whether the files of stores have changed."""
_LANE: Final = "tls stores"
_LOCATIONS: Final = ("ssl.keystore.location", "ssl.truststore.location")
Stamps = dict[str, tuple[int, int]]


class NoPrincipal(OSError):
    """A certificate that no rule makes a principal of; costs its peer the connection."""


class SecuredNetworks:
    """See the module. ``config`` is what the node was started with."""

    def __init__(
        self,
        network: DiallingNetwork,
        scheduler: Scheduler,
        config: BrokerConfig,
        read: ReadFile = read_file,
    ) -> None:
        self._network = network
        self._scheduler = scheduler
        self._config = config
        self._contexts: dict[str, ListenerContexts] = {}
        self._networks: dict[str, TlsNetwork] = {}
        self._asked: dict[str, dict[str, str]] = {}
        """With which settings the stores of each listener were read last."""
        self._stamps: Stamps = {}
        self._timer: Cancellable | None = None
        names = {listener.name for listener in config.listeners}
        names |= {config.inter_broker_listener_name, *self._controllers()}
        for name in sorted(names):
            if self._has_tls(name):
                settings = self._asked[name] = self._settings(config, name)
                contexts = self._contexts[name] = ListenerContexts(settings, read)
                self._networks[name] = TlsNetwork(network, scheduler, contexts)
        for listener in config.listeners:
            if listener.name in self._contexts and not self._contexts[listener.name].has_keys:
                raise InvalidConfig(
                    f"{listener} ({listener.security_protocol}) has no keystore: set "
                    "ssl.keystore.location, or ssl.keystore.key and ssl.keystore.certificate.chain"
                )
        self._inter_broker = config.inter_broker_listener_name if config.is_broker else None
        if self._inter_broker in self._contexts:
            self._contexts[self._inter_broker].check_itself()
        if self._contexts:
            self._stamps = _stamps(self._paths())
            self._look_later()

    def of(self, listener_name: str) -> DiallingNetwork:
        return self._networks.get(listener_name, self._network)

    def of_controllers(self) -> DiallingNetwork:
        """On which controllers are dialled."""
        return self.of(next(iter(self._controllers()), ""))

    def identify(self, listener_name: str) -> Callable[[StreamSocket], Principal] | None:
        """What tells whose connection it is, where a certificate says so."""
        if self._config.protocols.get(listener_name) != "SSL":
            return None
        rules = parse_rules(
            self._settings(self._config, listener_name).get(
                "ssl.principal.mapping.rules", "DEFAULT"
            )
        )

        def identify(sock: StreamSocket) -> Principal:
            certificate = sock.peer_certificate() if isinstance(sock, TlsSocket) else None
            if certificate is None:
                return ANONYMOUS
            name = rules(subject_name(certificate))
            if name is None:
                raise NoPrincipal("no rule of ssl.principal.mapping.rules fits the certificate")
            return Principal("User", name)

        return identify

    def _controllers(self) -> list[str]:
        return [name.upper() for name in self._config.controller_listener_names]

    def _has_tls(self, name: str) -> bool:
        return self._config.protocols.get(name) in TLS_PROTOCOLS

    def _settings(self, config: BrokerConfig, name: str) -> dict[str, str]:
        settings = listener_settings(config.originals, name, "ssl.")
        if self._config.protocols[name] == "SASL_SSL":
            # Clients log in there, and need no certificate unless it is asked of this listener.
            own = f"listener.name.{name.lower()}.ssl.client.auth"
            settings["ssl.client.auth"] = config.originals.get(own, "none")
        return settings

    # Other stores

    def reconfigured(self, config: BrokerConfig) -> None:
        """The settings have changed, perhaps those of stores."""
        self._config = config
        found = {name: self._settings(config, name) for name in self._contexts}
        self._replace({name: each for name, each in found.items() if each != self._asked[name]})

    def _replace(self, settings: dict[str, dict[str, str]]) -> None:
        """Read the stores of listeners, and use them."""
        self._asked.update(settings)
        for name, each in settings.items():
            making = self._scheduler.run_in_background(partial(self._made_of, name, each), _LANE)
            making.when_done(partial(self._made, name, each))

    def _made_of(self, name: str, settings: dict[str, str]) -> Contexts:
        made = self._contexts[name].made_of(settings)
        if name == self._inter_broker:
            made.check_itself()
        return made

    def _made(self, name: str, settings: dict[str, str], making: Promise[Contexts]) -> None:
        if self._asked[name] is not settings:
            return  # they have changed once more
        try:
            made = making.result()
        except (InvalidConfig, OSError) as error:
            log.error("the stores of a listener stay as they were", listener=name, reason=error)
        else:
            self._contexts[name].use(made)

    def _look_later(self) -> None:
        self._timer = self._scheduler.call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        paths = self._paths()
        looking = self._scheduler.run_in_background(lambda: _stamps(paths), _LANE)
        looking.when_done(self._looked)

    def _paths(self) -> set[str]:
        return {
            path
            for name in self._contexts
            for key, path in self._settings(self._config, name).items()
            if key in _LOCATIONS
        }

    def _looked(self, looking: Promise[Stamps]) -> None:
        try:
            found = looking.result()
        except OSError:
            found = self._stamps
        if found != self._stamps:
            log.info("stores have changed, and are read again", files=sorted(found))
            self._replace({name: self._settings(self._config, name) for name in self._contexts})
        self._stamps = found
        if self._timer is not None:
            self._look_later()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _stamps(paths: set[str]) -> Stamps:
    """When each file was last written, and how large it is; one that is not there stays away."""
    found = {}
    for path in paths:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        found[path] = (status.st_mtime_ns, status.st_size)
    return found
