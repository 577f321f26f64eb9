"""Addresses of other nodes: ``host:port`` and ``id@host:port``."""

import re
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.config.definition import Key
from ottla.config.kinds import Kind, Value
from ottla.config.validators import Check

_HOST_PORT: Final = re.compile(r".*?\[?([0-9a-zA-Z\-%._:]*)\]?:([0-9]+)", re.ASCII)


class HostPort(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


UNROUTABLE: Final = HostPort("0.0.0.0", 0)  # noqa: S104
"""Stands for a voter whose address is not known yet; nothing can be sent there."""


class Voter(NamedTuple):
    """A controller of a fixed quorum."""

    node_id: int
    host: str
    port: int


class VoterList(Key[tuple[Voter, ...]]):
    kind = Kind.LIST


class ServerList(Key[tuple[HostPort, ...]]):
    kind = Kind.LIST


def parse_host_port(text: str) -> HostPort | None:
    """The host and port in ``text``, where an IPv6 address stands in brackets; else None."""
    match = _HOST_PORT.fullmatch(text)
    if match is None:
        return None
    port = int(match[2])
    if port > 65535:
        raise InvalidConfig(f"port out of range:{port}")
    return HostPort(match[1], port)


def parse_servers(name: str, items: tuple[str, ...]) -> tuple[HostPort, ...]:
    """The addresses in a list such as controller.quorum.bootstrap.servers."""
    servers = []
    for item in items:
        server = parse_host_port(item)
        if server is None or not server.host:
            raise InvalidConfig(
                f"Failed to parse host name from {item} for the configuration {name}. "
                'Each entry should be in the form "{host}:{port}"'
            )
        servers.append(server)
    return tuple(servers)


def parse_voters(name: str, items: tuple[str, ...]) -> tuple[Voter, ...]:
    """The voters in a list such as controller.quorum.voters."""
    form = "Each entry should be in the form `{id}@{host}:{port}`."
    voters: dict[int, Voter] = {}
    for item in items:
        node_id, separator, address = item.partition("@")
        if not separator or "@" in address:
            raise InvalidConfig(f"Invalid configuration value for {name}. {form}")
        if re.fullmatch(r"[+-]?\d+", node_id, re.ASCII) is None:
            raise InvalidConfig(f"Failed to parse voter ID as an integer from {node_id}")
        server = parse_host_port(address)
        if server is None or not server.host:
            raise InvalidConfig(
                f"Failed to parse host name from entry {item} for the configuration {name}. {form}"
            )
        if server == UNROUTABLE:
            raise InvalidConfig(f"Host string ({server.host}) is not routeable")
        voters[int(node_id)] = Voter(int(node_id), *server)
    return tuple(voters.values())


def _accept_voters(name: str, value: Value) -> None:
    if isinstance(value, tuple):
        parse_voters(name, value)


def _accept_servers(name: str, value: Value) -> None:
    if isinstance(value, tuple):
        parse_servers(name, value)


VOTERS: Final = Check(_accept_voters, "id@host:port, ...")
BOOTSTRAP_SERVERS: Final = Check(_accept_servers, "host:port, ...")
