"""Why a flow failed, in a line, and whether the same might go well another time.

What comes from Spark is long: stack traces of two languages around one sentence. What a definition,
an option or the data itself is to blame for will not pass; everything else may: brokers come back,
executors are replaced.
"""

import re
from typing import Final

LASTING: Final = (
    "AnalysisException",
    "ParseException",
    "BadOption",
    "BadTable",
    "DataLoss",
    "PipelineError",
    "SchemaMismatch",
    "TableChanged",
    "VersionGone",
    "AttributeError",
    "ImportError",
    "ModuleNotFoundError",
    "NameError",
    "SyntaxError",
    "TypeError",
)
FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 60.0
LINE: Final = 300
"""Characters of an error that are told."""

_NAMED: Final = re.compile(
    r"^\s*(?:Caused by: )?"
    r"(?:(?:[a-z_][\w$]*\.)+(?P<kind>[A-Z]\w*)|(?P<bare>[A-Z]\w*(?:Error|Exception)))"
    r": (?P<text>\S.*)$",
    re.MULTILINE,
)
"""``package.Kind: text``, or a kind of Python's own, which has no package."""
_SPARK: Final = re.compile(r"^\[(?P<kind>[A-Z_.]+)\] (?P<text>.*)$", re.MULTILINE)
_WRAPPERS: Final = (
    "SparkException",
    "PythonException",
    "StreamingQueryException",
    "Py4JException",
    "Py4JJavaError",
    "PySparkRuntimeError",
    "RuntimeException",
)


def text_of(error: BaseException) -> str:
    """With the package of its kind, by which others are told from mere words."""
    return f"{type(error).__module__}.{type(error).__qualname__}: {error}"


def brief(text: str) -> str:
    """The sentence in it all: the innermost error that has a name of its own."""
    named = [each for each in _named(text) if each[0] not in _WRAPPERS]
    if named:
        found = ": ".join(named[-1])
    else:
        spark = _SPARK.search(text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        found = spark.group() if spark else lines[0] if lines else "no reason was given"
    return found if len(found) <= LINE else found[: LINE - 3] + "..."


def may_pass(text: str) -> bool:
    """Whether to try again."""
    return not {kind for kind, _ in _named(text)}.intersection(LASTING)


def _named(text: str) -> list[tuple[str, str]]:
    """Errors that are named in a text, and what they say."""
    return [(each["kind"] or each["bare"], each["text"]) for each in _NAMED.finditer(text)]


def pause_seconds(failures: int) -> float:
    """Before the next attempt, after so many in a row failed."""
    return min(FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 10), LONGEST_SECONDS)
