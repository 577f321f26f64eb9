"""Delegation tokens under faults: what the checker sees, and seeds in which there are some."""

import pytest

from ottla.simulation.checkers.suite import check
from ottla.simulation.checkers.tokens import CREATE, REMOVE, RENEW, SWEEP_MS
from ottla.simulation.history import (
    ChangeToken,
    History,
    Operation,
    Outcome,
    SeeTokens,
    from_lines,
    to_lines,
)
from ottla.simulation.run import Run
from ottla.simulation.scenario import draw_scenario

NOW_MS = 1_000_000
OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


def kinds(
    *changes: tuple[str, str, Outcome, int],
    seen: dict[str, int],
    clocks_were_right: bool = True,
) -> list[str]:
    """The anomalies of a history: changes of tokens, and what a broker had at the end."""
    times = iter(range(1000))
    history = History(lambda: float(next(times)))
    for change, token_id, outcome, expires_ms in changes:
        begun: Operation = ChangeToken(
            process="p", change=change, token_id=token_id, expires_ms=expires_ms
        )
        history.end(history.begin(begun), outcome)
    history.add(
        SeeTokens(
            process="b",
            tokens=list(seen.items()),
            wall_ms=NOW_MS,
            clocks_were_right=clocks_were_right,
        )
    )
    read_again = list(from_lines(to_lines(history)))
    assert read_again == history.operations
    return [anomaly.kind for anomaly in check(read_again)]


MADE = (CREATE, "t", OK, NOW_MS + 10)
REMOVED = (REMOVE, "t", OK, NOW_MS)


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ([MADE], {"t": NOW_MS + 10}),
        ([MADE, REMOVED], {}),
        ([MADE, (REMOVE, "t", UNKNOWN, -1)], {}),
        ([MADE, (REMOVE, "t", UNKNOWN, -1)], {"t": NOW_MS + 10}),
        ([MADE, (RENEW, "t", OK, NOW_MS + 20)], {"t": NOW_MS + 20}),
        ([MADE, (RENEW, "t", UNKNOWN, -1)], {"t": NOW_MS + 77}),
        ([MADE, (RENEW, "t", FAILED, 0)], {"t": NOW_MS + 10}),
        ([(CREATE, "t", OK, NOW_MS - 1)], {}),
        ([(CREATE, "t", OK, NOW_MS - 1)], {"t": NOW_MS - 1}),
        ([(CREATE, "", UNKNOWN, -1)], {"u": NOW_MS + 10}),
        ([MADE, REMOVED, (RENEW, "t", FAILED, 0)], {}),
    ],
)
def test_what_may_be(changes: list[tuple[str, str, Outcome, int]], seen: dict[str, int]) -> None:
    assert kinds(*changes, seen=seen) == []


@pytest.mark.parametrize(
    ("changes", "seen", "kind"),
    [
        ([MADE], {}, "lost-token"),
        ([MADE, (RENEW, "t", FAILED, 0)], {}, "lost-token"),
        ([MADE, REMOVED], {"t": NOW_MS + 10}, "undeleted-token"),
        ([MADE, REMOVED, (RENEW, "t", OK, NOW_MS + 9)], {}, "resurrected-token"),
        ([MADE, (RENEW, "t", OK, NOW_MS + 20)], {"t": NOW_MS + 10}, "stale-token"),
        ([MADE, (REMOVE, "t", FAILED, 0)], {}, "lost-token"),
        ([], {"u": NOW_MS + 10}, "token-from-nowhere"),
        (
            [(CREATE, "t", OK, NOW_MS - SWEEP_MS - 1)],
            {"t": NOW_MS - SWEEP_MS - 1},
            "unswept-token",
        ),
    ],
)
def test_what_must_not_be(
    changes: list[tuple[str, str, Outcome, int]], seen: dict[str, int], kind: str
) -> None:
    assert kinds(*changes, seen=seen) == [kind]


def test_with_wrong_clocks_a_token_may_end_early() -> None:
    assert kinds(MADE, seen={}, clocks_were_right=False) == []


SEEDS = [seed for seed in range(1, 100) if "tokens" in draw_scenario(seed).workloads]


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_tokens_under_faults(seed: int) -> None:
    whole = Run(seed, draw_scenario(seed, seconds=15.0))
    whole.go()
    changes = [each for each in whole.history if isinstance(each, ChangeToken) and each.is_ok]
    assert {each.change for each in changes} >= {CREATE}
    seen = [each for each in whole.history if isinstance(each, SeeTokens)]
    assert len(seen) == len(whole.cluster.brokers)
