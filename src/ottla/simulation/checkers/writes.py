"""What becomes of records that were sent: kept, once, in order, and the same for everybody."""

from collections.abc import Iterator
from itertools import chain

from ottla.simulation.checkers.facts import Anomaly, Facts, Place
from ottla.simulation.history import Isolation, Outcome, Policy, Read, Send


def lost_writes(facts: Facts) -> Iterator[Anomaly]:
    """An acknowledged record is there when all is quiet again, at the offset that was told."""
    seen: dict[Place, dict[str, int]] = {}
    for place, isolation in facts.logs:
        if isolation is Isolation.UNCOMMITTED:
            log = facts.logs[place, isolation]
            seen[place] = {value: offset for offset, _, value in log.records if value is not None}
    for send in facts.sends:
        place = Place(send.topic, send.partition)
        log_read = facts.log(place)
        if not send.is_ok or send.value is None or log_read is None:
            continue
        policy = facts.policy(send.topic)
        if policy is Policy.COMPACT:
            continue
        if policy is Policy.EXPIRE and (send.offset is None or send.offset < log_read.log_start):
            continue
        offset = seen[place].get(send.value)
        if offset is None:
            yield Anomaly("lost-write", f"{send.value} of {place}, acknowledged at {send.offset}")
        elif send.offset is not None and send.offset != offset:
            what = f"{send.value} of {place} stands at {offset}, acknowledged at {send.offset}"
            yield Anomaly("inconsistent-offsets", what)


def inconsistent_offsets(facts: Facts) -> Iterator[Anomaly]:
    """Every reader of an offset, at any time, sees one and the same record."""
    known: dict[tuple[Place, int], tuple[str | None, str | None]] = {}
    for place, record in _reads(facts):
        offset, key, value = record
        first = known.setdefault((place, offset), (key, value))
        if first != (key, value):
            what = f"{place} has at {offset} both {first[1]} and {value}"
            yield Anomaly("inconsistent-offsets", what)


def _reads(facts: Facts) -> Iterator[tuple[Place, Read]]:
    for poll in facts.polls:
        for record in poll.records:
            yield Place(poll.topic, poll.partition), record
    for (place, _), log in facts.logs.items():
        for record in log.records:
            yield place, record


def duplicates(facts: Facts) -> Iterator[Anomaly]:
    """A record of an idempotent producer stands in one place, however often it was sent."""
    found: dict[str, tuple[Place, int]] = {}
    told: set[str] = set()
    for place, (offset, _, value) in _reads(facts):
        if value is None:
            continue
        send = facts.by_value.get(value)
        if send is None or not send.producer:
            continue
        first = found.setdefault(value, (place, offset))
        if first != (place, offset) and value not in told:
            told.add(value)
            what = f"{value} stands at {first[0]} {first[1]} and at {place} {offset}"
            yield Anomaly("duplicate", what)


def unsent_reads(facts: Facts) -> Iterator[Anomaly]:
    """Nobody reads what nobody sent, or what was refused for sure."""
    told: set[str] = set()
    for place, (offset, _, value) in chain(_reads(facts), facts.lossy_reads):
        if value is None or value in told:
            continue
        send = facts.by_value.get(value)
        if send is None:
            told.add(value)
            yield Anomaly("unsent-read", f"{value} at {place} {offset} was never sent")
        elif send.outcome is Outcome.FAILED and send.transaction is None:
            told.add(value)
            yield Anomaly("refused-read", f"{value} at {place} {offset} was refused")


def producer_order(facts: Facts) -> Iterator[Anomaly]:
    """What one producer sent to a partition stands in the order in which it was sent."""
    newest: dict[tuple[str, Place], tuple[int, Send]] = {}
    for (place, isolation), log in facts.logs.items():
        if isolation is not Isolation.UNCOMMITTED:
            continue
        for offset, _, value in log.records:
            send = facts.by_value.get(value) if value is not None else None
            if send is None or not send.producer:
                continue
            before = newest.get((send.producer, place))
            if before is not None and before[1].sequence > send.sequence:
                what = f"{place} has {before[1].value} at {before[0]} before {value} at {offset}"
                yield Anomaly("producer-order", what)
            newest[send.producer, place] = (offset, send)
