"""``ottla log``: the segments of logs in both tiers, read without changing anything."""

import contextlib
import os
import posixpath
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click

from ottla.cli.log_places import Found, Where, find_logs, place_options
from ottla.cli.output import Column, Output, Row, output_options
from ottla.cli.progress import Progress

if TYPE_CHECKING:
    from ottla.inspection.log_place import Place
    from ottla.inspection.remote_tier import RemoteCopy

Logs: TypeAlias = "list[tuple[Place, list[RemoteCopy]]]"


@click.group()
def log() -> None:
    """Look into the segments of logs, on disk and in the remote store.

    Logs are named by the paths of their directories, or as TOPIC, TOPIC:PARTITION or
    TOPIC-PARTITION. Topics are looked up in the directories that --log-dir or --config name;
    without these the cluster is asked, and its files are read if they lie on this machine.
    """


@log.command()
@click.option("--deep", is_flag=True, help="Read every batch: counts, tombstones, all of an index.")
@click.option("-s", "--summary", is_flag=True, help="Only one line for each partition.")
@output_options
@place_options
def segments(
    *, names: tuple[str, ...], deep: bool, summary: bool, output: Output, where: Where
) -> None:
    """Show the segments of logs, in both tiers.

    A line for each: offsets, size, indexes, how dirty it is, and whether it is here, remote or
    both; then one for each partition. What is damaged is said, and ends with exit code 1.
    """
    from ottla.cli.log_segments import (
        DEEP_COLUMNS,
        PARTITION_COLUMNS,
        SEGMENT_COLUMNS,
        table_rows,
    )
    from ottla.inspection.log_survey import LogSurvey

    rows: list[Row] = []
    partitions: list[Row] = []
    problems: list[Row] = []
    logs, found = _look_up(names, where, output)
    for _, message, name in _out_of_reach(logs, found, where):
        output.talk(f"{name}: {message}")
    total = sum(_bytes(place, copies) for place, copies in logs) if deep else 0
    with Progress("reading", total, quiet=where.quiet) as progress:
        for place, copies in logs:
            look = LogSurvey(place, found.tier, deep=deep, progress=progress.update)
            survey = look.run(copies, local=where.local)
            rows += survey.segments
            partitions.append(survey.partition)
            problems += [problem._asdict() for problem in survey.problems]
    if output.is_document:
        shown = {} if summary else {"segments": rows}
        output.document({**shown, "partitions": partitions, "problems": problems})
    else:
        if not summary:
            columns = (*SEGMENT_COLUMNS, *(DEEP_COLUMNS if deep else ()))
            output.rows("segments", columns, table_rows(rows))
        if summary or output.form != "tsv":
            if rows and not summary:
                output.line("")
            output.rows("partitions", PARTITION_COLUMNS, partitions)
        _tell(output, problems)
    if output.failed or problems:
        raise SystemExit(1)


@log.command()
@click.option("-r", "--records", is_flag=True, help="Show records instead of batches.")
@click.option("-o", "--offset", type=click.IntRange(0), default=0, help="Begin at this offset.")
@click.option(
    "-n", "--max", "limit", type=click.IntRange(1), default=None, help="Show so many of each file."
)
@output_options
@place_options
def dump(
    *,
    names: tuple[str, ...],
    records: bool,
    offset: int,
    limit: int | None,
    output: Output,
    where: Where,
) -> None:
    """Show what segments and other files hold.

    Indexes, snapshots and checkpoints are shown by their kind; of logs the segments are shown,
    those in the remote store too.
    Records of the metadata log are shown by their fields.
    """
    from ottla.cli.log_dump import Dump, files_of
    from ottla.cli.log_files import Selection, reader_of

    files = [name for name in names if os.path.isfile(name)]  # noqa: PTH113 - as storage has them
    for file in files:
        if reader_of(file) is None:
            raise click.UsageError(f"{file}: not a file of a log")
    rest = [name for name in names if name not in files]
    logs, found = _look_up(rest, where, output) if rest or not names else ([], Found([], None))
    selection = Selection(records, offset) if limit is None else Selection(records, offset, limit)
    for code, message, name in _out_of_reach(logs, found, where):
        output.error(code, message, log=name)
    chosen = [
        *((file, posixpath.getsize(file), None) for file in files),
        *files_of(logs, found.tier, offset, local=where.local),
    ]
    with Progress("reading", sum(size for _, size, _ in chosen), quiet=where.quiet) as progress:
        dumping = Dump(output, selection, found.tier, progress)
        for name, _, copy in chosen:
            dumping.show(name, copy, several=len(chosen) > 1)
    dumping.finish()
    if output.failed:
        raise SystemExit(1)


