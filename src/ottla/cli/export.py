"""``ottla jobs export``: a topic, or a range of it, to Parquet files or into a table.

Parquet files are named by their offsets, so that a range that is done again replaces its own. Into
Delta and Iceberg tables everything is committed in one step, and each offset only once.
"""

from functools import partial
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import complete_topics
from ottla.cli.job_runs import Workers, job_options, need_cluster, need_spark, source_options
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import Progress, progress_options
from ottla.cli.refusals import finish
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.spark.jobs.export import Exported
    from ottla.spark.source.options import SourceOptions
    from ottla.spark.tables.spec import TableSpec

FORMATS: Final = ("parquet", "delta", "iceberg")


@click.command("export")
@click.argument("topic", shell_complete=complete_topics)
@click.argument("target")
@click.option(
    "--to",
    "kind",
    type=click.Choice(FORMATS),
    default="parquet",
    show_default=True,
    help="Parquet files by offsets, or a table of that format, which is made if there is none.",
)
@click.option("--codec", default="zstd", show_default=True, help="zstd, snappy, lz4, gzip or none.")
@click.option(
    "--option",
    "named",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark source: startingOffsets, endingTimestamp, readFrom, "
    "remoteStore, ...; may be repeated.",
)
@click.option(
    "--table-option",
    "table_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of a table: endpoint, region, access.key.id, secret.access.key, allow.http, and "
    "catalog.* for Iceberg; may be repeated.",
)
@job_options
@progress_options
@output_options
@connection_options
def export(
    *,
    topic: str,
    target: str,
    kind: str,
    codec: str,
    named: tuple[str, ...],
    table_options: tuple[str, ...],
    master: str,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Write a topic, or a range of it, to TARGET, a directory or an address."""
    need_spark()
    need_cluster(client)
    from ottla.cli.files import parse_assignments
    from ottla.spark.jobs.export import CODECS
    from ottla.spark.tables.errors import BadTable
    from ottla.spark.tables.spec import TableSpec

    if codec not in CODECS:
        raise click.BadParameter(f"expected {', '.join(CODECS)}", param_hint="--codec")
    options = source_options(topic, named, client)
    with Progress("exporting", 0, quiet=quiet) as progress:
        if kind == "parquet":
            if table_options:
                raise click.UsageError("--table-option is for --to delta and --to iceberg")
            done = _to_files(topic, target, codec, options, master, dry_run, output, progress)
        else:
            given = {**parse_assignments(table_options, "--table-option"), "codec": codec}
            try:
                spec = TableSpec(topic, kind, target, options=given)
                done = _to_table(spec, options, master, dry_run, output, progress)
            except BadTable as error:
                raise click.UsageError(str(error)) from None
    if dry_run:
        return
    names = ["topic", "partition", "start_offset", "end_offset", "rows", "bytes", "path"]
    rows = [each._asdict() for each in sorted(done, key=lambda each: each[:3])]
    output.rows("files", [Column(name) for name in names], rows)
    finish(output)


def _to_files(
    topic: str,
    target: str,
    codec: str,
    options: "SourceOptions",
    master: str,
    dry_run: bool,
    output: Output,
    progress: Progress,
) -> list["Exported"]:
    from ottla.spark.jobs.export import Target, export_range
    from ottla.spark.source.reader import plan_batch

    planned = plan_batch(options)
    if dry_run:
        offsets = sum(each.records for each in planned)
        output.talk(f"{offsets} offsets would be written to {len(planned)} files")
        return []
    work = partial(export_range, options=options, target=Target(target, codec))
    done = []
    with Workers(master, f"ottla export {topic}") as workers:
        for exported in workers.run(planned, work):
            done.append(exported)
            progress.update(exported.bytes)
    return done


def _to_table(
    spec: "TableSpec",
    options: "SourceOptions",
    master: str,
    dry_run: bool,
    output: Output,
    progress: Progress,
) -> list["Exported"]:
    from ottla.spark.jobs import export_table
    from ottla.spark.source.reader import plan_batch
    from ottla.spark.tables.table import open_table

    table = open_table(spec)
    planned = plan_batch(options)
    left = export_table.left_to_do(planned, table.log.newest())
    offsets = sum(each.records for each in left)
    there = sum(each.records for each in planned) - offsets
    output.talk(
        f"{offsets} offsets {'would be' if dry_run else 'are'} added to the {spec.format} table "
        f"at {spec.location}; {there} are in it already"
    )
    if dry_run or not left:
        return []
    base = table.log.prepare(table.log.columns(export_table.table_schema(options)))
    left = export_table.left_to_do(planned, base)  # another export may have committed meanwhile
    work = partial(export_table.export_range, options=options, target=table.target(base))
    done = []
    with Workers(master, f"ottla export {spec.name}") as workers:
        for exported in workers.run(left, work):
            done.append(exported)
            progress.update(exported.told().bytes)
    if not export_table.commit(table, base, done):
        output.error("CONCURRENT_EXPORT", "somebody else exported meanwhile; run it again")
        return []
    return [each.told() for each in done]
