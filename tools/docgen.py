"""Makes the pages of docs/reference that say what the source says: `python tools/docgen.py`.

With ``--check`` it writes nothing and fails when a page is not what the source makes of it.
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PROJECT / "src"))

from ottla.config.broker import BrokerConfig  # noqa: E402
from ottla.config.client_metrics import ClientMetricsConfig  # noqa: E402
from ottla.config.definition import ConfigSet, Key  # noqa: E402
from ottla.config.effective import EFFECTIVE, TOPIC_SETTINGS  # noqa: E402
from ottla.config.group import GroupConfig  # noqa: E402
from ottla.config.keys.quotas import ThrottleKeys  # noqa: E402
from ottla.config.kinds import text_of  # noqa: E402
from ottla.config.topic import SYNONYMS, TopicConfig  # noqa: E402

CONFIGS: Final = PROJECT / "docs" / "reference" / "configs.md"
_UNBOUNDED: Final = {
    "9223372036854775807": "no bound",
    "2147483647": "no bound",
    "1.7976931348623157E308": "no bound",
}


_INTRODUCTION: Final = """\
Names, types, defaults and ranges are those of Apache Kafka 4.3.1, but for settings that begin with
`ottla.`, which are our own. A setting marked *idle* is accepted and has no effect here (yet).
*Dynamic* says where a broker's setting may be changed while brokers run: for all of them, or for
one at a time."""


def configs_page() -> str:
    """All settings: what they are for, what they may be, and whether they do something here."""
    themes = [base for base in BrokerConfig.__bases__ if issubclass(base, ConfigSet)]
    parts = [
        "# Settings",
        "Made by tools/docgen.py from src/ottla/config; do not edit.",
        _INTRODUCTION,
        "## Of a topic",
        "What a topic does not set it takes from the broker's setting in the last column.",
        _topic_table(),
        "## Of a broker",
    ]
    for theme in themes:
        parts += [f"### {_title(theme)}", _broker_table(theme.keys.values())]
    parts += [f"### {_title(ThrottleKeys)}", _broker_table(ThrottleKeys.keys.values())]
    parts += ["## Of a group", _plain_table(GroupConfig.keys)]
    parts += ["## Of a metrics subscription", _plain_table(ClientMetricsConfig.keys)]
    return "\n\n".join(parts) + "\n"


def _title(theme: type) -> str:
    return (theme.__doc__ or "").strip().partition("\n")[0].rstrip(".")


def _default(key: Key[Any]) -> str:
    if key.required:
        return "*required*"
    text = text_of(key.default_value)
    if text is None:
        return "none"
    return _UNBOUNDED.get(text) or (f"`{text}`" if text else "*empty*")


def _cells(key: Key[Any], *, idle: bool) -> list[str]:
    valid = key.valid.text if key.valid is not None else ""
    doc = f"{key.doc} *(idle)*" if idle else key.doc
    return [f"`{key.name}`", doc, key.kind.name.lower(), _default(key), valid]


def _table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_escaped, line))} |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


def _broker_table(keys: Iterable[Key[Any]]) -> str:
    return _table(
        ["name", "meaning", "type", "default", "allowed", "dynamic"],
        (
            [*_cells(key, idle=key.name not in EFFECTIVE), key.scope.value.replace("read-only", "")]
            for key in sorted(keys, key=lambda key: key.name)
            if not key.internal
        ),
    )


def _topic_table() -> str:
    return _table(
        ["name", "meaning", "type", "default", "allowed", "broker"],
        (
            [
                *_cells(key, idle=key.name not in TOPIC_SETTINGS),
                ", ".join(f"`{name}`" for name in SYNONYMS.get(key.name, ())),
            ]
            for key in TopicConfig.keys.values()
            if not key.internal
        ),
    )


def _plain_table(keys: Mapping[str, Key[Any]]) -> str:
    return _table(
        ["name", "meaning", "type", "default", "allowed"],
        (_cells(key, idle=False) for key in keys.values()),
    )


def main() -> int:
    page = configs_page()
    if "--check" in sys.argv[1:]:
        current = CONFIGS.exists() and CONFIGS.read_text(encoding="utf-8") == page
        if not current:
            print(f"{CONFIGS.relative_to(PROJECT)} is not current: run tools/docgen.py")
        return 0 if current else 1
    CONFIGS.parent.mkdir(parents=True, exist_ok=True)
    CONFIGS.write_text(page, encoding="utf-8")
    print(f"wrote {CONFIGS.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
