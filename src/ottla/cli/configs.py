"""``ottla configs``: the settings of topics, brokers, groups and metrics subscriptions."""

import re
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import KINDS, complete_resources, complete_settings
from ottla.cli.files import parse_assignments
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.descriptions import ConfigChange, ConfigEntry, ConfigResource

DEFAULTS: Final = "default"
"""As the name of a broker: the settings of all brokers."""
_OWN: Final = frozenset({1, 2, 3, 4, 6, 7, 8})


@click.group()
def configs() -> None:
    """Show and change the settings of topics, brokers and groups.

    A resource is named by its kind and its name: `topic events`, `broker 1`, `broker default` (all
    brokers), `group billing`, `client-metrics m`, `broker-logger 1`.
    """


def resource_of(kind: str, name: str) -> "ConfigResource":
    from ottla.client.descriptions import ConfigResource

    if kind == "broker" and name == DEFAULTS:
        name = ""
    return ConfigResource(KINDS[kind], name)


@configs.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_resources)
@click.option("-a", "--all", "everything", is_flag=True, help="Settings with default values too.")
@click.option(
    "-k",
    "--key",
    "keys",
    shell_complete=complete_settings,
    multiple=True,
    help="Only this setting; may be repeated.",
)
@output_options
@connection_options
def describe(
    *,
    kind: str,
    names: tuple[str, ...],
    everything: bool,
    keys: tuple[str, ...],
    output: Output,
    client: ClientSettings,
) -> None:
    """Show the settings that differ from the defaults, or all of them."""
    from ottla.cli.clients import open_admin

    resources = [resource_of(kind, name) for name in names]
    wide = output.form in {"wide", "json", "yaml"}
    with open_admin(client) as admin:
        described = report_refusals(
            output,
            kind,
            lambda: admin.describe_configs(
                resources, keys=keys or None, synonyms=wide, documentation=wide
            ),
        )
    rows = [
        _row(resource, entry)
        for resource, entries in described.items()
        for entry in sorted(entries, key=lambda entry: entry.name)
        if everything or keys or entry.source in _OWN
    ]
    columns = [Column("resource"), Column("name"), Column("value"), Column("source")]
    columns += [Column("read_only", wide=True), Column("type", wide=True)]
    columns += [Column("documentation", wide=True)]
    if len(names) == 1:
        columns = columns[1:]
    none = "all settings have their defaults; --all shows them"
    output.rows("configs", columns, rows, none=none)
    finish(output)


def _row(resource: "ConfigResource", entry: "ConfigEntry") -> dict[str, object]:
    from ottla.client.descriptions import ConfigSource
    from ottla.config.kinds import Kind

    def source(code: int) -> str:
        known = code in ConfigSource.__members__.values()
        return ConfigSource(code).name if known else str(code)

    known = entry.config_type in Kind.__members__.values()
    return {
        "resource": resource.name or DEFAULTS,
        "name": entry.name,
        "value": entry.value,
        "source": source(entry.source),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "type": Kind(entry.config_type).name.lower() if known else None,
        "documentation": entry.documentation,
        "synonyms": [
            {"name": each.name, "value": each.value, "source": source(each.source)}
            for each in entry.synonyms
        ],
    }


@configs.command()
@click.argument("kind", type=click.Choice(list(KINDS)))
@click.argument("names", nargs=-1, required=True, shell_complete=complete_resources)
@click.option(
    "-s",
    "--set",
    "assigned",
    shell_complete=complete_settings,
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a value; may be repeated.",
)
@click.option(
    "-d",
    "--delete",
    "deleted",
    shell_complete=complete_settings,
    multiple=True,
    metavar="KEY",
    help="Go back to the default; may be repeated.",
)
@click.option(
    "--append",
    "appended",
    shell_complete=complete_settings,
    multiple=True,
    metavar="KEY=ITEMS",
    help="Add to a list; may be repeated.",
)
@click.option(
    "--subtract",
    "subtracted",
    shell_complete=complete_settings,
    multiple=True,
    metavar="KEY=ITEMS",
    help="Take from a list; may be repeated.",
)
@click.option(
    "--dry-run", is_flag=True, help="Ask the broker whether it would, and change nothing."
)
@output_options
@connection_options
def alter(
    *,
    kind: str,
    names: tuple[str, ...],
    assigned: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Change settings; the others stay as they are."""
    from ottla.cli.clients import open_admin

    changes = changes_of(assigned, deleted, appended, subtracted)
    if not changes:
        raise click.UsageError("give --set, --delete, --append or --subtract")
    wanted = {resource_of(kind, name): changes for name in names}
    if kind == "broker":
        _tell_unknown([each.name for each in changes if each.value is not None], output)

    def change() -> dict["ConfigResource", list["ConfigChange"]]:
        admin.alter_configs(wanted, validate_only=dry_run)
        return wanted

    with open_admin(client) as admin:
        done = report_refusals(output, kind, change)
    rows = [
        {
            "resource": resource.name or DEFAULTS,
            "name": each.name,
            "operation": each.operation.name.lower(),
            "value": None if _is_secret(each.name) else each.value,
            "dry_run": dry_run,
        }
        for resource in done
        for each in changes
    ]
    columns = [Column("resource"), Column("name"), Column("operation"), Column("value")]
    output.rows("altered", columns, rows)
    finish(output)


def _tell_unknown(names: list[str], output: Output) -> None:
    """Brokers take settings that nobody knows, as Kafka's do: a person should hear of it."""
    from ottla.config.notices import did_you_mean, unknown_settings

    for name in unknown_settings(names):
        near = did_you_mean(name)
        question = f"; did you mean {near}?" if near else ""
        output.talk(f"unknown setting {name} has no effect{question}")


def changes_of(
    assigned: tuple[str, ...],
    deleted: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
) -> list["ConfigChange"]:
    from ottla.client.descriptions import ConfigChange, ConfigOperation

    changes = [
        ConfigChange(name, value, operation)
        for operation, option, items in (
            (ConfigOperation.SET, "--set", assigned),
            (ConfigOperation.APPEND, "--append", appended),
            (ConfigOperation.SUBTRACT, "--subtract", subtracted),
        )
        for name, value in parse_assignments(items, option).items()
    ]
    return changes + [ConfigChange(name, None, ConfigOperation.DELETE) for name in deleted]


def _is_secret(name: str) -> bool:
    """Whether a value is not to be shown again; prefixes of a listener do not matter."""
    from ottla.config.broker import BrokerConfig

    bare = re.sub(r"^listener\.name\.[^.]+\.", "", name)
    known = BrokerConfig.keys.get(bare)
    return bare.endswith("sasl.jaas.config") or (known is not None and known.sensitive)
