"""All checkers of a history, one after the other."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ottla.simulation.checkers.compaction import compacted_keys, early_tombstones
from ottla.simulation.checkers.facts import Anomaly, Facts
from ottla.simulation.checkers.groups import (
    disjoint_ownership,
    fenced_commits,
    offsets_from_nowhere,
    offsets_going_back,
)
from ottla.simulation.checkers.permissions import (
    lost_and_resurrected_acls,
    refused_writes,
    wrong_access,
)
from ottla.simulation.checkers.reads import gapped_polls, nonmonotonic_polls, skipped_polls
from ottla.simulation.checkers.tokens import token_changes
from ottla.simulation.checkers.transactions import (
    aborted_reads,
    exactly_once,
    hanging_transactions,
    precommitted_reads,
    torn_transactions,
)
from ottla.simulation.checkers.writes import (
    duplicates,
    inconsistent_offsets,
    lost_writes,
    producer_order,
    unsent_reads,
)
from ottla.simulation.history import Operation

CHECKERS: Final[tuple[Callable[[Facts], Iterator[Anomaly]], ...]] = (
    lost_writes,
    inconsistent_offsets,
    duplicates,
    unsent_reads,
    producer_order,
    nonmonotonic_polls,
    skipped_polls,
    gapped_polls,
    aborted_reads,
    precommitted_reads,
    torn_transactions,
    hanging_transactions,
    exactly_once,
    disjoint_ownership,
    fenced_commits,
    offsets_going_back,
    offsets_from_nowhere,
    compacted_keys,
    early_tombstones,
    token_changes,
    lost_and_resurrected_acls,
    wrong_access,
    refused_writes,
)


def check(history: Iterable[Operation]) -> list[Anomaly]:
    """Everything in ``history`` that must not be; empty when all is well."""
    facts = Facts(history)
    return [anomaly for checker in CHECKERS for anomaly in checker(facts)]
