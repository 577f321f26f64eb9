"""Listeners: the addresses a node serves, their names and their security protocols.

A listener is written ``NAME://host:port``. An empty host means all interfaces to listen on and,
when advertised, the address that the client dialled. Port 0 lets the system choose.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig
from ottla.config.definition import Key
from ottla.config.kinds import Kind

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)


class Listener(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


class Counts(Key[dict[str, int]]):
    """How many of something for each host."""

    kind = Kind.STRING


class ListenerList(Key[tuple[Listener, ...]]):
    kind = Kind.LIST


def listener_settings(originals: Mapping[str, str], name: str, prefix: str) -> dict[str, str]:
    """The settings that begin with ``prefix``: a listener's own hide those of all listeners."""
    own = f"listener.name.{name.lower()}."
    settings = {key: value for key, value in originals.items() if key.startswith(prefix)}
    for key, value in originals.items():
        if key.startswith(own + prefix):
            settings[key.removeprefix(own)] = value
    return settings


def parse_protocol_map(text: str) -> dict[str, str]:
    """listener.security.protocol.map as a dictionary of upper-case names."""
    setting = "listener.security.protocol.map"
    return {
        name.upper(): security_protocol(protocol, setting)
        for name, protocol in parse_pairs(setting, text).items()
    }


def parse_pairs(setting: str, text: str) -> dict[str, str]:
    """A setting of the form ``name:value,name:value``; a name may hold colons itself."""
    pairs: dict[str, str] = {}
    for item in filter(None, re.split(r"\s*,\s*", text.strip())):
        name, separator, value = item.rpartition(":")
        if not separator:
            raise InvalidConfig(f"Error parsing configuration property '{setting}': {item}")
        pairs[name.strip()] = value.strip()
    return pairs


def parse_counts(setting: str, text: str) -> dict[str, int]:
    pairs = parse_pairs(setting, text)
    for count in pairs.values():
        if re.fullmatch(r"[+-]?\d+", count, re.ASCII) is None:
            raise InvalidConfig(f'For input string: "{count}"')
    return {name: int(count) for name, count in pairs.items()}


def security_protocol(name: str, setting: str) -> str:
    if name.upper() not in SECURITY_PROTOCOLS:
        raise InvalidConfig(f"Invalid security protocol `{name}` defined in {setting}")
    return name.upper()


def effective_protocols(
    protocol_map: str,
    *,
    explicit: bool,
    controller_names: tuple[str, ...],
    listeners: tuple[str, ...],
) -> dict[str, str]:
    """The security protocol of each listener name.

    Controllers' listeners are PLAINTEXT by themselves, as long as the map was not written down and
    nothing else asks for TLS or SASL.
    """
    protocols = parse_protocol_map(protocol_map)
    names = [*controller_names, *(text.partition(":")[0] for text in listeners)]
    if not explicit and not any(name.upper() in SECURITY_PROTOCOLS[1:] for name in names):
        for name in controller_names:
            protocols[name.upper()] = "PLAINTEXT"
    return protocols


def parse_listener(text: str, protocols: Mapping[str, str]) -> Listener:
    match = _LISTENER.fullmatch(text)
    if match is None:
        raise InvalidConfig(f"Unable to parse {text} to a broker endpoint")
    name = match[1].upper()
    if not name:
        raise InvalidConfig("The provided listener name is null or empty string")
    protocol = protocols.get(name)
    if protocol is None:
        raise InvalidConfig(f"No security protocol defined for listener {name}")
    return Listener(name, match[2], int(match[3]), protocol)


def parse_listeners(
    items: Iterable[str], protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> tuple[Listener, ...]:
    """The listeners of ``listeners`` or ``advertised.listeners``, checked against each other."""
    texts = list(items)
    shown = f"[{', '.join(texts)}]"
    try:
        listeners = tuple(parse_listener(text, protocols) for text in texts)
        _check_names(listeners, shown)
        if distinct_ports:
            _check_ports(listeners, shown)
    except InvalidConfig as error:
        raise InvalidConfig(f"Error creating broker listeners from '{shown}': {error}") from None
    return listeners


def parse_http_listeners(texts: Iterable[str]) -> tuple[Listener, ...]:
    """Those of ``ottla.http.listeners``: ``HTTP://host:port`` each."""
    try:
        return tuple(parse_listener(text, {"HTTP": "PLAINTEXT"}) for text in texts)
    except InvalidConfig as error:
        raise InvalidConfig(
            f"ottla.http.listeners: {error}; an address is HTTP://host:port"
        ) from None


def _check_names(listeners: tuple[Listener, ...], shown: str) -> None:
    if len({listener.name for listener in listeners}) != len(listeners):
        raise InvalidConfig(f"Each listener must have a different name, listeners: {shown}")


def _check_ports(listeners: tuple[Listener, ...], shown: str) -> None:
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port != 0:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        if len(sharing) > 1:
            _check_shared_port(port, [_ip_version(listener.host) for listener in sharing], shown)


def _check_shared_port(port: int, versions: list[int], shown: str) -> None:
    """Two listeners may share a port when one is on an IPv4 and the other on an IPv6 address."""
    addresses = sorted(filter(None, versions))
    if not addresses:
        raise InvalidConfig(f"Each listener must have a different port, listeners: {shown}")
    if len(addresses) != 2:
        raise InvalidConfig(
            "Each listener must have a different port unless exactly one listener has an IPv4 "
            f"address and the other IPv6 address, listeners: {shown}, port: {port}"
        )
    if addresses != [4, 6] or len(versions) > 2:
        raise InvalidConfig(
            "If you have two listeners on the same port then one needs to be IPv4 and the other "
            f"IPv6, listeners: {shown}, port: {port}"
        )


def _ip_version(host: str) -> int:
    """4, 6, or 0 when the host is a name."""
    import ipaddress

    try:
        return ipaddress.ip_address(host).version
    except ValueError:
        return 0
