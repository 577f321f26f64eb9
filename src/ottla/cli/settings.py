"""How a command reaches a cluster, and which of the places that say so wins.

A flag goes before ``-X``, that before ``OTTLA_`` variables, those before ``KAFKA_`` variables,
those before a profile, that before the rest of the file, and that before the defaults. Names are
those of Kafka's clients.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import click

from ottla.cli.files import parse_assignments, process_environment, read_properties

F = TypeVar("F", bound=Callable[..., Any])

PREFIX: Final = "OTTLA_"
_KAFKA: Final = "KAFKA_"
DEFAULTS: Final = {"bootstrap.servers": "localhost:9092", "client.id": "ottla"}
DEFAULT_FILE: Final = "~/.config/ottla/config.properties"
_SECONDS: Final = 10.0


class ClientSettings(NamedTuple):
    """How to reach the cluster."""

    properties: Mapping[str, str]
    timeout: float
    controllers: str | None = None
    """Addresses of controllers, which go before those of brokers."""

    @property
    def bootstrap_servers(self) -> str:
        return self.controllers or self.properties["bootstrap.servers"]

    @property
    def client_id(self) -> str:
        return self.properties["client.id"]


def resolve_settings(
    *,
    flags: Mapping[str, str | None],
    extras: Mapping[str, str],
    environment: Mapping[str, str],
    file: Mapping[str, str],
    profile: str | None,
) -> dict[str, str]:
    """One dictionary of all that was said, the strongest last."""
    variables = _of_kafka(environment) | {
        name.removeprefix(PREFIX).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(PREFIX)
    }
    common = {key: value for key, value in file.items() if not key.startswith("profile.")}
    prefix = f"profile.{profile}."
    chosen = {
        key.removeprefix(prefix): value
        for key, value in file.items()
        if profile is not None and key.startswith(prefix)
    }
    if profile is not None and not chosen:
        raise click.UsageError(_no_profile(profile, file))
    given = {key: value for key, value in flags.items() if value is not None}
    return {**DEFAULTS, **common, **chosen, **variables, **extras, **given}


def _of_kafka(environment: Mapping[str, str]) -> dict[str, str]:
    """Where the cluster is and who we are, by variables that others have set for Kafka's clients.

    Other variables of that prefix are those of a broker.
    """
    named = {
        name.removeprefix(_KAFKA).lower().replace("_", "."): value
        for name, value in environment.items()
        if name.startswith(_KAFKA)
    }
    if not named:
        return {}
    from ottla.client.security import SECURITY_SETTINGS

    known = SECURITY_SETTINGS | DEFAULTS.keys()
    return {name: value for name, value in named.items() if name in known}


def _no_profile(profile: str, file: Mapping[str, str]) -> str:
    names = {key.split(".")[1] for key in file if key.count(".") > 1 and key.startswith("profile.")}
    known = f"there are {', '.join(sorted(names))}" if names else "there are none"
    return f"no setting of the file begins with profile.{profile}.; {known}"


def _file(path: str | None) -> dict[str, str]:
    if path is not None:
        return read_properties(path)
    default = Path(DEFAULT_FILE).expanduser()
    return read_properties(str(default)) if default.exists() else {}


_DECORATORS: Final = (
    click.option(
        "-b",
        "--bootstrap-server",
        metavar="HOST:PORT,...",
        default=None,
        help="Where the cluster is. [default: localhost:9092]",
    ),
    click.option(
        "-X",
        "extras",
        multiple=True,
        metavar="KEY=VALUE",
        help="A setting of the client; may be repeated.",
    ),
    click.option(
        "--command-config",
        "config_file",
        default=None,
        envvar="OTTLA_CONFIG",
        type=click.Path(exists=True, dir_okay=False),
        help=f"A file of settings. [default: {DEFAULT_FILE}]",
    ),
    click.option(
        "--profile",
        default=None,
        envvar="OTTLA_PROFILE",
        help="Settings of the file that begin with profile.NAME.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(0.1),
        default=_SECONDS,
        show_default=True,
        help="Seconds to wait for an answer.",
    ),
)


def connection_options(command: F) -> F:
    """Give a command ``-b``, ``-X`` and friends, and the argument ``client`` made of them."""

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name, None) for name in _OPTIONS}
        return command(*args, client=client_of_options(given), **kwargs)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    for option in _DECORATORS:
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


_OPTIONS: Final = (
    "bootstrap_server",
    "bootstrap_controller",
    "extras",
    "config_file",
    "profile",
    "timeout",
)


def controller_option(command: F) -> F:
    """Give a command ``--bootstrap-controller`` beside the options above."""
    return click.option(
        "--bootstrap-controller",
        metavar="HOST:PORT,...",
        default=None,
        help="Where the controllers are, in place of the brokers.",
    )(command)


def client_of_options(options: Mapping[str, Any]) -> ClientSettings:
    """How to reach the cluster, by the values of the options as far as they are given."""
    controllers = options.get("bootstrap_controller")
    if controllers is not None and options.get("bootstrap_server") is not None:
        raise click.UsageError("--bootstrap-server and --bootstrap-controller exclude each other")
    properties = resolve_settings(
        flags={"bootstrap.servers": options.get("bootstrap_server")},
        extras=parse_assignments(options.get("extras") or (), "-X"),
        environment=process_environment(),
        file=_file(options.get("config_file")),
        profile=options.get("profile"),
    )
    return ClientSettings(properties, options.get("timeout") or _SECONDS, controllers)
