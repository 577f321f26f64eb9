"""SQL files of a pipeline: which datasets and flows they define, and which streams a query reads.

The statements of Spark Declarative Pipelines, as far as their heads go; queries are Spark's affair:

    CREATE STREAMING TABLE name [clauses] [AS query]
    CREATE MATERIALIZED VIEW name [clauses] AS query
    CREATE TEMPORARY VIEW name AS query
    CREATE FLOW name AS INSERT INTO target BY NAME query

Clauses are ``USING format``, ``PARTITIONED BY (columns)``, ``COMMENT 'text'``, ``TBLPROPERTIES
('name' = 'value')`` and a list of columns with their types.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from ottla.spark.pipelines.model import Dataset, Flow, Kind, PipelineError, Place

_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<quoted>`(?:[^`]|``)*`)
    |(?P<word>[A-Za-z_0-9]+)
    |(?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {
    ("STREAMING", "TABLE"): Kind.TABLE,
    ("MATERIALIZED", "VIEW"): Kind.VIEW,
    ("TEMPORARY", "VIEW"): Kind.TEMPORARY,
    ("TEMP", "VIEW"): Kind.TEMPORARY,
}


class Token(NamedTuple):
    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        return self.text.upper() if self.kind == "word" else self.text

    @property
    def name(self) -> str | None:
        """What it names, if it can name something."""
        if self.kind == "quoted":
            return self.text[1:-1].replace("``", "`")
        return self.text if self.kind == "word" else None


def tokens(text: str) -> list[Token]:
    """Without spaces and comments."""
    found = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "sign"
        if kind != "space":
            found.append(Token(kind, match.group(), match.start()))
    return found


def definitions(text: str, file: str) -> Iterator[Dataset | Flow]:
    """What a file defines, in its order."""
    statement: list[Token] = []
    for token in [*tokens(text), Token("sign", ";", len(text))]:
        if token.text != ";":
            statement.append(token)
        elif statement:
            line = text.count("\n", 0, statement[0].start) + 1
            yield from _Statement(text, statement, Place(file, line)).parse()
            statement = []


class _Statement:
    """One statement, read from left to right."""

    def __init__(self, text: str, words: Sequence[Token], place: Place) -> None:
        self.text = text
        self.words = words
        self.place = place
        self.at = 0

    def parse(self) -> Iterator[Dataset | Flow]:
        if not self._takes("CREATE"):
            raise self._error("expected CREATE")
        if self._takes("OR"):
            raise self._error("OR REPLACE has no meaning here: leave it out")
        if self._takes("FLOW"):
            yield self._flow()
            return
        first, second = self._next().upper, self._next().upper
        kind = _KINDS.get((first, second))
        if kind is None:
            raise self._error(
                f"CREATE {first} {second} is not known here, but STREAMING TABLE, "
                "MATERIALIZED VIEW, TEMPORARY VIEW and FLOW"
            )
        self._takes("IF", "NOT", "EXISTS")
        name = self._name()
        dataset = self._dataset(name, kind)
        yield dataset
        if self._takes("AS"):
            yield Flow(name, name, self._query(), self.place)
        elif self.at < len(self.words):
            raise self._error(f"{self.words[self.at].text} was not expected")
        elif kind is not Kind.TABLE:
            raise self._error(f"{kind.value} {name} has no query: AS SELECT ...")

    def _flow(self) -> Flow:
        name = self._name()
        if not self._takes("AS"):
            raise self._error("expected AS after the name of the flow")
        if self._takes("AUTO", "CDC"):
            raise self._error("AUTO CDC is known in Python files only: dp.create_auto_cdc_flow")
        if not self._takes("INSERT", "INTO"):
            raise self._error("expected INSERT INTO")
        target = self._name()
        if not self._takes("BY", "NAME"):
            raise self._error(f"expected BY NAME after INSERT INTO {target}")
        return Flow(name, target, self._query(), self.place)

    def _dataset(self, name: str, kind: Kind) -> Dataset:
        schema = form = None
        partition_by: tuple[str, ...] = ()
        options: dict[str, str] = {}
        if self._sees("("):
            schema = self._parenthesis()
        while self.at < len(self.words) and not self._sees("AS"):
            if self._takes("USING"):
                form = self._name().lower()
            elif self._takes("PARTITIONED", "BY"):
                partition_by = tuple(self._columns())
            elif self._takes("COMMENT"):
                self._next()
            elif self._takes("TBLPROPERTIES"):
                options = dict(self._properties())
            else:
                raise self._error(f"{self.words[self.at].text} was not expected")
        return Dataset(name, kind, self.place, form, options, partition_by, schema)

    def _columns(self) -> list[str]:
        inner = tokens(self._parenthesis())
        if not inner or any((each.name is None) != (each.text == ",") for each in inner):
            raise self._error("PARTITIONED BY takes names of columns, nothing else")
        return [each.name for each in inner if each.name is not None]

    def _properties(self) -> list[tuple[str, str]]:
        inner = [each for each in tokens(self._parenthesis()) if each.text not in {",", "="}]
        if len(inner) % 2 or any(each.kind != "text" for each in inner):
            raise self._error("TBLPROPERTIES takes ('name' = 'value', ...)")
        texts = [each.text[1:-1] for each in inner]
        return list(zip(texts[::2], texts[1::2], strict=True))

    def _parenthesis(self) -> str:
        """What stands between this one and the one that closes it."""
        opening = token = self._next()
        depth = 1
        while depth:
            token = self._next()
            depth += (token.text == "(") - (token.text == ")")
        return self.text[opening.end : token.start]

    def _query(self) -> str:
        if self.at >= len(self.words):
            raise self._error("the query is missing")
        return self.text[self.words[self.at].start : self.words[-1].end]

    def _name(self) -> str:
        token = self._next()
        if token.name is None:
            raise self._error(f"expected a name, got {token.text}")
        if self._sees("."):
            raise self._error(f"{token.text}: names of datasets have one part")
        return token.name

    def _next(self) -> Token:
        if self.at >= len(self.words):
            raise self._error("the statement breaks off")
        self.at += 1
        return self.words[self.at - 1]

    def _sees(self, word: str) -> bool:
        return self.at < len(self.words) and self.words[self.at].upper == word

    def _takes(self, *words: str) -> bool:
        ahead = [each.upper for each in self.words[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def _error(self, text: str) -> PipelineError:
        return PipelineError(f"{self.place}: {text}")


def replace_streams(query: str, stream_of: Callable[[str], str | None]) -> str:
    """``STREAM(x)`` and ``STREAM x`` become the view that ``stream_of`` names for x."""
    found = tokens(query)
    made = []
    done = 0
    for at, token in enumerate(found):
        if token.upper != "STREAM" or token.start < done:
            continue
        rest = found[at + 1 : at + 4]
        wrapped = len(rest) == 3 and rest[0].text == "(" and rest[2].text == ")"
        named = rest[1] if wrapped else rest[0] if rest else None
        view = stream_of(named.name) if named is not None and named.name is not None else None
        if view is not None and named is not None:
            made += [query[done : token.start], view]
            done = rest[2].end if wrapped else named.end
    return "".join([*made, query[done:]])
