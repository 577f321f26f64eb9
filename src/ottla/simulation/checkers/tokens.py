"""Delegation tokens: none is lost while it holds, and none comes back that was removed.

What is seen at the end is compared with what was acknowledged; a change without an answer may have
happened or not.
"""

from collections.abc import Iterator
from typing import Final

from ottla.simulation.checkers.facts import Anomaly, Facts
from ottla.simulation.history import ChangeToken, Outcome, SeeTokens

CREATE: Final = "create"
RENEW: Final = "renew"
REMOVE: Final = "remove"
SWEEP_MS: Final = 60_000
"""After this an expired token must be gone: many times the interval, for clocks that differ."""


def token_changes(facts: Facts) -> Iterator[Anomaly]:
    by_token: dict[str, list[ChangeToken]] = {}
    made_unseen = 0
    for change in facts.token_changes:
        if change.token_id:
            by_token.setdefault(change.token_id, []).append(change)
        elif change.outcome is Outcome.UNKNOWN:
            made_unseen += 1
    for token_id, changes in by_token.items():
        yield from _resurrected(token_id, changes)
    for seen in facts.tokens_seen:
        there = dict(seen.tokens)
        for token_id, changes in by_token.items():
            yield from _judged(token_id, changes, there.get(token_id), seen)
        strangers = [token_id for token_id in there if token_id not in by_token]
        if len(strangers) > made_unseen:
            yield Anomaly("token-from-nowhere", f"{strangers} in {seen.process}")


def _resurrected(token_id: str, changes: list[ChangeToken]) -> Iterator[Anomaly]:
    removed = False
    for change in changes:
        if removed and change.is_ok:
            yield Anomaly("resurrected-token", f"{token_id}: {change.change} after its removal")
        removed = removed or (change.change == REMOVE and change.is_ok)


def _judged(
    token_id: str, changes: list[ChangeToken], expires_ms: int | None, seen: SeeTokens
) -> Iterator[Anomaly]:
    possible = [change for change in changes if change.outcome is not Outcome.FAILED]
    removals = [change for change in possible if change.change == REMOVE]
    if any(change.is_ok for change in removals):
        if expires_ms is not None:
            yield Anomaly("undeleted-token", f"{token_id} in {seen.process}")
        return
    last = max(at for at, change in enumerate(possible) if change.is_ok)
    known_ms = possible[last].expires_ms
    if expires_ms is None:
        is_over = known_ms < seen.wall_ms or not seen.clocks_were_right
        if not removals and not is_over:
            yield Anomaly("lost-token", f"{token_id} in {seen.process}, until {known_ms}")
        return
    if last == len(possible) - 1 and expires_ms != known_ms:
        yield Anomaly("stale-token", f"{token_id} holds until {expires_ms}, not {known_ms}")
    if seen.clocks_were_right and expires_ms < seen.wall_ms - SWEEP_MS:
        yield Anomaly("unswept-token", f"{token_id} is there since {expires_ms}")
