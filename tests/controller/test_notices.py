"""What the active controller's log says: its own role, brokers, leaders of partitions."""

import logging

import pytest
from tests.controller.nodes import Node, formatted
from tests.observability.lines import lines


def test_a_controller_tells_of_its_role_its_brokers_and_elections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "ottla.controller")
    node = Node(formatted()).start()
    node.start_broker()
    node.wait(node.create("t", 3))
    assert lines(caplog) == [
        "INFO controller active node=1 epoch=1",
        "INFO broker registered broker=1 epoch=13",
        "INFO broker unfenced broker=1 epoch=13",
    ]
    caplog.clear()
    node.scheduler.run_for(12)
    assert lines(caplog) == [
        "INFO broker session expired broker=1",
        "INFO broker fenced broker=1 epoch=13",
        "WARN partition without a leader number=3 named=t-0,t-1,t-2",
    ]
    caplog.clear()
    node.wait(node.driver.submit(node.heartbeat()))
    node.scheduler.run_for(1)
    assert lines(caplog) == [
        "INFO broker unfenced broker=1 epoch=13",
        "INFO leader elected number=3 named=t-0,t-1,t-2",
    ]
    caplog.clear()
    node.wait(node.driver.stop())
    assert lines(caplog) == ["INFO controller resigned node=1 epoch=1"]