@log.command()
@click.option("--shallow", is_flag=True, help="Do not look into the batches.")
@output_options
@place_options
def verify(*, names: tuple[str, ...], shallow: bool, output: Output, where: Where) -> None:
    """Check whether logs are sound, in both tiers.

    Checksums, offsets, epochs, records and indexes; a line for each finding, and exit code 1.
    Remote segments are brought here one by one and checked likewise; between segments, and
    between what is here and what is there, no offset may be missing.
    """
    from ottla.inspection.log_check import LogCheck

    logs, found = _look_up(names, where, output)
    for code, message, name in _out_of_reach(logs, found, where):
        output.error(code, message, log=name)
    rows: list[Row] = []
    problems: list[Row] = []
    with Progress(
        "verifying", sum(_bytes(place, copies) for place, copies in logs), quiet=where.quiet
    ) as progress:
        for place, copies in logs:
            check = LogCheck(place, found.tier, deep=not shallow, progress=progress.update)
            summary = check.run(copies, local=where.local)
            problems += [problem._asdict() for problem in summary.problems]
            counts = {**summary._asdict(), "problems": len(summary.problems)}
            rows.append({"log": place.name, **counts})
    if output.is_document:
        output.document({"logs": rows, "problems": problems})
    else:
        names_shown = ("log", "segments", "remote_segments", "batches", "records", "problems")
        output.rows("logs", [Column(name) for name in names_shown], rows)
        _tell(output, problems)
    if output.failed or problems:
        raise SystemExit(1)


def _tell(output: Output, problems: list[Row]) -> None:
    """One line for each."""
    for problem in problems:
        place = "" if problem["position"] is None else f" at {problem['position']}"
        output.talk(f"{problem['file']}{place}: {problem['problem']}")


def _look_up(names: Sequence[str], where: Where, output: Output) -> tuple[Logs, Found]:
    """The logs that were named, each with its remote segments if they are wanted.

    Where the store does not answer, the remote tier is left out, and that is said.
    """
    from ottla.inspection.remote_tier import trouble
    from ottla.tiered.store import RemoteStoreError

    found = find_logs(names, where, output)
    tier = found.tier if where.remote else None
    if tier is not None:
        click.get_current_context().call_on_close(tier.close)
    try:
        logs = [
            (place, tier.copies(partition) if tier and (partition := place.id_partition) else [])
            for place in found.places
        ]
    except RemoteStoreError as error:
        output.error("REMOTE_STORE", trouble(error))
        return [(place, []) for place in found.places], found._replace(tier=None)
    return logs, found._replace(tier=tier)


def _out_of_reach(logs: Logs, found: Found, where: Where) -> Iterator[tuple[str, str, str]]:
    """What the cluster has and this machine cannot read: a code, what it is, and of which log."""
    for place, copies in logs:
        if where.local and place.live and place.directory is None:
            yield "NOT_HERE", "its files do not lie on this machine", place.name
        finished = sum(copy.is_finished for copy in copies)
        if finished and found.tier is not None and not found.tier.is_readable:
            yield (
                "NO_REMOTE_STORE",
                f"{finished} remote segments cannot be read: name their store by --remote-store",
                place.name,
            )


def _bytes(place: "Place", copies: list["RemoteCopy"]) -> int:
    """What there is to read."""
    from ottla.inspection.read_only import FILES

    total = sum(copy.size for copy in copies if copy.is_finished)
    for each in place.segments():
        # Retention or the cleaner may just have taken it away.
        with contextlib.suppress(OSError):
            total += FILES.size(each.path(".log"))
    return total
