"""``ottla users``: who logs in by SCRAM; passwords are read from a file or asked for."""

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.consent import confirm
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options, controller_option

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.users import NewPassword, ScramUser

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_COLUMNS: Final = (*map(Column, ("user", "mechanism", "iterations")),)
_PASSWORD: Final = click.option(
    "--password-file",
    type=click.File("r", encoding="utf-8"),
    help="Its first line is the password; - for standard input. [default: ask]",
)
_MECHANISM: Final = click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(MECHANISMS, case_sensitive=False),
    help="By which to log in; may be repeated.",
)
_ITERATIONS: Final = click.option(
    "--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True,
    help="How much work a guess is to cost.",
)  # fmt: skip


@click.group()
def users() -> None:
    """List, add and remove users that log in by SCRAM, and set their passwords."""


@users.command("list")
@click.argument("names", nargs=-1)
@output_options
@controller_option
@connection_options
def list_command(*, names: tuple[str, ...], output: Output, client: ClientSettings) -> None:
    """List the users; their passwords nobody can tell."""
    from ottla.cli.clients import open_admin
    from ottla.client.users import list_users

    with open_admin(client) as admin:
        found = list_users(admin.cluster, names or None)
    known = {each.name for each in found}
    for name in names:
        if name not in known:
            output.error("RESOURCE_NOT_FOUND", "there is no such user", user=name)
    output.rows("users", _COLUMNS, map(_row, found))
    finish(output)


@users.command()
@click.argument("name")
@_PASSWORD
@_MECHANISM
@_ITERATIONS
@output_options
@controller_option
@connection_options
def add(
    *,
    name: str,
    password_file: Any,
    mechanisms: tuple[str, ...],
    iterations: int,
    output: Output,
    client: ClientSettings,
) -> None:
    """Add a user, who must not be there yet; by SCRAM-SHA-512 unless something else is said."""
    from ottla.cli.clients import open_admin
    from ottla.client.users import list_users

    with open_admin(client) as admin:
        if list_users(admin.cluster, [name]):
            raise click.ClickException(f"there is a user {name}; its password: users set-password")
        wanted = _wanted(name, mechanisms or (MECHANISMS[1],), iterations, _read(password_file))
        _set(admin, wanted, "added", output)


@users.command("set-password")
@click.argument("name")
@_PASSWORD
@_MECHANISM
@_ITERATIONS
@output_options
@controller_option
@connection_options
def set_password(
    *,
    name: str,
    password_file: Any,
    mechanisms: tuple[str, ...],
    iterations: int,
    output: Output,
    client: ClientSettings,
) -> None:
    """Give a user another password, for all its mechanisms unless some are named.

    Who is logged in stays so until the connection ends.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.users import list_users

    with open_admin(client) as admin:
        known = list_users(admin.cluster, [name])
        if not known:
            raise click.ClickException(f"there is no user {name}; to have one: users add")
        chosen = mechanisms or tuple(each.mechanism.mechanism_name for each in known)
        wanted = _wanted(name, chosen, iterations, _read(password_file))
        _set(admin, wanted, "changed", output)


@users.command()
@click.argument("names", nargs=-1, required=True)
@_MECHANISM
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@output_options
@controller_option
@connection_options
def remove(
    *,
    names: tuple[str, ...],
    mechanisms: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Remove users, or some of their mechanisms. Their ACLs and quotas stay."""
    from ottla.cli.clients import open_admin
    from ottla.client.users import delete_users, list_users

    with open_admin(client) as admin:
        chosen = [
            each
            for each in list_users(admin.cluster, names)
            if not mechanisms or each.mechanism.mechanism_name in mechanisms
        ]
        for name in dict.fromkeys(names):
            if name not in {each.name for each in chosen}:
                output.error("RESOURCE_NOT_FOUND", "there is no such user", user=name)

        def delete() -> dict[str, None]:
            if not dry_run:
                delete_users(admin.cluster, chosen)
            return {each.name: None for each in chosen}

        done: dict[str, None] = {}
        if chosen:
            who = ", ".join(dict.fromkeys(each.name for each in chosen))
            confirm(f"Remove {who}?", yes=yes or dry_run)
            done = report_refusals(output, "user", delete)
    rows = [{**_row(each), "dry_run": dry_run} for each in chosen if each.name in done]
    output.rows("removed", _COLUMNS, rows)
    finish(output)


def _row(each: "ScramUser | NewPassword") -> dict[str, object]:
    return {
        "user": each.name,
        "mechanism": each.mechanism.mechanism_name,
        "iterations": each.iterations,
    }


def _read(password_file: Any) -> str:
    """Never from the command line: others see that."""
    if password_file is not None:
        password = password_file.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise click.UsageError("there is no terminal to ask on: --password-file says it")
    if not password:
        raise click.UsageError("the password is empty")
    return str(password)


def _wanted(
    name: str, mechanisms: tuple[str, ...], iterations: int, password: str
) -> list["NewPassword"]:
    from ottla.client.users import NewPassword
    from ottla.security.scram import MECHANISMS as KNOWN

    return [NewPassword(name, KNOWN[each.upper()], password, iterations) for each in mechanisms]


def _set(admin: "Admin", wanted: list["NewPassword"], noun: str, output: Output) -> None:
    from ottla.cli.system import system_chance
    from ottla.client.users import set_passwords

    def change() -> dict[str, None]:
        set_passwords(admin.cluster, wanted, system_chance())
        return {each.name: None for each in wanted}

    done = report_refusals(output, "user", change)
    output.rows(noun, _COLUMNS, [_row(each) for each in wanted if each.name in done])
    finish(output)
