"""``ottla jobs repartition``: a topic into another partition count, and its groups after it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ottla.cli.completing import complete_topics
from ottla.cli.job_runs import Workers, job_options, need_cluster, need_spark, source_options
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import Progress, progress_options
from ottla.cli.refusals import finish
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.spark.jobs.cut_over import GroupPosition
    from ottla.spark.jobs.repartition import Copied, Repartition
    from ottla.spark.jobs.repartition_plan import Topics, Wanted
    from ottla.spark.source.broker_reads import BrokerReads

ALL = "all"


@click.command()
@click.argument("source", shell_complete=complete_topics)
@click.argument("target", shell_complete=complete_topics)
@click.option("--partitions", type=click.IntRange(1), help="Of TARGET, if it is to be created.")
@click.option("--job", "job", help="Name of the job. [default: ottla-repartition-SOURCE-TARGET]")
@click.option("--mapping", help="Topic that gets the mapping of offsets. [default: TARGET-offsets]")
@click.option(
    "--max-lag",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Caught up means: at most so many offsets behind.",
)
@click.option(
    "--groups",
    metavar="GROUP,...",
    help="Then tell where these groups go on in TARGET; all: those that have read of SOURCE.",
)
@click.option("--commit", is_flag=True, help="Commit that for the groups; they must be at rest.")
@click.option(
    "--transaction-records",
    type=click.IntRange(1),
    default=200_000,
    show_default=True,
    help="Records of one transaction, about.",
)
@click.option(
    "--option",
    "named",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark source: readFrom, remoteStore, failOnDataLoss, ...; "
    "may be repeated.",
)
@click.option(
    "--sink-option",
    "sink_named",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the Spark sink: kafka.compression.type, kafka.batch.size, ...; "
    "may be repeated.",
)
@job_options
@progress_options
@output_options
@connection_options
def repartition(
    *,
    source: str,
    target: str,
    partitions: int | None,
    job: str | None,
    mapping: str | None,
    max_lag: int,
    groups: str | None,
    commit: bool,
    transaction_records: int,
    named: tuple[str, ...],
    sink_named: tuple[str, ...],
    master: str,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Copy SOURCE into TARGET, which has another number of partitions; a key's order is kept.

    It goes on where an earlier run was ended, and until it has caught up with SOURCE.
    """
    need_spark()
    need_cluster(client)
    from ottla.cli.files import parse_assignments
    from ottla.spark.jobs.repartition_plan import MAPPING_SUFFIX, Wanted, find_topics
    from ottla.spark.source.broker_reads import connected

    if source == target:
        raise click.UsageError("SOURCE and TARGET must differ")
    if commit and groups is None:
        raise click.UsageError("--commit needs --groups")
    options = source_options(source, named, client, **{"kafka.isolation.level": "read_committed"})
    wanted = Wanted(
        job or f"ottla-repartition-{source}-{target}",
        source,
        target,
        mapping or f"{target}{MAPPING_SUFFIX}",
        partitions,
        options,
        parse_assignments(sink_named, "--sink-option"),
        transaction_records,
    )
    reads = connected(options.kafka)
    found = find_topics(reads, wanted)
    if dry_run:
        _tell(output, reads, wanted, found)
        return
    prepared = _prepare(reads, wanted, found)
    with Workers(master, f"ottla repartition {source}") as workers:
        copied = _copy(workers, reads, prepared, max_lag=max_lag, quiet=quiet)
        moved = _positions(workers, reads, prepared, groups)
    if commit:
        _commit(output, reads, moved)
    _report(output, copied, moved if groups is not None else None)
    finish(output)


def _tell(output: Output, reads: "BrokerReads", wanted: "Wanted", found: "Topics") -> None:
    from ottla.client.offsets import EARLIEST, LATEST
    from ottla.common.topic_partition import TopicPartition
    from ottla.spark.jobs.repartition_plan import next_round, repartition

    if found.target is None:
        output.talk(f"topic {wanted.target} would be made with {wanted.partitions} partitions")
    if found.mapping is None:
        output.talk(f"topic {wanted.mapping} would be made for the mapping of offsets")
    if found.target is None or found.mapping is None:
        every = [TopicPartition(wanted.source, index) for index in found.source.partitions]
        first, _ = reads.list_offsets(dict.fromkeys(every, EARLIEST))
        last, _ = reads.list_offsets(dict.fromkeys(every, LATEST))
        lag = sum(last[each] - first[each] for each in every)
    else:
        lag = next_round(reads, repartition(wanted, found)).lag
    output.talk(f"{lag} offsets of {len(found.source.partitions)} partitions would be copied")


def _prepare(reads: "BrokerReads", wanted: "Wanted", found: "Topics") -> "Repartition":
    from ottla.spark.jobs.repartition_plan import find_topics, make_topics, repartition

    make_topics(reads, wanted, found)
    return repartition(wanted, find_topics(reads, wanted))


def _copy(
    workers: Workers, reads: "BrokerReads", job: "Repartition", *, max_lag: int, quiet: bool
) -> list["Copied"]:
    """Round by round, until a round finds next to nothing."""
    from ottla.spark.jobs.repartition import copy_partition
    from ottla.spark.jobs.repartition_plan import next_round

    done: dict[int, Copied] = {}
    with Progress("copying", 0, quiet=quiet) as progress:
        while True:
            planned = next_round(reads, job)
            if planned.lag <= max_lag:
                return [done[index] for index in sorted(done)]
            progress.label = f"copying, {planned.lag} offsets to go"
            for copied in workers.run(planned.copies, copy_partition):
                before = done.get(copied.partition)
                progress.update(copied.bytes)
                done[copied.partition] = copied._replace(
                    records=copied.records + (before.records if before else 0),
                    bytes=copied.bytes + (before.bytes if before else 0),
                )


def _positions(
    workers: Workers, reads: "BrokerReads", job: "Repartition", groups: str | None
) -> list["GroupPosition"]:
    from ottla.spark.jobs.cut_over import committed_offsets, positions

    if groups is None:
        return []
    names = None if groups == ALL else [each.strip() for each in groups.split(",") if each.strip()]
    return positions(job, committed_offsets(reads, job, names), workers.run, workers.run)


def _commit(output: Output, reads: "BrokerReads", moved: Iterable["GroupPosition"]) -> None:
    from ottla.common.errors import ApiError
    from ottla.spark.jobs.cut_over import commit

    moved = list(moved)
    for group in dict.fromkeys(each.group for each in moved):
        try:
            commit(reads, group, moved)
        except ApiError as error:
            output.error(error.code.name, f"{group}: {error}", group=group)


def _report(output: Output, copied: list["Copied"], moved: list["GroupPosition"] | None) -> None:
    partitions = [each._asdict() for each in copied]
    groups = None if moved is None else [each._asdict() for each in moved]
    if output.is_document:
        output.document({"partitions": partitions, **({"groups": groups} if groups else {})})
        return
    names = ["topic", "partition", "offset", "records", "bytes"]
    if partitions:
        output.stream([Column(name) for name in names], partitions)
    else:
        output.talk("nothing was left to copy")
    if groups:
        output.stream(
            [Column(name) for name in ("group", "topic", "partition", "offset", "again")], groups
        )
