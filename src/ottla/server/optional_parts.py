"""Parts that a node has only where it is configured to; each is loaded when it is made.

This is the one place for it. A broker without TLS, logins, ACLs and status pages starts without
their code, and the memory of an idle one is its own (``tests/server/test_plain_broker.py``).
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from ottla.common.environment import Scheduler
from ottla.config.authorizer import AuthorizerSettings
from ottla.config.broker import BrokerConfig
from ottla.network.sockets import DiallingNetwork
from ottla.observability.metrics import Registry
from ottla.server.condition import Condition
from ottla.server.unsecured import NoLogins, PlainNetworks

if TYPE_CHECKING:
    from ottla.common.chance import Chance
    from ottla.metadata.image import ImageSource
    from ottla.metadata.standard_authorizer import StandardAuthorizer
    from ottla.network.http_server import HttpServer
    from ottla.server.logins import Logins
    from ottla.server.secured_networks import SecuredNetworks

Networks: TypeAlias = "SecuredNetworks | PlainNetworks"
LoginsOfNode: TypeAlias = "Logins | NoLogins"

_TLS: Final = frozenset({"SSL", "SASL_SSL"})
_SASL: Final = frozenset({"SASL_PLAINTEXT", "SASL_SSL"})


def make_networks(network: DiallingNetwork, scheduler: Scheduler, config: BrokerConfig) -> Networks:
    """InvalidConfig when stores cannot be used."""
    if _protocols(config).isdisjoint(_TLS):
        return PlainNetworks(network)
    from ottla.server.secured_networks import SecuredNetworks

    return SecuredNetworks(network, scheduler, config)


def make_logins(
    config: BrokerConfig, metadata: "ImageSource", scheduler: Scheduler, chance: "Chance"
) -> LoginsOfNode:
    """InvalidConfig when the settings of a listener cannot be kept."""
    if _protocols(config).isdisjoint(_SASL):
        return NoLogins()
    from ottla.server.logins import Logins

    return Logins(config, metadata, scheduler, chance)


def make_authorizer(
    settings: AuthorizerSettings, scheduler: Scheduler, metrics: Registry
) -> "StandardAuthorizer":
    from ottla.metadata.audit import Audit
    from ottla.metadata.standard_authorizer import StandardAuthorizer

    authorizer = StandardAuthorizer(settings, Audit(scheduler.call_later))
    authorizer.register(metrics)
    return authorizer


def make_status_server(
    network: DiallingNetwork,
    scheduler: Scheduler,
    config: BrokerConfig,
    metrics: Registry,
    health: Callable[[], Condition],
    readiness: Callable[[], Condition],
) -> "HttpServer":
    """It listens nowhere yet."""
    from ottla.network.http_server import HttpServer
    from ottla.server.status_pages import StatusPages

    pages = StatusPages(
        metrics,
        node_id=config.node_id,
        series_max=config.ottla_metrics_series_max,
        now=scheduler.monotonic,
        health=health,
        readiness=readiness,
    )
    return HttpServer(network, scheduler, pages.answer)


def _protocols(config: BrokerConfig) -> set[str]:
    """Of the listeners that this node serves, and of those that it dials at other nodes."""
    names: Iterable[str] = (
        config.inter_broker_listener_name,
        *config.controller_listener_names,
        *(listener.name for listener in config.listeners),
    )
    return {config.protocols.get(name.upper(), "PLAINTEXT") for name in names}
