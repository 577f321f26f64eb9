"""The wheel that ``make wheel`` has built."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def wheel() -> Path:
    name = os.environ.get("WHEEL_UNDER_TEST")
    if not name:
        pytest.skip("WHEEL_UNDER_TEST names no wheel: `make test` builds one and runs this")
    return Path(name)
