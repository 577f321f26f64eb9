"""ACLs: what was acknowledged, and all brokers know, decides on each of them until it is changed.

An ACL is *surely there* from when all brokers know of it to the begin of its removal, and *perhaps
there* from the begin of its creation to when all brokers know of its removal. A change without an
answer may be carried out at any time after its begin.
"""

from collections.abc import Iterable, Iterator
from math import inf
from typing import NamedTuple

from ottla.simulation.checkers.facts import Anomaly, Facts
from ottla.simulation.history import ChangeAcl, Outcome


class _Spell(NamedTuple):
    """One stay of an ACL, in its outer bounds (perhaps) and its inner ones (surely)."""

    change: ChangeAcl
    perhaps_from: float
    surely_from: float
    surely_to: float
    perhaps_to: float

    def is_sure(self, begin: float, end: float) -> bool:
        return self.surely_from <= begin and end <= self.surely_to

    def is_possible(self, begin: float, end: float) -> bool:
        return self.perhaps_from <= end and begin <= self.perhaps_to


def _spells(changes: Iterable[ChangeAcl]) -> list[_Spell]:
    open_ones: dict[str, _Spell] = {}
    spells: list[_Spell] = []
    for change in changes:
        known = change.known if change.is_ok and change.known >= 0 else inf
        if change.is_added:
            open_ones[change.acl] = _Spell(change, change.begin, known, inf, inf)
            continue
        spell = open_ones.get(change.acl)
        if spell is None:
            continue
        open_ones[change.acl] = spell._replace(
            surely_to=min(spell.surely_to, change.begin), perhaps_to=known
        )
        if known < inf:
            spells.append(open_ones.pop(change.acl))
    return [*spells, *open_ones.values()]


def lost_and_resurrected_acls(facts: Facts) -> Iterator[Anomaly]:
    """Every broker lists what is surely there, and nothing that cannot be."""
    spells = _spells(facts.acl_changes)
    for listing in facts.acl_lists:
        begin, end = listing.begin, listing.end
        listed = set(listing.acls)
        for spell in spells:
            if spell.is_sure(begin, end) and spell.change.acl not in listed:
                what = f"{spell.change.acl}: is not on broker {listing.broker} at {end:.3f}"
                yield Anomaly("lost-acl", what)
        possible = {spell.change.acl for spell in spells if spell.is_possible(begin, end)}
        for acl in sorted(listed - possible):
            what = f"{acl}: is on broker {listing.broker} at {end:.3f}"
            yield Anomaly("resurrected-acl", what)


def wrong_access(facts: Facts) -> Iterator[Anomaly]:
    """Nobody gets what is surely denied or not allowed, nor is refused what surely is allowed."""
    spells: dict[tuple[str, str, bool], list[_Spell]] = {}
    for spell in _spells(facts.acl_changes):
        change = spell.change
        spells.setdefault((change.user, change.operation, change.is_allowed), []).append(spell)
    for attempt in facts.accesses:
        begin, end = attempt.begin, attempt.end
        allows = spells.get((attempt.user, attempt.operation, True), [])
        denies = spells.get((attempt.user, attempt.operation, False), [])
        what = f"{attempt.user}, {attempt.operation} of {attempt.topic}"
        what = f"{what} from {begin:.3f} to {end:.3f}"
        if attempt.outcome is Outcome.OK:
            is_denied = any(each.is_sure(begin, end) for each in denies)
            if is_denied or not any(each.is_possible(begin, end) for each in allows):
                yield Anomaly("unauthorized-access", what)
        elif any(each.is_sure(begin, end) for each in allows) and not any(
            each.is_possible(begin, end) for each in denies
        ):
            yield Anomaly("refused-access", what)


def refused_writes(facts: Facts) -> Iterator[Anomaly]:
    """What was refused has left nothing behind."""
    refused = {
        each.value
        for each in facts.accesses
        if each.operation == "write" and each.outcome is Outcome.FAILED
    }
    for (place, _), log in facts.logs.items():
        for offset, _, value in log.records:
            if value in refused:
                yield Anomaly("refused-write", f"{value} is in {place} at {offset}")
