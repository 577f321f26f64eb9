"""``ottla produce``: lines of standard input become records."""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ottla.cli.completing import complete_topics
from ottla.cli.input_lines import input_lines
from ottla.cli.json_records import Headers, parse_line
from ottla.cli.output import Output, output_options
from ottla.cli.progress import Progress, progress_options
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.sender import Delivered
    from ottla.common.promise import Promise

CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = ("0", "1", "all")
RECORD_BYTES_MAX: Final = 100 << 20
"""What brokers take in one request by default; how large a record may be, the topic says."""


class Line(NamedTuple):
    """A record to be written."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None
    timestamp: int | None
    size: int
    """Bytes of input that it was read from."""


class Reading(NamedTuple):
    """How lines are read."""

    key: str | None
    key_delimiter: str | None
    null: str | None
    headers: Headers
    partition: int | None
    whole: bool


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option("-k", "--key", default=None, help="The key of every record.")
@click.option(
    "-K",
    "--key-delimiter",
    default=None,
    metavar="TEXT",
    help="What stands between key and value in a line.",
)
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(0),
    default=None,
    help="The partition of every record. [default: by key, else in turn]",
)
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    help="A header of every record; may be repeated.",
)
@click.option("-Z", "--null", default=None, metavar="TEXT", help="A key or value that means null.")
@click.option(
    "--from-json",
    is_flag=True,
    help="Lines are JSON objects, as `ottla consume --json` writes them.",
)
@click.option("--whole", is_flag=True, help="All of standard input is one record, of any size.")
@click.option("--acks", type=click.Choice(ACKS), default=None, help="[default: all]")
@click.option(
    "-z", "--compression", type=click.Choice(CODECS), default=None, help="[default: none]"
)
@click.option("--dry-run", is_flag=True, help="Read everything and write nothing.")
@progress_options
@output_options
@connection_options
def produce(
    *,
    topic: str,
    key: str | None,
    key_delimiter: str | None,
    partition: int | None,
    headers: tuple[str, ...],
    null: str | None,
    from_json: bool,
    whole: bool,
    acks: str | None,
    compression: str | None,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Write each line of standard input to TOPIC as a record.

    A record may be as large as max.message.bytes of the topic allows; -X max.request.size=BYTES
    sets a lower limit, or one beyond 100 MiB.
    """
    if key is not None and key_delimiter is not None:
        raise click.UsageError("--key and --key-delimiter exclude each other")
    if from_json and (whole or key_delimiter is not None or null is not None):
        raise click.UsageError("--from-json excludes --whole, --key-delimiter and --null")
    reading = Reading(key, key_delimiter, null, parse_headers(headers), partition, whole)
    if dry_run:
        count = sum(1 for _ in read_lines(reading, from_json, lambda: None))
        output_result(output, topic, count=count, dry_run=True)
        return
    from ottla.cli.clients import open_producer

    properties = client.properties
    producer = open_producer(
        client,
        acks=acks or properties.get("acks", "all"),
        compression=compression or properties.get("compression.type", "none"),
        record_bytes_max=RECORD_BYTES_MAX,
    )
    count = 0
    last: Promise[Delivered] | None = None
    with producer, input_progress(quiet=quiet) as progress:
        for line in read_lines(reading, from_json, producer.flush):
            progress.update(line.size)
            last = producer.send(
                topic,
                line.value,
                line.key,
                partition=line.partition,
                timestamp=line.timestamp,
                headers=line.headers,
            )
            count += 1
    if last is not None:
        last.result()
    output_result(output, topic, count=count, dry_run=False)


def input_progress(*, quiet: bool) -> Progress:
    """Shown for input whose size is known, that is for files."""
    try:
        status = os.fstat(sys.stdin.fileno())
    except (OSError, ValueError):
        return Progress("producing", 0, quiet=True)
    is_file = stat.S_ISREG(status.st_mode)
    return Progress("producing", status.st_size, quiet=quiet or not is_file)


def output_result(output: Output, topic: str, *, count: int, dry_run: bool) -> None:
    if output.is_document:
        output.document({"topic": topic, "records": count, "dry_run": dry_run})
    else:
        would = "would write" if dry_run else "wrote"
        output.talk(f"{would} {count} record{'' if count == 1 else 's'} to {topic}")


def parse_headers(items: tuple[str, ...]) -> Headers:
    headers: Headers = []
    for item in items:
        name, separator, value = item.partition("=")
        if not name:
            raise click.UsageError(f"--header takes NAME=VALUE, not {item!r}")
        headers.append((name, value.encode() if separator else None))
    return headers


def read_lines(
    reading: Reading, from_json: bool, before_waiting: Callable[[], None]
) -> Iterator[Line]:
    """Standard input as records; what comes before a line that is none is written."""
    source = [sys.stdin.buffer.read()] if reading.whole else input_lines(before_waiting)
    try:
        yield from json_lines(source, reading) if from_json else plain_lines(source, reading)
    except click.UsageError:
        before_waiting()
        raise


def plain_lines(source: Iterable[bytes], reading: Reading) -> Iterator[Line]:
    """Each line is a value, with a key before the delimiter if there is one."""
    delimiter = None if reading.key_delimiter is None else reading.key_delimiter.encode()
    null = None if reading.null is None else reading.null.encode()
    fixed = None if reading.key is None else reading.key.encode()
    for raw in source:
        line = raw if reading.whole else raw.removesuffix(b"\n").removesuffix(b"\r")
        key, value = fixed, line
        if delimiter is not None and delimiter in line:
            key, _, value = line.partition(delimiter)
        yield Line(
            None if key == null and null is not None else key,
            None if value == null and null is not None else value,
            reading.headers,
            reading.partition,
            None,
            len(raw),
        )


def json_lines(source: Iterable[bytes], reading: Reading) -> Iterator[Line]:
    """Each line is an object with a value, and perhaps key, headers, timestamp and partition."""
    fixed = None if reading.key is None else reading.key.encode()
    for number, raw in enumerate(source, 1):
        try:
            record = parse_line(raw)
        except ValueError as error:
            before = " (what comes before it is written)" if number > 1 else ""
            raise click.UsageError(f"line {number}: {error}{before}") from None
        yield Line(
            record.key if record.has_key else fixed,
            record.value,
            [*reading.headers, *record.headers],
            record.partition if reading.partition is None else reading.partition,
            record.timestamp,
            len(raw),
        )
