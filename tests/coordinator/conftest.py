"""A coordinator for each test that asks for one."""

import pytest
from tests.coordinator.coordinator import Coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()
