"""What a consumer sees as it goes on: everything, in order, and nothing that goes away again."""

from collections.abc import Iterator
from itertools import pairwise

from ottla.simulation.checkers.facts import Anomaly, Facts, Place
from ottla.simulation.history import Policy, Poll, ReadAll


def nonmonotonic_polls(facts: Facts) -> Iterator[Anomaly]:
    """Offsets grow, within one poll and from one poll to the next."""
    reached: dict[tuple[str, Place], int] = {}
    for poll in facts.polls:
        place = Place(poll.topic, poll.partition)
        offsets = [record[0] for record in poll.records]
        for before, after in pairwise(offsets):
            if after <= before:
                what = f"{poll.process} has read {after} of {place} after {before}"
                yield Anomaly("int-nonmonotonic-poll", what)
        last = reached.get((poll.process, place))
        first = offsets[0] if offsets else poll.position
        if last is not None and not poll.is_fresh and first < last:
            what = f"{poll.process} has read {first} of {place} after all before {last}"
            yield Anomaly("nonmonotonic-poll", what)
        reached[poll.process, place] = poll.next_position


def skipped_polls(facts: Facts) -> Iterator[Anomaly]:
    """Between two positions a consumer has seen all that there is to be seen at its isolation."""
    ranks: dict[int, dict[int, int]] = {}
    for poll in facts.polls:
        place = Place(poll.topic, poll.partition)
        log = facts.logs.get((place, poll.isolation))
        if log is None or facts.policy(poll.topic) is Policy.COMPACT or not poll.records:
            continue
        if id(log) not in ranks:
            ranks[id(log)] = {record[0]: rank for rank, record in enumerate(log.records)}
        yield from _compare(poll, place, log, ranks[id(log)])


def _compare(poll: Poll, place: Place, log: ReadAll, ranks: dict[int, int]) -> Iterator[Anomaly]:
    before: int | None = None
    for offset, _, value in poll.records:
        if offset < log.log_start:
            continue  # retention has come here since
        rank = ranks.get(offset)
        if rank is None:
            what = f"{poll.process} has read {value} at {place} {offset}, which is not there now"
            yield Anomaly("vanished-read", what)
            continue
        skipped = None
        if before is not None and rank > before + 1:
            skipped = log.records[before + 1]
        elif before is None and rank > 0 and log.records[rank - 1][0] >= poll.position:
            skipped = log.records[rank - 1]
        if skipped is not None:
            what = f"{poll.process} has read {place} {offset} and not {skipped[0]}, {skipped[2]}"
            yield Anomaly("poll-skip", what)
        before = rank


def gapped_polls(facts: Facts) -> Iterator[Anomaly]:
    """A poll begins where the one before has ended, unless the position was set anew.

    Together with the skips within each poll: nothing is left out between polls either.
    """
    reached: dict[tuple[str, Place], int] = {}
    for poll in facts.polls:
        place = Place(poll.topic, poll.partition)
        last = reached.get((poll.process, place))
        if last is not None and not poll.is_fresh and poll.position > last:
            what = f"{poll.process} went from {last} to {poll.position} of {place}"
            yield Anomaly("poll-gap", what)
        reached[poll.process, place] = poll.next_position
