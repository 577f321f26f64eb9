"""Real clients write while real nodes fall: nothing that was acknowledged is lost, none is doubled.

Longer runs, and the same beside Apache Kafka: ``python -m tools.chaos --program both``.
"""

import pytest
from tools.chaos.__main__ import command_of
from tools.chaos.faults import NAMES
from tools.chaos.machine import NotPossible
from tools.chaos.run import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(420)]


@pytest.mark.parametrize("fault", NAMES)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(fault: str) -> None:
    try:
        result = run("ottla", fault, seconds=30, every=15)
    except NotPossible as reason:
        pytest.skip(str(reason))
    assert result.anomalies == []
    assert result.acknowledged > 100
    assert result.transactions > 3


@pytest.mark.peer
def test_the_same_is_true_of_apache_kafka() -> None:
    """Whatever is found here is the fault of the script."""
    result = run("kafka", "kill-leader", seconds=30, every=15, command=command_of("kafka"))
    assert result.anomalies == []
    assert result.acknowledged > 100
