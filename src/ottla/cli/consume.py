"""``ottla consume``: records of a topic on standard output."""

import json
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ottla.cli.completing import complete_groups, complete_topics
from ottla.cli.json_records import as_json
from ottla.cli.output import Output, output_options, tsv_line, yaml_lines
from ottla.cli.settings import ClientSettings, connection_options
from ottla.cli.values import shown

if TYPE_CHECKING:
    from ottla.client.consumer import AtTimestamp, Consumer
    from ottla.common.topic_partition import TopicPartition
    from ottla.records.record import Record

ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
_POLL_MS: Final = 500
_ESCAPES: Final = {"\\n": "\n", "\\t": "\t", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}
_TOKENS: Final = re.compile(r"%.|\\.", re.DOTALL)


class Start(NamedTuple):
    """Where to begin: an offset, ``back`` records before the end, or a time."""

    offset: int | None = None
    back: int = 0
    timestamp_ms: int | None = None


def parse_start(text: str) -> Start:
    """beginning, end, an offset, -N for the last N records, @TIME for a time."""
    from ottla.client.offsets import EARLIEST, LATEST

    match text:
        case "beginning" | "earliest":
            return Start(EARLIEST)
        case "end" | "latest":
            return Start(LATEST)
    if text.startswith("@"):
        return Start(timestamp_ms=parse_time(text[1:]))
    if re.fullmatch(r"-?\d+", text, re.ASCII) is None:
        raise click.UsageError(f"--offset takes beginning, end, N, -N or @TIME, not {text!r}")
    number = int(text)
    return Start(number) if number >= 0 and text != "-0" else Start(back=-number)


def parse_time(text: str) -> int:
    """Milliseconds since 1970, or an ISO date and time."""
    if re.fullmatch(r"\d+", text, re.ASCII):
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.UsageError(f"not a time: {text!r}") from None


@click.command()
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    help="Only this partition; may be repeated.",
)
@click.option(
    "-o",
    "--offset",
    default="end",
    show_default=True,
    help="Where to begin: beginning, end, an offset, -N for the last N of each partition, "
    "@TIME for milliseconds since 1970 or an ISO time.",
)
@click.option("--from-beginning", is_flag=True, help="The same as --offset beginning.")
@click.option(
    "-n",
    "-c",
    "--max",
    "limit",
    type=click.IntRange(1),
    default=None,
    help="End after so many records.",
)
@click.option(
    "-g",
    "--group",
    default=None,
    shell_complete=complete_groups,
    help="Read as a member of this group and commit how far; --offset holds where it has none.",
)
@click.option("-e", "--exit-at-end", is_flag=True, help="End where the partitions end now.")
@click.option(
    "--isolation-level",
    type=click.Choice(ISOLATION_LEVELS),
    default=None,
    help="[default: read_uncommitted]",
)
@click.option(
    "-K",
    "--key-delimiter",
    default=None,
    metavar="TEXT",
    help="Print the key too, and this between it and the value.",
)
@click.option(
    "-f",
    "--pattern",
    default=None,
    metavar="TEXT",
    help="How to print a record, as kcat: %s value, %k key, %t topic, %p partition, "
    "%o offset, %T timestamp, %h headers, %S and %K lengths, \\n, \\t.",
)
@output_options
@connection_options
def consume(
    *,
    topic: str,
    partitions: tuple[int, ...],
    offset: str,
    from_beginning: bool,
    limit: int | None,
    group: str | None,
    exit_at_end: bool,
    isolation_level: str | None,
    key_delimiter: str | None,
    pattern: str | None,
    output: Output,
    client: ClientSettings,
) -> None:
    """Print the records of TOPIC as they come, until Ctrl-C.

    Values are printed as they are, a line each; with --json each record is one JSON object on one
    line. With --group, several of these share the partitions, and each goes on where the group
    was; that needs a broker that serves the consumer protocol of KIP-848.
    """
    from ottla.cli.clients import open_consumer

    start = parse_start("beginning" if from_beginning else offset)
    level = isolation_level or client.properties.get("isolation.level", "read_uncommitted")
    if level not in ISOLATION_LEVELS:
        raise click.UsageError(f"isolation.level takes {' or '.join(ISOLATION_LEVELS)}")
    if group is not None and partitions:
        raise click.UsageError("--group and --partition exclude each other: a group assigns them")
    printer = Printer(output.form, key_delimiter, pattern)
    if group is not None:
        _read_as_member(client, topic, group, start, printer, limit, level, to_end=exit_at_end)
        return
    with open_consumer(client, isolation_level=level) as consumer:
        chosen = choose_partitions(consumer, topic, partitions)
        ends = consumer.end_offsets(chosen) if exit_at_end or start.back else {}
        consumer.assign(positions(consumer, chosen, start, ends))
        try:
            _read(consumer, chosen, printer, limit, ends if exit_at_end else None)
        except KeyboardInterrupt:
            return


