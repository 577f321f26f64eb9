"""``ottla log``: the files of a log, read without a broker and without changing anything."""

import os
import posixpath

import click

from ottla.cli.output import Column, Output, Row, output_options, progress_bar


@click.group()
def log() -> None:
    """Look into the files of a log, without a broker."""


@log.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("-r", "--records", is_flag=True, help="Show records instead of batches.")
@click.option("-o", "--offset", type=click.IntRange(0), default=0, help="Begin at this offset.")
@click.option(
    "-n", "--max", "limit", type=click.IntRange(1), default=None, help="Show so many of each file."
)
@output_options
def dump(
    *, paths: tuple[str, ...], records: bool, offset: int, limit: int | None, output: Output
) -> None:
    """Show what files hold: segments, indexes, snapshots, checkpoints.

    PATHS are files, or directories of partitions, whose segments are shown. Records of the metadata
    log are shown by their fields.
    """
    from ottla.cli.log_files import Selection, reader_of
    from ottla.common.errors import ApiError
    from ottla.storage.checkpoints import CorruptCheckpoint
    from ottla.storage.producer_snapshots import CorruptSnapshot

    selection = Selection(records, offset) if limit is None else Selection(records, offset, limit)
    files = [file for path in paths for file in _files(path, output)]
    contents: dict[str, dict[str, list[Row]]] = {}
    for file in files:
        reader = reader_of(file)
        if reader is None:
            raise click.UsageError(f"{file}: not a file of a log")
        if len(files) > 1 and not output.is_document:
            output.talk(f"{file}:")
        try:
            content = reader(file, selection)
            rows = list(content.rows)
        except (ApiError, CorruptSnapshot, CorruptCheckpoint, ValueError) as error:
            output.error("CORRUPT", str(error), file=file)
            continue
        if output.is_document:
            contents[file] = {content.noun: rows}
        else:
            output.rows(content.noun, content.columns, rows)
    if output.is_document:
        output.document({"files": contents})
    if output.failed:
        raise SystemExit(1)


def _files(path: str, output: Output) -> list[str]:
    """The file itself, or the segments of a directory."""
    if not os.path.isdir(path):  # noqa: PTH112 - paths stay strings, as storage has them
        return [path]
    names = sorted(os.listdir(path))  # noqa: PTH208
    segments = [posixpath.join(path, name) for name in names if name.endswith(".log")]
    if not segments:
        output.talk(f"{path}: no segments")
    return segments


@log.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--shallow", is_flag=True, help="Do not look into the batches.")
@output_options
def verify(*, paths: tuple[str, ...], shallow: bool, output: Output) -> None:
    """Check checksums, offsets, records and indexes; exit with 1 when something is wrong.

    PATHS are directories of partitions, or log directories with many of them.
    """
    from ottla.cli.log_checks import verify_log

    logs = [directory for path in paths for directory in _logs(path)]
    if not logs:
        raise click.UsageError(f"no segments in {', '.join(paths)}")
    rows: list[Row] = []
    problems: list[Row] = []
    with progress_bar(sum(map(_size, logs)), "verifying") as bar:
        for directory in logs:
            summary = verify_log(directory, deep=not shallow, progress=bar.update)
            problems += [problem._asdict() for problem in summary.problems]
            counts = {**summary._asdict(), "problems": len(summary.problems)}
            rows.append({"log": posixpath.basename(posixpath.abspath(directory)), **counts})
    _report(output, rows, problems)
    if problems:
        raise SystemExit(1)


def _report(output: Output, rows: list[Row], problems: list[Row]) -> None:
    if output.is_document:
        output.document({"logs": rows, "problems": problems})
        return
    names = ("log", "segments", "batches", "records", "problems")
    output.rows("logs", [Column(name) for name in names], rows)
    for problem in problems:
        place = "" if problem["position"] is None else f" at {problem['position']}"
        output.talk(f"{problem['file']}{place}: {problem['problem']}")


def _logs(path: str) -> list[str]:
    """The directory itself when it holds segments, else those below it that do."""
    if _has_segments(path):
        return [path]
    below = (posixpath.join(path, name) for name in sorted(os.listdir(path)))  # noqa: PTH208
    return [each for each in below if os.path.isdir(each) and _has_segments(each)]  # noqa: PTH112


def _has_segments(path: str) -> bool:
    return any(name.endswith(".log") for name in os.listdir(path))  # noqa: PTH208


def _size(directory: str) -> int:
    names = os.listdir(directory)  # noqa: PTH208
    paths = (posixpath.join(directory, name) for name in names if name.endswith(".log"))
    return sum(map(os.path.getsize, paths))
