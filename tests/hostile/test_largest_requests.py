"""What the longest lists of every API cost: no turn of the loop grows faster than its request.

A whole broker in the simulation is asked; a turn is what one callback does before others have
theirs. It is measured in lines that are run, which are the same on every machine. What one item may
cost is bounded too: an answer that takes more per item is made in turns.
"""

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import pytest
from tests.hostile.asked import AskedBroker
from tests.hostile.largest import WIDE, Filled, largest

from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.generated.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.requests.table import served
from ottla.simulation.scheduler import SimulatedScheduler, SimulatedTimer

ITEMS: Final = 150
LINES_PER_ITEM_MAX: Final = 500
DEARER: Final = {
    ApiKey.CREATE_TOPICS: 1_300,  # an answer has all settings of each topic; 10,000 are allowed
    ApiKey.WRITE_TXN_MARKERS: 900,  # only brokers ask for it; each writes a batch
}
"""Lines for each item, where a request has a bound of its own."""
LINES_MAX: Final = 10_000
"""Of a turn, whatever the number of items: a request, and what else is done now and then."""
GROWTH_MAX: Final = 3.0
"""Of the longest turn, for twice as many items; a list that is looked through for each has 4."""
CONFIGURED: Final = {"log.cleaner.enable": "false", "connections.max.idle.ms": "600000"}
LEFT_OUT: Final = {
    ApiKey.ENVELOPE: "has another request in it, which is measured as it is",
    ApiKey.UNREGISTER_BROKER: "has no list, and would end the broker's part in the cluster",
}


class Turns:
    """Measures the longest callback of a scheduler, in lines that are run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.longest = 0
        self._lines = 0
        call_at = SimulatedScheduler.call_at

        def measured(
            scheduler: SimulatedScheduler,
            at: float,
            callback: Callable[..., Any],
            args: tuple[Any, ...],
            owner: None = None,
        ) -> SimulatedTimer:
            return call_at(scheduler, at, self._turn, (callback, args), owner)

        monkeypatch.setattr(SimulatedScheduler, "call_at", measured)

    def _turn(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        before = self._lines
        callback(*args)
        self.longest = max(self.longest, self._lines - before)

    def _count(self, _frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            self._lines += 1
        return self._count

    def of(self, work: Callable[[], None]) -> int:
        self.longest = 0
        sys.settrace(self._count)
        try:
            work()
        finally:
            sys.settrace(None)
        return self.longest


class Asked(AskedBroker):
    """A broker with some topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.turns = Turns(monkeypatch)
        super().__init__(CONFIGURED)
        topics = [CreatableTopic(name=f"t-{i}", num_partitions=1) for i in range(2 * ITEMS)]
        topics.append(CreatableTopic(name=WIDE, num_partitions=2 * ITEMS))
        for topic in topics:
            topic.replication_factor = 1
        self.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7, "PLAINTEXT")
        assert len(self.broker.image.topics.by_name) == len(topics)

    def cost(self, filled: Filled, count: int, listener: str) -> int:
        """Of the longest turn."""
        request = filled.make(count)
        return self.turns.of(lambda: self.ask(request, filled.version, listener))


@pytest.fixture(scope="module")
def asked() -> Iterator[Asked]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        yield Asked(monkeypatch)


def listed() -> list[tuple[ApiKey, str]]:
    """All APIs, with the listener on which they are served."""
    broker, controller = served(of_controller=False), served(of_controller=True)
    apis = [(key, "PLAINTEXT") for key in broker]
    apis += [(key, "CONTROLLER") for key in controller if key not in broker or key == ApiKey.FETCH]
    return [each for each in apis if each[0] not in LEFT_OUT]


@pytest.mark.parametrize(
    ("key", "listener"), listed(), ids=lambda value: getattr(value, "name", value)
)
def test_no_list_of_a_request_keeps_others_waiting(
    asked: Asked, key: ApiKey, listener: str
) -> None:
    version = APIS[key].highest_stable_version
    for filled in largest(APIS[key], version):
        once = asked.cost(filled, ITEMS, listener)
        twice = asked.cost(filled, 2 * ITEMS, listener)
        allowed = LINES_MAX + DEARER.get(key, LINES_PER_ITEM_MAX) * 2 * ITEMS
        assert twice <= max(LINES_MAX, GROWTH_MAX * once), f"{filled}: {once}, {twice}"
        assert twice <= allowed, f"{filled}: {twice}"


def settings_of(count: int, value: int) -> IncrementalAlterConfigsRequest:
    """Another retention for so many topics."""
    changed = [AlterableConfig(name="retention.ms", config_operation=0, value=str(value))]
    resources = [
        AlterConfigsResource(resource_type=2, resource_name=f"t-{i}", configs=changed)
        for i in range(count)
    ]
    return IncrementalAlterConfigsRequest(resources=resources)


def test_new_settings_cost_by_the_topics_that_have_them(asked: Asked) -> None:
    """All logs were looked through for each topic."""
    for request in (settings_of(2 * ITEMS, 1_000_000), settings_of(ITEMS, 2_000_000)):
        asked.ask(request, 1, "PLAINTEXT")
    once, twice = (
        asked.turns.of(lambda count=count: asked.ask(settings_of(count, 3_000_000), 1, "PLAINTEXT"))  # type: ignore[misc]
        for count in (ITEMS, 2 * ITEMS)
    )
    assert twice <= GROWTH_MAX * once, f"{once}, {twice}"
    assert twice <= LINES_MAX + LINES_PER_ITEM_MAX * 2 * ITEMS, twice
    everything = AlterConfigsResource(
        resource_type=4,
        resource_name="",
        configs=[AlterableConfig(name="log.retention.ms", config_operation=0, value="4000000")],
    )
    request = IncrementalAlterConfigsRequest(resources=[everything])
    of_all = asked.turns.of(lambda: asked.ask(request, 1, "PLAINTEXT"))
    assert of_all <= LINES_MAX + LINES_PER_ITEM_MAX * 2 * ITEMS, of_all
