"""``ottla groups``: list, describe with the lag of each partition, reset offsets, delete."""

from typing import TYPE_CHECKING

import click

from ottla.cli.completing import complete_groups
from ottla.cli.consent import confirm
from ottla.cli.names import expand, has_pattern
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.groups import GroupDescription


@click.group()
def groups() -> None:
    """List, describe and delete groups, and reset their offsets."""


@groups.command("list")
@click.option("--state", "states", multiple=True, help="Only groups in this state; repeatable.")
@click.option("--type", "types", multiple=True, help="classic, consumer ...; repeatable.")
@output_options
@connection_options
def list_command(
    *, states: tuple[str, ...], types: tuple[str, ...], output: Output, client: ClientSettings
) -> None:
    """List the groups."""
    from ottla.cli.clients import open_admin

    with open_admin(client) as admin:
        found = admin.list_groups(states=states, types=types)
    rows = [
        {
            "group": each.group_id,
            "type": each.group_type,
            "state": each.state,
            "protocol": each.protocol_type,
        }
        for each in found
    ]
    columns = [Column("group"), Column("type"), Column("state"), Column("protocol", wide=True)]
    output.rows("groups", columns, rows)


@groups.command()
@click.argument("names", nargs=-1, shell_complete=complete_groups)
@click.option("-m", "--members", is_flag=True, help="The members and what they have.")
@click.option("-s", "--state", is_flag=True, help="The state of the group alone.")
@output_options
@connection_options
def describe(
    *,
    names: tuple[str, ...],
    members: bool,
    state: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Show how far groups have read, and how far behind they are; all groups when none is named.

    With --members, who is in them; with --state, how they are. A document holds all three.
    """
    from ottla.cli.clients import open_admin
    from ottla.common.errors import ApiError

    described = []
    with open_admin(client) as admin:
        for name in names or [each.group_id for each in admin.list_groups()]:
            try:
                described.append(_describe(admin, name))
            except ApiError as error:
                output.error(error.code.name, str(error), group=name)
    if output.is_document:
        output.document({"groups": described})
    elif members:
        _show(output, described, "members", _MEMBER_COLUMNS)
    elif state:
        output.rows("groups", [*map(Column, _STATE_COLUMNS)], described)
    else:
        _show(output, described, "partitions", _PARTITION_COLUMNS)
    finish(output)


_STATE_COLUMNS = ("group", "type", "state", "epoch", "assignor", "coordinator", "size", "lag")
_MEMBER_COLUMNS = [
    *map(Column, ("group", "member", "client", "host", "epoch", "assignment")),
    Column("instance", wide=True),
]
_PARTITION_COLUMNS = [
    *map(Column, ("group", "topic", "partition", "offset", "end", "lag", "member")),
    Column("client", wide=True),
    Column("host", wide=True),
]


def _show(
    output: Output, described: list[dict[str, object]], noun: str, columns: list[Column]
) -> None:
    rows = []
    for group in described:
        items = group[noun]
        assert isinstance(items, list)
        rows += [{"group": group["group"], **item} for item in items]
    output.rows(noun, columns, rows)


def _describe(admin: "Admin", group_id: str) -> dict[str, object]:
    description = admin.describe_group(group_id)
    partitions = _partitions(admin, description)
    lags = [lag for each in partitions if isinstance(lag := each["lag"], int)]
    return {
        "group": group_id,
        "type": description.group_type,
        "state": description.state,
        "epoch": description.epoch,
        "assignor": description.assignor or None,
        "coordinator": description.coordinator,
        "size": len(description.members),
        "lag": sum(lags),
        "members": [
            {
                "member": member.member_id,
                "instance": member.instance_id,
                "client": member.client_id,
                "host": member.host,
                "epoch": member.epoch,
                "assignment": [f"{each.topic}:{each.partition}" for each in member.assigned],
            }
            for member in description.members
        ],
        "partitions": partitions,
    }


def _partitions(admin: "Admin", description: "GroupDescription") -> list[dict[str, object]]:
    """Every partition that has an offset or a member, with where it ends."""
    from ottla.client.errors import SomeRefused
    from ottla.client.offsets import LATEST

    committed = admin.group_offsets(description.group_id)
    owners = {each: member for member in description.members for each in member.assigned}
    wanted = sorted({*committed, *owners})
    try:
        ends = dict(admin.list_offsets(dict.fromkeys(wanted, LATEST))) if wanted else {}
    except SomeRefused as some:
        ends = dict(some.done)
    rows: list[dict[str, object]] = []
    for partition in wanted:
        offset = committed[partition].offset if partition in committed else None
        end = ends[partition].offset if partition in ends else None
        owner = owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "offset": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member": None if owner is None else owner.member_id,
                "client": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return rows


@groups.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_groups)
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@connection_options
def delete(*, names: tuple[str, ...], yes: bool, output: Output, client: ClientSettings) -> None:
    """Delete groups that have no members, with their offsets.

    'test-*' names all groups that begin so.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.errors import SomeRefused

    with open_admin(client) as admin:
        deleted = list(names)
        if has_pattern(names):
            known = [each.group_id for each in admin.list_groups()]
            deleted = expand(names, known, "group", output)
        if deleted:
            confirm(f"Delete {', '.join(deleted)} and their offsets?", yes=yes)
        try:
            admin.delete_groups(deleted)
        except SomeRefused as some:
            deleted = list(some.done)
            for name, error in some.refused.items():
                output.error(error.code.name, str(error), group=name)
    output.rows("deleted", [Column("group")], [{"group": name} for name in deleted])
    finish(output)


@groups.command("reset-offsets")
@click.argument("group", shell_complete=complete_groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:PARTITION,...]",
    help="A topic, or some of its partitions; may be repeated.",
)
@click.option("--all-topics", is_flag=True, help="Every topic that the group has offsets in.")
@click.option("--to-earliest", is_flag=True, help="To where the partitions begin.")
@click.option("--to-latest", is_flag=True, help="To where the partitions end.")
@click.option("--to-offset", type=click.IntRange(0), default=None, help="To this offset.")
@click.option("--to-datetime", default=None, metavar="TIME", help="To the first record since then.")
@click.option("--by-duration", default=None, metavar="PnDTnHnMnS", help="Back by so much time.")
@click.option("--shift-by", type=int, default=None, help="By so many records, back if negative.")
@click.option("--execute/--dry-run", default=False, help="Do it, or only show it (the default).")
@output_options
@connection_options
def reset_offsets(
    *, group: str, execute: bool, output: Output, client: ClientSettings, **choices: object
) -> None:
    """Set the offsets of a group that has no members; only shown, unless --execute is given.

    What would lie outside of a partition goes to its beginning or end.
    """
    from ottla.cli.clients import open_admin
    from ottla.cli.group_offsets import chosen_offsets, chosen_partitions, chosen_reset
    from ottla.client.groups import EMPTY_STATES
    from ottla.common.errors import GroupIdNotFound

    reset = chosen_reset(choices)
    with open_admin(client) as admin:
        try:
            state = admin.describe_group(group).state
        except GroupIdNotFound:
            state = "Dead"
        if state not in EMPTY_STATES:
            output.refuse(
                "NON_EMPTY_GROUP",
                f"offsets can only be reset if the group {group!r} is inactive, but it is {state}",
            )
            raise SystemExit(1)
        partitions = chosen_partitions(admin, group, choices)
        before = admin.group_offsets(group)
        after = chosen_offsets(admin, partitions, before, reset)
        if execute and after:
            admin.alter_group_offsets(group, after)
    rows = [
        {
            "group": group,
            "topic": partition.topic,
            "partition": partition.partition,
            "old_offset": before[partition].offset if partition in before else None,
            "new_offset": offset,
            "dry_run": not execute,
        }
        for partition, offset in sorted(after.items())
    ]
    names = ("group", "topic", "partition", "old_offset", "new_offset")
    output.rows("offsets", [*map(Column, names)], rows)
