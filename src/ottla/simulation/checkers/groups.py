"""Groups: one owner for each partition, and committed offsets that go forward only.

Only what the coordinator has written counts: a member whose coordinator was deposed may believe for
a while that it still owns a partition, but nothing that it commits then is acknowledged.
"""

from collections.abc import Iterator

from ottla.simulation.checkers.facts import Anomaly, Facts, Place, Verdict
from ottla.simulation.history import Assign, CommitOffset, Outcome


def disjoint_ownership(facts: Facts) -> Iterator[Anomaly]:
    """In one generation, or at one epoch, a partition has one owner."""
    owners: dict[tuple[str, int, Place], str] = {}
    for assign in facts.assigns:
        for topic, partition in assign.partitions:
            place = Place(topic, partition)
            owner = owners.setdefault((assign.group, assign.epoch, place), assign.member)
            if owner != assign.member:
                what = f"{owner} and {assign.member} of {assign.group} at epoch {assign.epoch}"
                yield Anomaly("shared-ownership", f"{place}: {what}")


def fenced_commits(facts: Facts) -> Iterator[Anomaly]:
    """A member that lost a partition to a later owner commits nothing for it any more."""
    # Ties go to the commit: what begins as the other ends may have come first.
    moments: list[tuple[float, int, Assign | CommitOffset]] = [
        (assign.end, 1, assign) for assign in facts.assigns if assign.is_ok
    ]
    moments += [(commit.begin, 0, commit) for commit in facts.commits if commit.is_ok]
    moments.sort(key=lambda moment: moment[:2])
    newest: dict[tuple[str, Place], tuple[int, str]] = {}
    for _, _, operation in moments:
        if isinstance(operation, Assign):
            for topic, partition in operation.partitions:
                where = (operation.group, Place(topic, partition))
                newest[where] = max(
                    newest.get(where, (-1, "")), (operation.epoch, operation.member)
                )
            continue
        place = Place(operation.topic, operation.partition)
        epoch, member = newest.get((operation.group, place), (-1, ""))
        if epoch > operation.epoch and member != operation.member:
            what = f"{operation.member} has committed {operation.offset} of {place} for"
            yield Anomaly("fenced-commit", f"{what} {operation.group} when {member} had it")


def offsets_going_back(facts: Facts) -> Iterator[Anomaly]:
    """A commit that follows another commits no less: members begin where the others ended."""
    moments: list[tuple[float, int, CommitOffset]] = []
    for commit in facts.commits:
        end = _took_effect(facts, commit)
        if end is not None:
            moments += [(commit.begin, 0, commit), (end, 1, commit)]
    moments.sort(key=lambda moment: moment[:2])
    reached: dict[tuple[str, Place], int] = {}
    for _, is_end, commit in moments:
        where = (commit.group, Place(commit.topic, commit.partition))
        before = reached.get(where, -1)
        if is_end:
            reached[where] = max(before, commit.offset)
        elif commit.offset < before:
            what = f"{commit.member} has committed {commit.offset} after {before} of {where[1]}"
            yield Anomaly("offset-back", what)
    for fetch in facts.fetches:
        before = reached.get((fetch.group, Place(fetch.topic, fetch.partition)), -1)
        if fetch.is_final and fetch.offset < before:
            what = f"{fetch.group} has {fetch.offset} of {fetch.topic}-{fetch.partition}"
            yield Anomaly("offset-lost", f"{what}, and {before} was acknowledged")


def _took_effect(facts: Facts, commit: CommitOffset) -> float | None:
    """When an offset was committed for sure; None when that is not known."""
    if not commit.is_ok:
        return None
    if commit.transaction is None:
        return commit.end
    if facts.verdict(commit.transaction) is Verdict.COMMITTED:
        return facts.ends[commit.transaction].end
    return None


def offsets_from_nowhere(facts: Facts) -> Iterator[Anomaly]:
    """A group's offset was committed by somebody, not refused, not aborted, not beyond the end."""
    possible: set[tuple[str, Place, int]] = set()
    for commit in facts.commits:
        name = commit.transaction
        if commit.outcome is Outcome.FAILED:
            continue
        if name is None or facts.verdict(name) is not Verdict.ABORTED:
            place = Place(commit.topic, commit.partition)
            possible.add((commit.group, place, commit.offset))
    for fetch in facts.fetches:
        place = Place(fetch.topic, fetch.partition)
        if fetch.offset >= 0 and (fetch.group, place, fetch.offset) not in possible:
            what = f"{fetch.group} has {fetch.offset} of {place}, which nobody has committed"
            yield Anomaly("offset-from-nowhere", what)
        log = facts.log(place)
        if log is not None and fetch.offset > log.log_end:
            what = f"{fetch.group} has {fetch.offset} of {place}, which ends at {log.log_end}"
            yield Anomaly("offset-beyond", what)
