"""``ottla jobs backfill``: a table into a topic."""

from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import complete_topics
from ottla.cli.job_runs import Workers, cluster_options, job_options, need_cluster, need_spark
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import Progress, progress_options
from ottla.cli.refusals import finish
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.cluster import Cluster
    from ottla.spark.jobs.backfill import Filled, Lane, Shape
    from ottla.spark.jobs.file_tables import FileTable, Part
    from ottla.spark.sink.options import SinkOptions

_FORMATS: Final = ("parquet", "csv", "json", "delta", "iceberg")


@click.command()
@click.argument("table")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--table-format",
    "kind",
    type=click.Choice(_FORMATS),
    default="parquet",
    show_default=True,
    help="What TABLE is; JSON with one object in each line.",
)
@click.option("--version", type=int, help="Of Delta, or the id of a snapshot of Iceberg.")
@click.option("--key", metavar="COLUMN,...", help="What becomes the key; several as one struct.")
@click.option("--value", metavar="COLUMN", help="The value. [default: value, or all columns]")
@click.option("--timestamp", metavar="COLUMN", help="The timestamp of records. [default: now]")
@click.option("--partition", metavar="COLUMN", help="The partition. [default: by the key]")
@click.option("--headers", metavar="COLUMN", help="Headers: array<struct<key, value>>.")
@click.option("--job", help="Name of the job, by which it goes on. [default: by TABLE and TOPIC]")
@click.option(
    "--sink-option",
    "sink_named",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark sink: valueFormat (json where columns make the value), "
    "schemaRegistry, kafka.compression.type, ...; may be repeated.",
)
@job_options
@progress_options
@output_options
@connection_options
def backfill(
    *,
    table: str,
    topic: str,
    kind: str,
    version: int | None,
    key: str | None,
    value: str | None,
    timestamp: str | None,
    partition: str | None,
    headers: str | None,
    job: str | None,
    sink_named: tuple[str, ...],
    master: str,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Write the rows of TABLE, a directory, a file or an address, to TOPIC, each once.

    It goes on where an earlier run was ended.
    """
    need_spark()
    need_cluster(client)
    from ottla.cli.files import parse_assignments
    from ottla.spark.jobs.backfill import Shape
    from ottla.spark.sink.writer import links

    keys = tuple(name.strip() for name in (key or "").split(",") if name.strip())
    shape = Shape(keys, value, timestamp, partition, headers)
    name = job or _job_name(kind, table, topic)
    given = parse_assignments(sink_named, "--sink-option")
    with links(_sink(topic, {}, client)) as (control, _):
        found = _find(control, name, kind, table, version)
        sink = _sink(topic, _formats(found, shape) | given, client)
        lanes = _lanes(control, name, found, shape, sink)
        left = _left(control, lanes)
    if dry_run:
        rest = sum(map(len, left.values()))
        size = sum(part.bytes for parts in left.values() for part in parts)
        output.talk(f"{rest} parts with {size} bytes would be written to {topic}")
        return
    done = _run(master, lanes, left, quiet=quiet)
    rows = [each._asdict() for each in sorted(done)]
    if output.is_document or rows:
        output.rows("parts", [Column(column) for column in ("path", "rows", "bytes")], rows)
    else:
        output.talk("all of it was there already")
    finish(output)


def _job_name(kind: str, table: str, topic: str) -> str:
    from ottla.common.checksum import crc32c

    return f"ottla-backfill-{topic}-{crc32c(f'{kind} {table}'.encode()):08x}"


def _sink(topic: str, given: "Mapping[str, str]", client: ClientSettings) -> "SinkOptions":
    from ottla.spark.errors import BadOption
    from ottla.spark.sink.options import SinkOptions

    fixed = {**cluster_options(client), "topic": topic}
    try:
        return SinkOptions.parse({**given, **fixed})
    except BadOption as error:
        raise click.UsageError(str(error)) from None


def _formats(found: "FileTable", shape: "Shape") -> dict[str, str]:
    """JSON is what a value of several columns becomes, unless something else is said."""
    formats = {}
    if shape.value is None and "value" not in found.columns.names:
        formats["valueFormat"] = "json"
    if len(shape.key) > 1:
        formats["keyFormat"] = "json"
    return formats


def _find(
    control: "Cluster", job: str, kind: str, location: str, version: int | None
) -> "FileTable":
    """The table; of the version that an earlier run has begun with, unless one is named."""
    from ottla.spark.jobs.backfill import first_note, noted
    from ottla.spark.jobs.file_tables import find_table

    if version is None:
        note = first_note(control, job)
        known = noted(note).get("version") if note else None
        version = None if known is None else int(known)
    return find_table(kind, location, version)


def _lanes(
    control: "Cluster", job: str, found: "FileTable", shape: "Shape", sink: "SinkOptions"
) -> list["Lane"]:
    import pyarrow as pa

    from ottla.common.identifiers import uuid_text
    from ottla.common.topic_partition import TopicPartition
    from ottla.spark.jobs.backfill import Backfill, deal, plan_sum
    from ottla.spark.jobs.file_tables import parts_of
    from ottla.spark.sink.spark_writer import fitted_to

    try:  # whatever is wrong with columns is told before anything is written
        sink = fitted_to(sink, shape.shaped(pa.RecordBatch.from_pylist([], schema=found.columns)))
    except (ValueError, pa.ArrowException) as error:
        raise click.UsageError(f"{found.location}: {error}") from None
    parts = parts_of(found)
    assert sink.topic is not None
    topic = control.topic(sink.topic, create=True)
    note = f"topic={uuid_text(topic.topic_id)} parts={plan_sum(parts)}"
    if found.version is not None:
        note += f" version={found.version}"
    where = TopicPartition(sink.topic, 0)
    return deal(Backfill(job, found, shape, sink, where, note), parts)


def _left(control: "Cluster", lanes: list["Lane"]) -> dict[int, tuple["Part", ...]]:
    from ottla.spark.jobs.backfill import parts_done

    return {lane.number: lane.parts[parts_done(control, lane) :] for lane in lanes}


def _run(
    master: str, lanes: list["Lane"], left: dict[int, tuple["Part", ...]], *, quiet: bool
) -> list["Filled"]:
    from ottla.spark.jobs.backfill import fill_lane

    total = sum(part.bytes for parts in left.values() for part in parts)
    work = [lane for lane in lanes if left[lane.number]]
    done: list[Filled] = []
    with (
        Progress("writing", total, quiet=quiet) as progress,
        Workers(master, "ottla backfill") as workers,
    ):
        for filled in workers.run(work, fill_lane):
            done += filled.done
            progress.update(sum(part.bytes for part in filled.done))
    return done
