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
    r"^\s*(?:[\w$]+\.)*(?P<kind>[A-Z]\w*(?:Error|Exception|Loss|Option|Mismatch|Changed|Table|Gone))"
    r": (?P<text>\S.*)$",
    re.MULTILINE,
)
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


def brief(text: str) -> str:
    """The sentence in it all: the innermost error that has a name of its own."""
    named = [each for each in _NAMED.finditer(text) if each["kind"] not in _WRAPPERS]
    if named:
        found = f"{named[-1]['kind']}: {named[-1]['text']}"
    else:
        spark = _SPARK.search(text)
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        found = spark.group() if spark else lines[0] if lines else "no reason was given"
    return found if len(found) <= LINE else found[: LINE - 3] + "..."


def may_pass(text: str) -> bool:
    """Whether to try again."""
    kinds = {each["kind"] for each in _NAMED.finditer(text)}
    return not kinds.intersection(LASTING)


def pause_seconds(failures: int) -> float:
    """Before the next attempt, after so many in a row failed."""
    return min(FIRST_SECONDS * 2.0 ** min(max(failures, 1) - 1, 10), LONGEST_SECONDS)
