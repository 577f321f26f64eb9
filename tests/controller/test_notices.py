"""What the active controller's log says: its own role, brokers, leaders of partitions."""

import logging

import pytest
from tests.controller.nodes import Node, formatted
from tests.observability.lines import lines

from ottla.controller import notices
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE
from ottla.protocol.generated import metadata_records as r


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


def test_an_isr_that_changes_is_no_election(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ottla.controller")
    topic_id = bytes(range(16))
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(r.TopicRecord(name="t", topic_id=topic_id))
    delta.replay(r.PartitionRecord(topic_id=topic_id, replicas=[1, 2], isr=[1, 2], leader=1))
    changed = MetadataDelta(delta.apply(1, 1))
    changed.replay(r.PartitionChangeRecord(topic_id=topic_id, isr=[1]))
    changed.apply(2, 1)
    notices.tell(changed)
    assert lines(caplog) == []
