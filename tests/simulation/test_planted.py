"""The known cases of data loss: each rule that is switched off is missed soon, by a directed run.

The rule is replaced in the real code, for the time of the search. The same seeds find nothing when
the rule is there.
"""

import pytest
from tests.simulation.planted.compaction import EARLY_TOMBSTONE
from tests.simulation.planted.fencing import KIP_320, KIP_392, KIP_841, KIP_966
from tests.simulation.planted.permissions import (
    CVE_2024_27309,
    FORGETFUL_SNAPSHOT,
    OUTLIVING_GRANT,
)
from tests.simulation.planted.stage import Case
from tests.simulation.planted.transactions import HANGING_TRANSACTION, LATE_END
from tests.simulation.planted.truncation import KIP_101_FIRST, KIP_101_SECOND, KIP_279

CASES = [
    KIP_101_FIRST,
    KIP_101_SECOND,
    KIP_279,
    KIP_320,
    KIP_392,
    KIP_841,
    KIP_966,
    LATE_END,
    HANGING_TRANSACTION,
    EARLY_TOMBSTONE,
    OUTLIVING_GRANT,
    CVE_2024_27309,
    FORGETFUL_SNAPSHOT,
]
SHORT = 16
"""Seeds of the short search, the first of which has found it."""
SEEDS = 200


def find(case: Case, seeds: range) -> int | None:
    """The first seed that finds the planted bug; whatever it finds must be of its kind."""
    for seed in seeds:
        with case.plant():
            found = case.anomalies(seed)
        if found:
            kinds = {anomaly.kind for anomaly in found}
            assert kinds & case.finds, f"seed {seed} found something else: {found[0]}"
            return seed
    return None


def search(case: Case, seeds: range) -> None:
    found = find(case, seeds)
    assert found is not None, f"{case.name} was not found"
    for seed in range(seeds.start, found + 1):
        assert case.anomalies(seed) == [], f"seed {seed} without the bug"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_known_case_of_data_loss_is_found(case: Case) -> None:
    search(case, range(case.first_seed, case.first_seed + SHORT))


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_known_case_of_data_loss_is_found_from_other_seeds_too(case: Case) -> None:
    search(case, range(10_000, 10_000 + SEEDS))
