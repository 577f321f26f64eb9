"""Which address a broker has for a client: on the listener that the client dialled.

A broker advertises one address per listener. Where it advertises no host, the client gets the one
that it dialled itself: it is known to work.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.requests.context import NodeServices, RequestContext

_ANY_HOST = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - nothing is bound here
_MAPPED_IPV4 = "::ffff:"
NO_NODE = -1

Brokers: TypeAlias = Mapping[int, BrokerImage]
"""All that are registered, by their node ids."""


class Address(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


def address_of(
    broker: BrokerImage, context: RequestContext, services: NodeServices
) -> Address | None:
    """Where ``broker`` is reached; None when it does not have the client's listener."""
    endpoint = broker.listeners.get(context.listener_name)
    if endpoint is None:
        return None
    host, port = endpoint.host, endpoint.port
    if broker.node_id == services.node_id:
        if host in _ANY_HOST:
            host = dialled_host(context)
        port = port or context.local_port
    return Address(broker.node_id, host, port, broker.rack, broker.fenced)


def dialled_host(context: RequestContext) -> str:
    """The address by which the client came; an IPv4 client of an IPv6 socket sees its own form."""
    return context.local_host.removeprefix(_MAPPED_IPV4).partition("%")[0]


def addresses(
    image: MetadataImage, context: RequestContext, services: NodeServices, *, fenced: bool = False
) -> list[Address]:
    """All brokers that a client may turn to; ``fenced`` includes those that it may not."""
    found = []
    for _, broker in sorted(image.brokers.items()):
        address = address_of(broker, context, services)
        if address is not None and (fenced or not broker.fenced):
            found.append(address)
    return found


def alive(brokers: Brokers, node_id: int, listener_name: str) -> bool:
    """Whether a broker is there for clients of this listener."""
    broker = brokers.get(node_id)
    return broker is not None and not broker.fenced and listener_name in broker.listeners


def some_alive_broker(image: MetadataImage, services: NodeServices) -> int:
    """Whom clients are told for the controller: any broker, since each forwards to the real one.

    Kafka draws lots; the broker that was asked is as good as any other, and it is known to answer.
    """
    own = image.brokers.get(services.node_id)
    if own is not None and not own.fenced:
        return services.node_id
    return next((i for i, broker in sorted(image.brokers.items()) if not broker.fenced), NO_NODE)
