"""The pages on testing hold what they say: their examples are run as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ottla

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs" / "guide" / "testing.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def test_the_page_has_examples_and_readme_leads_to_it() -> None:
    assert len(BLOCKS) == 5
    assert "docs/guide/testing.md" in (PROJECT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.findall(r"def (test_\w+)", block)[0])
def test_an_example_passes_as_it_stands(block: str, tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(ottla.__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^[1-9]\d* passed", done.stdout, re.MULTILINE), done.stdout


def test_every_word_of_the_table_is_there() -> None:
    from ottla.testing import Cluster

    rows = re.findall(r"^\| .* \| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)\(", row)} - {"Cluster", "Admin"}
    assert named >= {"kill", "pause", "partition", "isolate", "heal", "skew", "wait_until"}
    assert not [name for name in named if not hasattr(Cluster, name)]
