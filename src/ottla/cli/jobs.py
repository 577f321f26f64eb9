"""``ottla jobs``: work on the log itself, on Spark; needs ``pip install 'ottla[spark]'``.

Spark is the engine for what outgrows one machine: ``--master`` takes any of its addresses, and
``none`` runs the same work in this process.
"""

from typing import TYPE_CHECKING

import click

from ottla.cli.backfill import backfill
from ottla.cli.compact_tier import compact_tier
from ottla.cli.completing import complete_topics
from ottla.cli.export import export
from ottla.cli.job_runs import (
    Jobs,
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
from ottla.cli.repartition import repartition
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.spark.jobs.verify_tier import Verdict


@click.group(cls=Jobs)
def jobs() -> None:
    """Verify the remote tier, fill, copy and export topics: jobs that run on Spark."""


jobs.add_command(backfill)
jobs.add_command(compact_tier)
jobs.add_command(export)
jobs.add_command(repartition)


@jobs.command("verify-tier")
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@store_options
@job_options
@progress_options
@output_options
@connection_options
def verify_tier(
    *,
    topics: tuple[str, ...],
    remote_store: str,
    store_settings: tuple[str, ...],
    master: str,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Verify every remote segment: checksums, offsets, leader epochs, indexes, and gaps."""
    need_spark()
    need_cluster(client)
    from ottla.spark.jobs.verify_tier import Verdict, find_segments, verify_segment
    from ottla.spark.source.broker_reads import connected

    named = named_settings(store_settings)
    reads = connected(kafka_settings(client))
    tier = find_segments(reads, remote_store, named, topics)
    total = sum(place.segment.size_in_bytes for place in tier.places)
    if dry_run:
        output.talk(f"{len(tier.places)} segments of {total} bytes would be verified")
        return
    found: list[Verdict] = list(tier.missing)
    with (
        Progress("verifying", total, quiet=quiet) as progress,
        Workers(master, "ottla verify-tier") as workers,
    ):
        for verdict in workers.run(tier.places, verify_segment):
            found.append(verdict)
            progress.update(verdict.bytes)
    _report(output, found)


def _report(output: Output, found: list["Verdict"]) -> None:
    wide = {"segment_id", "batches"}
    names = ["topic", "partition", "start_offset", "end_offset", "segment_id", "bytes"]
    names += ["batches", "records", "problem"]
    rows = [verdict._asdict() for verdict in sorted(found, key=lambda each: each[:3])]
    if output.is_document or rows:
        output.rows("segments", [Column(name, name in wide) for name in names], rows)
    else:
        output.talk("there are no remote segments")
    for verdict in found:
        if verdict.problem is not None:
            name = f"{verdict.topic}-{verdict.partition}"
            output.error("CORRUPT_MESSAGE", f"{name}: {verdict.problem}", partition=name)
    finish(output)
