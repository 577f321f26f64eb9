"""What README and the guides tell to put into server.properties is taken by a node, every line."""

import re
from pathlib import Path

import pytest
from tests.config.properties import parse_properties

from ottla.config.broker import BrokerConfig
from ottla.config.notices import has_comment, notices

PROJECT = Path(__file__).resolve().parents[2]
PAGES = [PROJECT / "README.md", *sorted((PROJECT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```properties\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [
    pytest.param(match[1], id=f"{page.name}-{at}")
    for page in PAGES
    for at, match in enumerate(BLOCK.finditer(page.read_text("utf-8")))
]


def minimal() -> dict[str, str]:
    """The node that README begins with."""
    found = BLOCK.search((PROJECT / "README.md").read_text("utf-8"))
    assert found is not None
    return parse_properties(found[1])


def test_there_are_blocks() -> None:
    assert len(BLOCKS) >= 3
    assert minimal()["process.roles"] == "broker,controller"


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_is_taken_by_a_node_without_a_word(block: str) -> None:
    written = parse_properties(block)
    assert written
    assert not [name for name, value in written.items() if has_comment(value)]
    whole = written if "process.roles" in written else {**minimal(), **written}
    assert notices(written, BrokerConfig.from_properties(whole)) == []
