"""Lets the test modules import one another by their full names, and gives them a coordinator."""

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
if str(PROJECT) not in sys.path:
    sys.path.insert(0, str(PROJECT))

from tests.coordinator.coordinator import Coordinator  # noqa: E402


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()
