"""Transactions are whole, and end as their producer was told; a copy is made exactly once."""

from collections.abc import Iterator

from ottla.simulation.checkers.facts import Anomaly, Facts, Place, Verdict
from ottla.simulation.history import Isolation, Policy, Poll, ReadAll, Send


def aborted_reads(facts: Facts) -> Iterator[Anomaly]:
    """G1a: a reader of committed records sees nothing of a transaction that was not committed."""
    told: set[str] = set()
    for process, place, offset, send in _committed_reads(facts):
        name = send.transaction
        if name is None or name in told or facts.verdict(name) is not Verdict.ABORTED:
            continue
        told.add(name)
        yield Anomaly("G1a", f"{process} has read {send.value} at {place} {offset} of {name}")


def _committed_reads(facts: Facts) -> Iterator[tuple[str, Place, int, Send]]:
    reads: list[Poll | ReadAll] = [*facts.polls, *facts.logs.values()]
    for read in reads:
        if read.isolation is not Isolation.COMMITTED:
            continue
        place = Place(read.topic, read.partition)
        for offset, _, value in read.records:
            send = facts.by_value.get(value) if value is not None else None
            if send is not None:
                yield read.process, place, offset, send


def precommitted_reads(facts: Facts) -> Iterator[Anomaly]:
    """Nobody reads a record as committed before its commit was asked for."""
    for poll in facts.polls:
        if poll.isolation is not Isolation.COMMITTED:
            continue
        for offset, _, value in poll.records:
            send = facts.by_value.get(value) if value is not None else None
            if send is None or send.transaction is None:
                continue
            end = facts.ends.get(send.transaction)
            if end is not None and end.commit and poll.end < end.begin:
                place = Place(poll.topic, poll.partition)
                what = f"{poll.process} has read {value} at {place} {offset} before its commit"
                yield Anomaly("precommitted-read", what)


def torn_transactions(facts: Facts) -> Iterator[Anomaly]:
    """Of a transaction a reader of committed records sees all at the end, or nothing."""
    visible = {
        value
        for (_, isolation), log in facts.logs.items()
        if isolation is Isolation.COMMITTED
        for _, _, value in log.records
        if value is not None
    }
    sent: dict[str, list[Send]] = {}
    for send in facts.sends:
        if send.transaction is None or not send.is_ok or send.value is None:
            continue
        log = facts.logs.get((Place(send.topic, send.partition), Isolation.COMMITTED))
        if log is None or facts.policy(send.topic) is Policy.COMPACT:
            continue
        if send.offset is None or send.offset >= log.log_start:
            sent.setdefault(send.transaction, []).append(send)
    for name, sends in sent.items():
        missing = [send for send in sends if send.value not in visible]
        if not missing:
            continue
        first = f"{missing[0].value} of {missing[0].topic}-{missing[0].partition}"
        if facts.verdict(name) is Verdict.COMMITTED:
            yield Anomaly("lost-transaction", f"{name} was committed and lacks {first}")
        elif len(missing) < len(sends):
            yield Anomaly("torn-transaction", f"{name} is there without {first}")


def hanging_transactions(facts: Facts) -> Iterator[Anomaly]:
    """When all is quiet no transaction is open: a reader of committed records gets to the end."""
    for (place, isolation), log in facts.logs.items():
        everything = facts.log(place)
        if isolation is Isolation.COMMITTED and everything and log.log_end < everything.log_end:
            what = f"{place} is stable up to {log.log_end}, and has {everything.log_end}"
            yield Anomaly("hanging-transaction", what)


def exactly_once(facts: Facts) -> Iterator[Anomaly]:
    """Each record before the committed offset of a group of copiers was copied once."""
    copied: dict[tuple[str, Place, int], str] = {}
    committed: dict[str, set[str]] = {}
    for (place, isolation), log in facts.logs.items():
        if isolation is Isolation.COMMITTED:
            values = committed.setdefault(place.topic, set())
            values.update(value for _, _, value in log.records if value is not None)
    for copy in facts.copies:
        send = facts.by_value.get(copy.value)
        if send is None or copy.value not in committed.get(send.topic, set()):
            continue
        source = (copy.group, Place(copy.source, copy.partition), copy.offset)
        if source in copied:
            what = f"{source[1]} {copy.offset}: as {copied[source]} and as {copy.value}"
            yield Anomaly("copied-twice", what)
        copied[source] = copy.value
    groups = sorted({copy.group for copy in facts.copies})
    for fetch in facts.fetches:
        place = Place(fetch.topic, fetch.partition)
        log_read = facts.logs.get((place, Isolation.COMMITTED))
        if not fetch.is_final or fetch.group not in groups or log_read is None:
            continue
        for offset, _, value in log_read.records:
            if offset < fetch.offset and (fetch.group, place, offset) not in copied:
                yield Anomaly("not-copied", f"{value} at {place} {offset} by {fetch.group}")
