"""``ottla quotas``: how much users, clients and addresses may have."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.consent import confirm
from ottla.cli.files import parse_assignments
from ottla.cli.output import Column, Output, output_options
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.quotas import QuotaEntity, Quotas

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT: Final = "<default>"
KEYS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
_COLUMNS: Final = (*map(Column, ("user", "client_id", "ip", "quota", "value")),)
_OPTIONS: Final = (
    ("user", "user", "users_default", "--user-defaults", "A user", "users"),
    ("client-id", "client_id", "clients_default", "--client-defaults", "A client id", "client ids"),
    ("ip", "ip", "ips_default", "--ip-defaults", "An address", "addresses"),
)
"""Of each type: its name, the arguments for one and for all others, and their words."""


def _entity_options(command: F) -> F:
    for kind, one, others, flag, what, several in reversed(_OPTIONS):
        more = f"All {several} that have no quota of their own."
        command = click.option(flag, others, is_flag=True, help=more)(command)
        command = click.option(f"--{kind}", one, metavar="NAME", help=f"{what}.")(command)
    return command


@click.group()
def quotas() -> None:
    """List, set and remove quotas."""


@quotas.command("list")
@_entity_options
@click.option("--exact", is_flag=True, help="Only what has these parts, and no others.")
@output_options
@connection_options
def list_command(*, exact: bool, output: Output, client: ClientSettings, **given: Any) -> None:
    """List the quotas, all of them or those of what is named."""
    from ottla.cli.clients import open_admin
    from ottla.client.quotas import list_quotas

    with open_admin(client) as admin:
        found = list_quotas(admin.cluster, _entity(given), strict=exact)
    output.rows("quotas", _COLUMNS, _rows(found))


@quotas.command("set")
@click.argument("assignments", nargs=-1, required=True, metavar="QUOTA=NUMBER...")
@_entity_options
@click.option(
    "--dry-run", is_flag=True, help="Ask the cluster whether it would, and change nothing."
)
@output_options
@connection_options
def set_command(
    *,
    assignments: tuple[str, ...],
    dry_run: bool,
    output: Output,
    client: ClientSettings,
    **given: Any,
) -> None:
    """Set quotas of a user, a client id, a client id of a user, or an address.

    Bytes a second are producer_byte_rate and consumer_byte_rate. For an address there is
    connection_creation_rate.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.quotas import Quotas, alter_quotas

    entity = _needed(given)
    texts = parse_assignments(assignments, "QUOTA")
    values = {name: _number(name, text) for name, text in texts.items()}
    with open_admin(client) as admin:
        alter_quotas(admin.cluster, entity, values, validate_only=dry_run)
    rows = [{**row, "dry_run": dry_run} for row in _rows([Quotas(entity, values)])]
    output.rows("changed", _COLUMNS, rows)


@quotas.command()
@click.argument("names", nargs=-1, metavar="QUOTA...", type=click.Choice(KEYS))
@_entity_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@output_options
@connection_options
def remove(
    *,
    names: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
    **given: Any,
) -> None:
    """Remove quotas of exactly what is named; all of them when none is."""
    from ottla.cli.clients import open_admin
    from ottla.client.quotas import Quotas, alter_quotas, list_quotas

    entity = _needed(given)
    with open_admin(client) as admin:
        there: Mapping[str, float] = {}
        for each in list_quotas(admin.cluster, entity, strict=True):
            there = each.values
        gone = {name: value for name, value in there.items() if not names or name in names}
        if gone:
            confirm(f"Remove {', '.join(gone)} of {_told(entity)}?", yes=yes or dry_run)
            changes = dict.fromkeys(gone, None)
            alter_quotas(admin.cluster, entity, changes, validate_only=dry_run)
    rows = [{**row, "dry_run": dry_run} for row in _rows([Quotas(entity, gone)])]
    output.rows("removed", _COLUMNS, rows)


def _entity(given: dict[str, Any]) -> "QuotaEntity":
    parts: list[tuple[str, str | None]] = []
    for kind, one, others, flag, _, _ in _OPTIONS:
        if given[one] is not None and given[others]:
            raise click.UsageError(f"--{kind} and {flag} exclude each other")
        if given[one] is not None or given[others]:
            parts.append((kind, given[one]))
    return tuple(parts)


def _needed(given: dict[str, Any]) -> "QuotaEntity":
    entity = _entity(given)
    if not entity:
        raise click.UsageError("say whose: --user, --client-id, --ip, or the defaults of one")
    return entity


def _told(entity: "QuotaEntity") -> str:
    return ", ".join(f"{kind} {DEFAULT if name is None else name}" for kind, name in entity)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"{name} takes a number, not {text!r}") from None


def _rows(found: "list[Quotas]") -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for each in found:
        whose = {
            kind.replace("-", "_"): DEFAULT if name is None else name for kind, name in each.entity
        }
        blank = dict.fromkeys(("user", "client_id", "ip"), None)
        rows += [
            {**blank, **whose, "quota": name, "value": value}
            for name, value in sorted(each.values.items())
        ]
    return rows
