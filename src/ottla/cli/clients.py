"""Clients made of what a command was told about the cluster."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.settings import ClientSettings

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.cluster import Timing
    from ottla.client.consumer import Consumer
    from ottla.client.producer import Producer
    from ottla.client.security import ClientSecurity

KNOWN: Final = frozenset(
    {
        "acks",
        "bootstrap.servers",
        "client.id",
        "compression.type",
        "config",
        "enable.idempotence",
        "fetch.max.bytes",
        "format",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.request.size",
        "profile",
    }
)
"""Settings of clients that are understood, beside those of security; and variables of options."""


def timing(client: ClientSettings) -> "Timing":
    from ottla.client.cluster import Timing

    milliseconds = int(client.timeout * 1000)
    return Timing(
        connect_timeout_ms=milliseconds,
        request_timeout_ms=milliseconds,
        call_timeout_ms=milliseconds,
    )


def open_admin(client: ClientSettings) -> "Admin":
    from ottla.client.admin import Admin

    _check(client)
    return Admin(
        client.bootstrap_servers,
        client_id=client.client_id,
        timing=timing(client),
        security=security(client),
        of_controllers=client.controllers is not None,
    )


def open_producer(
    client: ClientSettings, *, acks: str, compression: str, record_bytes_max: int
) -> "Producer":
    from ottla.client.producer import Producer

    _check(client)
    idempotent = client.properties.get("enable.idempotence")
    return Producer(
        client.bootstrap_servers,
        acks=acks,
        compression=compression,
        idempotent=None if idempotent is None else idempotent.lower() == "true",
        record_bytes_max=_number(client.properties, "max.request.size", record_bytes_max),
        delivery_timeout_ms=int(client.timeout * 1000),
        client_id=client.client_id,
        timing=timing(client),
        security=security(client),
    )


def open_consumer(
    client: ClientSettings, *, isolation_level: str, reset: str | None = None
) -> "Consumer":
    from ottla.client.consumer import Consumer

    _check(client)
    return Consumer(
        client.bootstrap_servers,
        isolation_level=isolation_level,
        reset=reset,
        fetch_bytes_max=_number(client.properties, "fetch.max.bytes", 50 << 20),
        partition_bytes_max=_number(client.properties, "max.partition.fetch.bytes", 1 << 20),
        client_id=client.client_id,
        timing=timing(client),
        security=security(client),
    )


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default))
    if not text.isascii() or not text.isdecimal():
        raise click.UsageError(f"{name} takes a number, not {text!r}")
    return int(text)


def security(client: ClientSettings) -> "ClientSecurity":
    """Who we are and how we are encrypted, as the settings say."""
    from ottla.client.security import security_of
    from ottla.common.errors import InvalidConfig

    try:
        return security_of(client.properties)
    except InvalidConfig as error:
        raise click.UsageError(error.message) from None


def _check(client: ClientSettings) -> None:
    """Say what is not understood, and refuse what would not be kept."""
    from ottla.client.cluster import parse_addresses
    from ottla.client.security import SECURITY_SETTINGS

    try:
        parse_addresses(client.bootstrap_servers)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    unknown = sorted(client.properties.keys() - KNOWN - SECURITY_SETTINGS)
    if unknown:
        click.echo(f"settings of the client that have no effect: {', '.join(unknown)}", err=True)
