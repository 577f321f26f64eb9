"""Seeds of the swarm that have a remote store, and what its checker finds."""

import pytest

from ottla.common.chance import Chance
from ottla.simulation.checkers.tier import TierChecker
from ottla.simulation.remote_store import MOODS, SharedStore
from ottla.simulation.run import Run, run_seed
from ottla.simulation.scenario import draw_scenario
from ottla.simulation.scheduler import NodeScheduler, SimulatedScheduler
from ottla.testing.files import MemoryFilesystem
from ottla.tiered.store import RemoteStoreError


def test_a_quarter_of_all_seeds_has_a_store_of_some_mood() -> None:
    drawn = [draw_scenario(seed) for seed in range(400)]
    tiered = [each for each in drawn if each.store]
    assert 70 < len(tiered) < 130
    assert {each.store for each in tiered} == set(MOODS)
    for each in drawn:
        is_on = each.settings.get("remote.log.storage.system.enable") == "true"
        assert (
            is_on == bool(each.store) == any(name.startswith("tiered") for name in each.workloads)
        )


@pytest.mark.parametrize("seed", [42, 696])
def test_a_broker_that_leads_again_before_it_knows_its_tier_forgets_nothing(seed: int) -> None:
    """42: metadata that was not asked for, since others had all the bytes of the answer.

    696: brokers write to the metadata topic when clients are quiet.
    """
    report = run_seed(seed)
    assert report.is_ok, report.failure


def test_a_log_whose_tier_was_forgotten_by_an_unclean_election_can_be_read_to_its_end() -> None:
    """Its start is out of range, as in Kafka: the reader goes on where the local log begins."""
    report = run_seed(21187)
    assert report.is_ok, report.failure


def test_what_is_left_in_the_store_and_what_is_missing_is_seen() -> None:
    run = Run(8, draw_scenario(8, seconds=10.0))
    run.go()
    store = run.cluster.remote.objects
    checker = TierChecker(run.cluster)
    assert store
    assert checker.unrest() is None
    key = next(key for key in store if key.endswith(".json"))
    manifest = store.pop(key)
    assert "does not have" in str(checker.unrest())
    store[key] = manifest
    stem = key.removesuffix(".json")
    other = stem[:-22] + "A" * 22
    store[f"{other}.log"] = b""
    assert "nobody knows" in str(checker.unrest())


def test_a_store_hangs_fails_and_is_healed() -> None:
    scheduler = SimulatedScheduler(Chance(1))
    node = NodeScheduler(scheduler, Chance(2))
    shared = SharedStore(Chance(3))
    shared.mood = MOODS["hanging"]._replace(hangs_one_in=1)
    done = shared.work(node, lambda: 1)
    scheduler.run_for(15)
    assert not done.done
    scheduler.run_for(60)
    assert done.result() == 1
    shared.mood = MOODS["failing"]._replace(fails_one_in=1)
    store = shared.store(MemoryFilesystem())
    outcomes = set()
    for number in range(20):
        with pytest.raises(RemoteStoreError):
            store.put(str(number), b"")
        outcomes.add(str(number) in shared.objects)
    assert outcomes == {False, True}
    shared.heal()
    store.put("well", b"")
