"""What commands print: the same rows as a table for people, or as JSON, YAML or TSV for programs.

Data goes to standard output and nothing else does; talk goes to standard error. JSON and YAML are
one document, errors included. Colours are used on terminals only, and never with ``NO_COLOR``.
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeVar

import click

Row = Mapping[str, object]
F = TypeVar("F", bound=Callable[..., Any])

FORMATS: Final = ("table", "wide", "json", "tsv", "yaml")
LOT: Final = 500
"""Rows of a table that are aligned, and so in memory, together."""
_META: Final = "ottla.output"
_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - Z is written behind it
_TIMES: Final = frozenset({"timestamp", "start_ms", "delete_horizon_ms"})
_DONE: Final = ("ed", "done")
"""How nouns end that say what was done, and not what there is."""


class Column(NamedTuple):
    """One column of a table; wide ones show only when asked for."""

    key: str
    wide: bool = False

    @property
    def title(self) -> str:
        return self.key.replace("_", "-").upper()

    @property
    def is_time(self) -> bool:
        """Whether its numbers are milliseconds since 1970: tables show what people read."""
        return self.key in _TIMES or self.key.endswith("_timestamp")

    def cell(self, row: Row) -> str:
        value = row.get(self.key)
        return time_text(value) if self.is_time and isinstance(value, int) else _text(value)


class Output:
    """Prints rows in one of :data:`FORMATS`, and remembers whether something failed."""

    def __init__(self, form: str = "table") -> None:
        self.form = form
        self.failed = False
        self._errors: list[dict[str, object]] = []

    @property
    def is_document(self) -> bool:
        return self.form in {"json", "yaml"}

    def line(self, text: str) -> None:
        """Print one line of data."""
        click.echo(text)

    def talk(self, text: str) -> None:
        """Tell the person something that is no data."""
        click.echo(text, err=True)

    def error(self, code: str, message: str, **subject: object) -> None:
        """One of several things failed; the others go on, the exit code will be 1."""
        self.failed = True
        self._errors.append({**subject, "error": code, "message": message})
        if not self.is_document:
            named = ", ".join(f"{value}" for value in subject.values())
            prefix = f"{named}: " if named and not message.startswith(named) else ""
            self.talk(coloured(f"{prefix}{message or code}", "red", sys.stderr.isatty()))

    def refuse(self, code: str, message: str) -> None:
        """Everything failed."""
        self.error(code, message)
        if self.is_document:
            self.document({})

    def rows(
        self, noun: str, columns: Sequence[Column], rows: Iterable[Row], *, none: str | None = None
    ) -> None:
        """Print what was asked for; ``noun`` is what a document calls the list of rows.

        That there is none is said too, to the person; ``none`` are the words for it.
        """
        rows = list(rows)
        if self.is_document:
            self.document({noun: rows})
            return
        self.stream(columns, rows)
        if not rows and not self.failed:
            done = noun.endswith(_DONE)
            self.talk(none or (f"nothing was {noun}" if done else f"there are no {noun}"))

    def stream(
        self,
        columns: Sequence[Column],
        rows: Iterable[Row],
        before: Callable[[], None] = lambda: None,
    ) -> int:
        """Print rows as they come, some hundreds at a time; ``before`` is called before each lot.

        For tables and TSV only: a document is one piece. Returns how many there were.
        """
        assert not self.is_document
        shown = [each for each in columns if self.form in {"wide", "tsv"} or not each.wide]
        widths: list[int] | None = None
        if self.form == "tsv":
            click.echo("\t".join(column.key for column in shown))
        count = 0
        for lot in _lots(rows):
            before()
            count += len(lot)
            if self.form == "tsv":
                self._tsv(shown, lot)
            else:
                widths = self._table(shown, lot, widths)
        return count

    def document(self, content: Mapping[str, object]) -> None:
        """Print one JSON or YAML document, with the errors so far."""
        whole = {**content, **({"errors": self._errors} if self._errors else {})}
        if self.form == "yaml":
            click.echo("\n".join(yaml_lines(whole)))
        else:
            click.echo(json.dumps(whole, default=str, ensure_ascii=False, indent=2))

    def _tsv(self, columns: Sequence[Column], rows: Sequence[Row]) -> None:
        for row in rows:
            click.echo(tsv_line([row.get(each.key) for each in columns]))

    def _table(
        self, columns: Sequence[Column], rows: Sequence[Row], widths: list[int] | None
    ) -> list[int]:
        """Print a lot of rows below those of the given widths, or the first with the titles."""
        cells = [[each.cell(row) for each in columns] for row in rows]
        titles = [each.title for each in columns]
        is_first = widths is None
        least = [len(title) for title in titles] if widths is None else widths
        widths = [
            max(width, *map(len, column))
            for width, column in zip(least, zip(*cells, strict=True), strict=True)
        ]
        right = [all(_is_number(row.get(each.key)) for row in rows) for each in columns]
        if is_first:
            click.echo(coloured(_aligned(titles, widths, right), "bold", sys.stdout.isatty()))
        for line in cells:
            click.echo(_aligned(line, widths, right))
        return widths


def _lots(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Where reading breaks off, what was read before comes first."""
    lot: list[Row] = []
    try:
        for row in rows:
            lot.append(row)
            if len(lot) == LOT:
                yield lot
                lot = []
    except Exception:
        if lot:
            yield lot
        raise
    if lot:
        yield lot


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    aligned = (
        cell.rjust(width) if to_right else cell.ljust(width)
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(aligned).rstrip()


def _text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "true" if value else "false"
        case list() | tuple():
            return ",".join(_text(item) for item in value)
        case dict():
            return json.dumps(value, default=str, ensure_ascii=False)
        case _:
            return str(value)


def time_text(milliseconds: int) -> str:
    """A time in UTC, as ISO 8601 has it; as it is when it is none."""
    if milliseconds < 0:
        return "-"
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return f"{time.isoformat(timespec='milliseconds')}Z"


def tsv_line(cells: Iterable[object]) -> str:
    return "\t".join(_escaped(_text(cell)) for cell in cells)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")


def coloured(text: str, style: str, on_terminal: bool) -> str:
    """Text in a colour, or bold; plain where that would not show."""
    if not on_terminal or os.environ.get("NO_COLOR"):
        return text
    return click.style(text, bold=True) if style == "bold" else click.style(text, fg=style)


def yaml_lines(value: object, indent: str = "") -> list[str]:
    """A document of dictionaries, lists and plain values in YAML."""
    match value:
        case dict() if value:
            lines = []
            for key, item in value.items():
                lines += _yaml_entry(f"{indent}{_yaml_scalar(key)}:", item, indent)
            return lines
        case list() | tuple() if value:
            lines = []
            for item in value:
                nested = yaml_lines(item, indent + "  ")
                lines += [f"{indent}- {nested[0].lstrip()}", *nested[1:]]
            return lines
        case dict():
            return [f"{indent}{{}}"]
        case list() | tuple():
            return [f"{indent}[]"]
        case _:
            return [f"{indent}{_yaml_scalar(value)}"]


def _yaml_entry(head: str, item: object, indent: str) -> list[str]:
    nested = yaml_lines(item, indent + "  ")
    if isinstance(item, dict | list | tuple) and item:
        return [head, *nested]
    return [f"{head} {nested[0].lstrip()}"]


def _yaml_scalar(value: object) -> str:
    """JSON's scalars are YAML's; words that mean nothing else need no quotes."""
    if isinstance(value, str):
        plain = value.replace("-", "a").replace("_", "a").replace(".", "a")
        words = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}
        if plain.isalnum() and plain.isascii() and plain[0].isalpha() and value[0].isalpha():
            return value if value.lower() not in words else json.dumps(value)
    return json.dumps(value, default=str, ensure_ascii=False)


def _chosen(ctx: click.Context, _: click.Parameter, value: str | None) -> Output:
    output: Output = ctx.meta.setdefault(_META, Output())
    if value is not None:
        output.form = value
    return output


def _json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta.setdefault(_META, Output()).form = "json"


def output_options(command: F) -> F:
    """Give a command ``--format`` and ``--json``, and the argument ``output``."""
    command = click.option(
        "--json",
        "as_json",
        is_flag=True,
        expose_value=False,
        callback=_json,
        is_eager=True,
        help="The same as --format json.",
    )(command)
    return click.option(
        "--format",
        "output",
        type=click.Choice(FORMATS),
        callback=_chosen,
        envvar="OTTLA_FORMAT",
        help="How to print. [default: table]",
    )(command)


def current_output(ctx: click.Context) -> Output:
    """What the running command prints with."""
    output: Output = ctx.meta.setdefault(_META, Output())
    return output


def broken_pipe() -> None:
    """The reader of our output has left: end without a word, also when Python flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
