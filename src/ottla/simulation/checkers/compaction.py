"""Compaction: the newest record of a key survives, and a deleted key stays deleted.

A reader that has seen a value of a key and goes on to the end within ``delete.retention.ms`` also
sees the tombstone that came after it. A topic whose broker clocks were set to other times promises
nothing about tombstones: it is used with a retention of 0.
"""

from collections.abc import Iterator

from ottla.simulation.checkers.facts import Anomaly, Facts, Place, Verdict
from ottla.simulation.history import Isolation, Outcome, Policy, Poll, Send

Keyed = tuple[Place, str]


def _newest_sends(facts: Facts) -> dict[Keyed, Send]:
    """The acknowledged record of each key that has the highest offset."""
    newest: dict[Keyed, Send] = {}
    for send in facts.sends:
        if facts.policy(send.topic) is not Policy.COMPACT or send.key is None:
            continue
        if not send.is_ok or send.offset is None:
            continue
        name = send.transaction
        if name is not None and facts.verdict(name) is not Verdict.COMMITTED:
            continue
        place = (Place(send.topic, send.partition), send.key)
        before = newest.get(place)
        if before is None or (before.offset or 0) < send.offset:
            newest[place] = send
    return newest


def compacted_keys(facts: Facts) -> Iterator[Anomaly]:
    """At the end each key has its newest value, or none when that was a tombstone."""
    last: dict[Keyed, int] = {}
    read: set[Place] = set()
    for (place, isolation), log in facts.logs.items():
        if isolation is Isolation.COMMITTED and facts.policy(place.topic) is Policy.COMPACT:
            read.add(place)
            for offset, key, _ in log.records:
                if key is not None:
                    last[place, key] = offset
    for (place, key), send in _newest_sends(facts).items():
        if place not in read:
            continue
        assert send.offset is not None
        offset = last.get((place, key), -1)
        if offset >= send.offset:
            continue
        if send.value is not None:
            what = f"{key} of {place} has {offset}, and {send.value} was at {send.offset}"
            yield Anomaly("lost-key", what)
        elif offset >= 0:
            what = f"{key} of {place} has {offset}, and was deleted at {send.offset}"
            yield Anomaly("undeleted-key", what)


class _Sweep:
    """A reader on its way from the start of a partition."""

    def __init__(self, poll: Poll) -> None:
        self.begin = poll.begin
        self.end = poll.end
        self.position = poll.position
        self.last: dict[str, int] = {}

    def go_on(self, poll: Poll) -> None:
        self.end = poll.end
        self.position = poll.next_position
        for offset, key, _ in poll.records:
            if key is not None:
                self.last[key] = offset


def early_tombstones(facts: Facts) -> Iterator[Anomaly]:
    newest = _newest_sends(facts)
    unsure = {
        (Place(send.topic, send.partition), send.key)
        for send in facts.sends
        if send.key is not None and send.outcome is Outcome.UNKNOWN
    }
    for place, sweep in _sweeps(facts):
        retention = facts.topics[place.topic].delete_retention_seconds
        for key, offset in sweep.last.items():
            send = newest.get((place, key))
            if send is None or (place, key) in unsure or send.value is not None:
                continue
            assert send.offset is not None
            is_passed = offset < send.offset < sweep.position
            if is_passed and sweep.end - sweep.begin < retention:
                what = f"{key} of {place} at {offset}, and not that it was deleted at {send.offset}"
                yield Anomaly("early-tombstone", f"a reader has seen {what}")


def _sweeps(facts: Facts) -> Iterator[tuple[Place, _Sweep]]:
    going: dict[tuple[str, Place], _Sweep] = {}
    for poll in facts.polls:
        if facts.policy(poll.topic) is not Policy.COMPACT:
            continue
        place = Place(poll.topic, poll.partition)
        where = (poll.process, place)
        if where in going and poll.is_fresh:
            yield place, going.pop(where)
        if where not in going:
            going[where] = _Sweep(poll)
        going[where].go_on(poll)
    for (_, place), sweep in going.items():
        yield place, sweep
