"""``ottla offsets``: where partitions begin and end, and deleting what lies before an offset."""

import re
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import complete_topics
from ottla.cli.consent import confirm
from ottla.cli.consume import parse_time
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.common.topic_partition import TopicPartition

TIMES: Final = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
}
_BEFORE: Final = re.compile(r"(.+):(\d+)=(\d+|end)", re.ASCII)


@click.group()
def offsets() -> None:
    """Show offsets of partitions, delete old records."""


def _partitions(
    admin: "Admin", topics: tuple[str, ...], chosen: tuple[int, ...]
) -> list["TopicPartition"]:
    from ottla.common.topic_partition import TopicPartition

    names = list(topics) or admin.list_topics()
    return [
        TopicPartition(name, index)
        for name in names
        for index in admin.cluster.topic(name).partitions
        if not chosen or index in chosen
    ]


@offsets.command("list")
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option(
    "-t",
    "--time",
    "times",
    multiple=True,
    metavar="TIME",
    help=f"{', '.join(TIMES)}, milliseconds since 1970 or an ISO time; may be repeated. "
    "[default: earliest and latest]",
)
@output_options
@connection_options
def list_command(
    *,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    times: tuple[str, ...],
    output: Output,
    client: ClientSettings,
) -> None:
    """Show offsets of partitions, of all topics when none is named."""
    from ottla.cli.clients import open_admin

    columns = list(times) or ["earliest", "latest"]
    wanted = {
        column: TIMES[column] if column in TIMES else parse_time(column) for column in columns
    }
    rows: dict[TopicPartition, dict[str, object]] = {}
    with open_admin(client) as admin:
        asked = _partitions(admin, topics, partitions)
        for column, timestamp in wanted.items():
            question = dict.fromkeys(asked, timestamp)
            listed = report_refusals(output, "partition", partial(admin.list_offsets, question))
            for partition, found in listed.items():
                row = rows.setdefault(partition, {**partition._asdict()})
                row[column] = found.offset if found.offset >= 0 else None
    if {"earliest", "latest"} <= wanted.keys():
        _add_records(rows)
        columns.append("records")
    shown = [Column("topic"), Column("partition"), *map(Column, columns)]
    output.rows("offsets", shown, [rows[partition] for partition in sorted(rows)])
    finish(output)


def _add_records(rows: dict["TopicPartition", dict[str, object]]) -> None:
    for row in rows.values():
        first, end = row.get("earliest"), row.get("latest")
        if isinstance(first, int) and isinstance(end, int):
            row["records"] = end - first


@offsets.command("delete-records")
@click.argument("before", nargs=-1, required=True, metavar="TOPIC:PARTITION=OFFSET...")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@output_options
@connection_options
def delete_records(
    *, before: tuple[str, ...], yes: bool, dry_run: bool, output: Output, client: ClientSettings
) -> None:
    """Delete the records before an offset; `end` for all that are there."""
    from ottla.cli.clients import open_admin

    wanted = parse_before(before)
    confirm(f"Delete the records before {', '.join(before)}?", yes=yes or dry_run)
    with open_admin(client) as admin:
        if dry_run:
            done = report_refusals(output, "partition", lambda: _would(admin, wanted))
        else:
            done = report_refusals(output, "partition", lambda: admin.delete_records(wanted))
    rows = [
        {**partition._asdict(), "earliest": offset, "dry_run": dry_run}
        for partition, offset in sorted(done.items())
    ]
    output.rows("deleted", [Column("topic"), Column("partition"), Column("earliest")], rows)
    finish(output)


def parse_before(items: tuple[str, ...]) -> dict["TopicPartition", int]:
    from ottla.common.topic_partition import TopicPartition

    wanted = {}
    for item in items:
        match = _BEFORE.fullmatch(item)
        if match is None:
            raise click.UsageError(f"give TOPIC:PARTITION=OFFSET or =end, not {item!r}")
        offset = -1 if match[3] == "end" else int(match[3])
        wanted[TopicPartition(match[1], int(match[2]))] = offset
    return wanted


def _would(admin: "Admin", wanted: dict["TopicPartition", int]) -> dict["TopicPartition", int]:
    """Where the partitions would begin."""
    ends = admin.list_offsets(dict.fromkeys(wanted, TIMES["latest"]))
    first = admin.list_offsets(dict.fromkeys(wanted, TIMES["earliest"]))
    return {
        partition: max(ends[partition].offset if offset < 0 else offset, first[partition].offset)
        for partition, offset in wanted.items()
    }