def _read_as_member(
    client: ClientSettings,
    topic: str,
    group: str,
    start: Start,
    printer: "Printer",
    limit: int | None,
    level: str,
    *,
    to_end: bool,
) -> None:
    from ottla.cli.clients import open_consumer
    from ottla.cli.group_reading import GroupReading
    from ottla.client.offsets import LATEST

    reset = "latest" if start.offset == LATEST else "earliest"
    with open_consumer(client, isolation_level=level, reset=reset) as consumer:
        choose_partitions(consumer, topic, ())

        def starts(fresh: list["TopicPartition"]) -> dict["TopicPartition", "int | AtTimestamp"]:
            ends = consumer.end_offsets(fresh) if start.back else {}
            return positions(consumer, fresh, start, ends)

        try:
            GroupReading(consumer, group, topic, starts, to_end=to_end).run(printer.print, limit)
        except KeyboardInterrupt:
            return


def choose_partitions(
    consumer: "Consumer", topic: str, partitions: tuple[int, ...]
) -> list["TopicPartition"]:
    """All partitions of the topic, or those that were named."""
    from ottla.common.errors import UnknownTopicOrPartition

    known = consumer.partitions(topic)
    missing = set(partitions) - {each.partition for each in known}
    if missing:
        raise UnknownTopicOrPartition(f"{topic} has no partition {min(missing)}")
    return [each for each in known if not partitions or each.partition in partitions]


def positions(
    consumer: "Consumer",
    partitions: list["TopicPartition"],
    start: Start,
    ends: dict["TopicPartition", int],
) -> dict["TopicPartition", "int | AtTimestamp"]:
    from ottla.client.consumer import AtTimestamp

    if start.timestamp_ms is not None:
        return dict.fromkeys(partitions, AtTimestamp(start.timestamp_ms))
    if start.offset is not None:
        return dict.fromkeys(partitions, start.offset)
    begins = consumer.beginning_offsets(partitions)
    return {each: max(begins[each], ends[each] - start.back) for each in partitions}


def _read(
    consumer: "Consumer",
    partitions: list["TopicPartition"],
    printer: "Printer",
    limit: int | None,
    ends: dict["TopicPartition", int] | None,
) -> None:
    count = 0
    while ends is None or any(consumer.position(each) < ends[each] for each in partitions):
        for partition, records in consumer.poll(_POLL_MS).items():
            for record in records:
                if ends is not None and record.offset >= ends[partition]:
                    break
                printer.print(partition, record)
                count += 1
                if count == limit:
                    sys.stdout.flush()
                    return
        sys.stdout.flush()


class Printer:
    """Prints records: as lines of JSON, documents of YAML, by a pattern, or values as they are."""

    def __init__(self, form: str, key_delimiter: str | None, pattern: str | None) -> None:
        self._form = form
        self._delimiter = None if key_delimiter is None else key_delimiter.encode()
        self._pattern = pattern

    def print(self, partition: "TopicPartition", record: "Record") -> None:
        out = sys.stdout.buffer
        if self._form == "json":
            line = json.dumps(as_json(partition, record), ensure_ascii=False)
            out.write(line.encode() + b"\n")
        elif self._pattern is not None:
            out.write(by_pattern(self._pattern, partition, record))
        elif self._form == "yaml":
            lines = ["---", *yaml_lines(as_json(partition, record))]
            out.write("\n".join([*lines, ""]).encode())
        elif self._form in {"tsv", "wide"}:
            out.write(as_row(partition, record).encode() + b"\n")
        else:
            if self._delimiter is not None:
                out.write((record.key or b"") + self._delimiter)
            out.write((record.value or b"") + b"\n")


def as_row(partition: "TopicPartition", record: "Record") -> str:
    """The record as one line of TSV."""
    return tsv_line(
        [
            *partition,
            record.offset,
            record.timestamp,
            shown(record.key),
            shown(record.value),
            header_text(record),
        ]
    )


def header_text(record: "Record") -> str:
    return ",".join(
        f"{name if isinstance(name, str) else shown(name)}={shown(value)}"
        for name, value in record.headers
    )


def by_pattern(pattern: str, partition: "TopicPartition", record: "Record") -> bytes:
    """A record as kcat's -f prints it."""
    values = {
        "%s": record.value or b"",
        "%S": str(-1 if record.value is None else len(record.value)).encode(),
        "%k": record.key or b"",
        "%K": str(-1 if record.key is None else len(record.key)).encode(),
        "%t": partition.topic.encode(),
        "%p": str(partition.partition).encode(),
        "%o": str(record.offset).encode(),
        "%T": str(record.timestamp).encode(),
        "%h": header_text(record).encode(),
        "%%": b"%",
    }
    parts: list[bytes] = []
    position = 0
    for match in _TOKENS.finditer(pattern):
        token = match[0]
        parts += [
            pattern[position : match.start()].encode(),
            values[token] if token in values else _ESCAPES.get(token, token).encode(),
        ]
        position = match.end()
    return b"".join([*parts, pattern[position:].encode()])
