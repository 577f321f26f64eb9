"""``ottla jobs compact-tier``: the newest record of each key of remote history."""

from typing import TYPE_CHECKING

import click

from ottla.cli.completing import complete_topics
from ottla.cli.job_runs import (
    Workers,
    job_options,
    kafka_settings,
    named_settings,
    need_cluster,
    need_spark,
    store_options,
)
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import Progress, progress_options
from ottla.cli.refusals import finish
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.spark.jobs.compact_tier import Compacted
    from ottla.spark.jobs.tier_plan import TierRun

_COLUMNS = ("topic", "partition", "start_offset", "end_offset", "segments", "bytes", "records")


@click.command("compact-tier")
@click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)
@store_options
@click.option(
    "--accept-compacted-history",
    is_flag=True,
    help="Say that older records of a key may go, though the topics have cleanup.policy=delete.",
)
@click.option(
    "--keys",
    type=click.IntRange(1),
    default=20_000_000,
    show_default=True,
    help="Different keys of a partition at most: 24 bytes of memory each.",
)
@job_options
@progress_options
@output_options
@connection_options
def compact_tier(
    *,
    topics: tuple[str, ...],
    remote_store: str,
    store_settings: tuple[str, ...],
    accept_compacted_history: bool,
    keys: int,
    master: str,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Keep only the newest record of each key in the remote segments of TOPICS.

    What is still on the brokers' disks is left alone. Rewritten segments take the place of the old
    ones while the topics are in use.
    """
    need_spark()
    need_cluster(client)
    from ottla.spark.jobs.compact_tier import Compaction, compact_partition
    from ottla.spark.jobs.tier_plan import find_runs
    from ottla.spark.source.broker_reads import connected

    reads = connected(kafka_settings(client))
    runs = find_runs(reads, remote_store, named_settings(store_settings), topics)
    if dry_run:
        _tell(output, runs)
        return
    if not accept_compacted_history:
        raise click.UsageError(
            f"{', '.join(topics)}: brokers allow remote storage only with cleanup.policy=delete, "
            "which promises readers all records until they expire. Compaction takes older "
            "records of a key out of that history for good: if the owner of the topic agrees, "
            "say --accept-compacted-history"
        )
    work = [Compaction(run, reads.settings, keys) for run in runs]
    done: list[Compacted] = []
    with (
        Progress("compacting", sum(run.size for run in runs), quiet=quiet) as progress,
        Workers(master, "ottla compact-tier") as workers,
    ):
        for compacted in workers.run(work, compact_partition):
            done.append(compacted)
            progress.update(compacted.bytes)
    names = [*_COLUMNS, "new_segments", "new_bytes", "new_records"]
    rows = [each._asdict() for each in sorted(done)]
    if output.is_document or rows:
        output.rows("partitions", [Column(name) for name in names], rows)
    else:
        output.talk("there is nothing to compact")
    finish(output)


def _tell(output: Output, runs: list["TierRun"]) -> None:
    segments = sum(len(run.segments) for run in runs)
    size = sum(run.size for run in runs)
    output.talk(f"{segments} segments of {len(runs)} partitions, {size} bytes, would be compacted")
