"""The lines that the operator's guide names are those that the code writes."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def documented() -> list[str]:
    guide = (ROOT / "docs/guide/cluster.md").read_text()
    table = guide.partition("## What the log says")[2].partition("\n## ")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    return [line for row in rows for line in re.findall(r"`([^`]+)`", row)]


def test_every_line_of_the_guide_is_written_somewhere() -> None:
    code = "".join(path.read_text() for path in sorted((ROOT / "src/ottla").rglob("*.py")))
    lines = documented()
    assert len(lines) > 20
    assert [line for line in lines if f'"{line}"' not in code] == []
