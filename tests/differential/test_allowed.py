"""Every difference that is allowed here is explained in DIFFERENCES.md."""

import re

from tests.differential.comparing import ALLOWED, MORE_MESSAGES, NAMED_ERRORS
from tools.kafka_peer.setup import PROJECT


def test_each_allowed_difference_has_its_heading() -> None:
    text = (PROJECT / "DIFFERENCES.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"^#+ (\S+)$", text, re.MULTILINE))
    named = {row.difference for row in ALLOWED} | {MORE_MESSAGES, NAMED_ERRORS}
    assert named <= headings, f"DIFFERENCES.md does not explain {named - headings}"
