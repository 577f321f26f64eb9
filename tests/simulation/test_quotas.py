"""Clients that are limited by quotas lose nothing, and nothing is stuck."""

import pytest

from ottla.metadata.client_quotas import PRODUCER_BYTE_RATE
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.simulation.history import Send
from ottla.simulation.run import Run
from ottla.simulation.scenario import Scenario
from ottla.simulation.workloads.mix import SETTINGS
from ottla.simulation.workloads.quotas import Quotas
from ottla.simulation.workloads.records import Records


def sent(faults: tuple[str, ...], workloads: tuple[str, ...], seed: int = 4) -> tuple[int, int]:
    """How many records were sent, and how often a quota of producers changed."""
    scenario = Scenario("quotas", faults, 40.0, workloads=workloads, settings=SETTINGS)
    run = Run(seed, scenario)
    changes = 0

    def changed(_image: MetadataImage, delta: MetadataDelta) -> None:
        nonlocal changes
        found = delta.client_quotas.changed.values()
        changes += sum(PRODUCER_BYTE_RATE in quotas for quotas in found)

    run.cluster.on_start.append(lambda node: node.metadata.on_image(changed))
    run.go()
    assert run.cluster.newest_image().client_quotas == {}
    return sum(isinstance(each, Send) and each.is_ok for each in run.history), changes


@pytest.mark.parametrize("faults", [(), ("kill",)])
def test_nothing_is_lost_or_stuck_by_quotas(faults: tuple[str, ...]) -> None:
    written, changes = sent(faults, (Records.NAME, Quotas.NAME))
    assert changes > 1
    assert written > 10


def test_who_is_limited_writes_less() -> None:
    """Else the runs above would show nothing."""
    limited, _ = sent((), (Records.NAME, Quotas.NAME))
    free, _ = sent((), (Records.NAME,))
    assert limited < 0.8 * free
