"""Each checker finds its anomaly, planted into histories that are right, and finds nothing else."""

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.histories import COMPACTED, COPIES, TOPIC, make_history

from ottla.simulation.checkers.suite import CHECKERS, check
from ottla.simulation.history import (
    Assign,
    CommitOffset,
    Copy,
    EndTransaction,
    FetchOffset,
    History,
    Isolation,
    Operation,
    Outcome,
    Policy,
    Poll,
    ReadAll,
    Send,
    UseTopic,
    from_lines,
    to_lines,
)

O = TypeVar("O", bound=Operation)  # noqa: E741 - an operation


class Absent(Exception):
    """This history has nothing into which the anomaly could be planted."""


def every(history: History, kind: type[O], fits: Callable[[O], bool] = lambda _: True) -> list[O]:
    return [each for each in history if isinstance(each, kind) and fits(each)]


def first(history: History, kind: type[O], fits: Callable[[O], bool] = lambda _: True) -> O:
    found = every(history, kind, fits)
    if not found:
        raise Absent
    return found[len(found) // 2]


def logs(history: History, topic: str) -> list[ReadAll]:
    return every(history, ReadAll, lambda each: each.topic == topic)


def reads(history: History) -> list[ReadAll | Poll]:
    return [*every(history, ReadAll), *every(history, Poll)]


def is_plain(send: Send) -> bool:
    return send.is_ok and send.topic == TOPIC and send.transaction is None


def forget(history: History, value: str | None) -> None:
    for read in reads(history):
        read.records = [record for record in read.records if record[2] != value]


def ended(history: History, name: str | None) -> EndTransaction:
    return first(history, EndTransaction, lambda end: end.transaction == name)


def transactional(history: History, *, commit: bool, outcome: Outcome = Outcome.OK) -> list[Send]:
    """The acknowledged sends of one transaction that ended so, two at least."""
    for end in every(history, EndTransaction):
        if end.commit is commit and end.outcome is outcome:
            sends = [send for send in every(history, Send) if send.transaction == end.transaction]
            sends = [send for send in sends if send.is_ok]
            if len(sends) > 1 and sends[0].topic == TOPIC:
                return sends
    raise Absent


# What is planted


def lose_a_write(history: History) -> None:
    forget(history, first(history, Send, is_plain).value)


def move_a_write(history: History) -> None:
    send = first(history, Send, is_plain)
    assert send.offset is not None
    send.offset += 1000


def show_two_values_at_one_offset(history: History) -> None:
    poll = first(history, Poll, lambda poll: poll.topic == TOPIC and bool(poll.records))
    offset, key, _ = poll.records[0]
    other = first(history, Send, lambda send: send.value != poll.records[0][2] and is_plain(send))
    poll.records[0] = (offset, key, other.value)


def write_twice(history: History) -> None:
    send = first(history, Send, is_plain)
    for log in logs(history, TOPIC):
        log.records.append((log.log_end, None, send.value))


def read_what_was_refused(history: History) -> None:
    for log in logs(history, TOPIC):
        log.records.append((log.log_end, None, "refused"))


def read_what_was_never_sent(history: History) -> None:
    for log in logs(history, TOPIC):
        log.records.append((log.log_end, None, "never"))


def swap_two_writes(history: History) -> None:
    """As a retry does that overtakes: the broker told the offsets that they have."""
    sends = every(history, Send, is_plain)
    if len(sends) < 2:
        raise Absent
    one, two = sends[0], sends[1]
    names = {one.value: two.value, two.value: one.value}
    for read in reads(history):
        read.records = [
            (offset, key, names.get(value, value)) for offset, key, value in read.records
        ]
    one.offset, two.offset = two.offset, one.offset


def poll_backwards(history: History) -> None:
    poll = first(history, Poll, lambda poll: len(poll.records) > 1)
    poll.records.reverse()


def poll_again_what_was_polled(history: History) -> None:
    poll = first(history, Poll, lambda poll: poll.is_fresh and bool(poll.records))
    again = Poll(
        process=poll.process,
        topic=poll.topic,
        partition=0,
        isolation=poll.isolation,
        position=0,
        next_position=poll.next_position,
        records=list(poll.records),
    )
    history.operations.insert(history.operations.index(poll) + 1, again)
    again.outcome = Outcome.OK


def skip_within_a_poll(history: History) -> None:
    poll = first(history, Poll, lambda poll: len(poll.records) > 2 and poll.topic == TOPIC)
    del poll.records[1]


def skip_the_first_of_a_poll(history: History) -> None:
    poll = first(history, Poll, lambda poll: len(poll.records) > 1 and poll.topic == TOPIC)
    del poll.records[0]


def skip_between_polls(history: History) -> None:
    polls = every(history, Poll, lambda poll: poll.topic == TOPIC and bool(poll.records))
    if len(polls) < 3:
        raise Absent
    history.operations.remove(polls[1])


def show_what_goes_away(history: History) -> None:
    poll = first(history, Poll, lambda poll: poll.topic == TOPIC and bool(poll.records))
    send = first(history, Send, lambda send: send.topic == TOPIC and not send.is_ok)
    poll.records.append((10_000, None, send.value))


def show_an_aborted_record(history: History) -> None:
    send = transactional(history, commit=False)[0]
    assert send.offset is not None
    record = (send.offset, None, send.value)
    for log in logs(history, TOPIC):
        if log.isolation is Isolation.COMMITTED:
            log.records = sorted([*log.records, record])


def show_a_record_before_its_commit(history: History) -> None:
    send = transactional(history, commit=True)[0]
    end = ended(history, send.transaction)
    poll = Poll(
        process="early",
        topic=TOPIC,
        partition=0,
        isolation=Isolation.COMMITTED,
        position=send.offset or 0,
        next_position=(send.offset or 0) + 1,
        records=[(send.offset or 0, None, send.value)],
        begin=send.end,
        end=end.begin - 0.5,
        outcome=Outcome.OK,
    )
    history.operations.append(poll)


def hide(history: History, value: str | None) -> None:
    for log in logs(history, TOPIC):
        if log.isolation is Isolation.COMMITTED:
            log.records = [record for record in log.records if record[2] != value]


def lose_half_of_a_commit(history: History) -> None:
    hide(history, transactional(history, commit=True)[1].value)


def tear_a_transaction(history: History) -> None:
    hide(history, transactional(history, commit=True, outcome=Outcome.UNKNOWN)[1].value)


def leave_a_transaction_open(history: History) -> None:
    log = first(history, ReadAll, lambda log: log.isolation is Isolation.COMMITTED)
    log.log_end -= 1


def copy_twice(history: History) -> None:
    copies = every(history, Copy)
    if len(copies) < 2:
        raise Absent
    copies[1].offset = copies[0].offset


def lose_a_copy(history: History) -> None:
    copy = first(history, Copy)
    send = first(history, Send, lambda send: send.value == copy.value)
    for operation in (copy, send, ended(history, copy.transaction)):
        history.operations.remove(operation)
    for log in logs(history, COPIES):
        log.records = [record for record in log.records if record[2] != copy.value]


def share_a_partition(history: History) -> None:
    assign = first(history, Assign, lambda assign: (TOPIC, 0) in assign.partitions)
    other = Assign(
        process="z", group=assign.group, member="z", epoch=assign.epoch, partitions=[(TOPIC, 0)]
    )
    history.operations.append(other)


def commit_when_another_has_it(history: History) -> None:
    commit = first(history, CommitOffset, lambda commit: commit.epoch > 1)
    commit.epoch -= 1
    commit.member = "b" if commit.member == "a" else "a"


def commit_less_than_before(history: History) -> None:
    commits = every(history, CommitOffset, lambda commit: commit.group == "readers")
    if len(commits) < 2 or commits[0].offset < 1:
        raise Absent
    commits[1].offset = 0


def forget_a_committed_offset(history: History) -> None:
    fetch = first(history, FetchOffset, lambda fetch: fetch.group == "readers")
    if fetch.offset < 1:
        raise Absent
    fetch.offset = -1


def commit_the_offset_of_an_abort(history: History) -> None:
    """The newest one: it would be the group's offset."""
    commits = every(history, CommitOffset, lambda commit: commit.transaction is not None)
    if not commits:
        raise Absent
    history.operations.remove(ended(history, commits[-1].transaction))


def commit_beyond_the_end(history: History) -> None:
    fetch = first(history, FetchOffset, lambda fetch: fetch.group == "readers")
    commit = first(history, CommitOffset, lambda commit: commit.group == "readers")
    commit.offset = fetch.offset = 100_000


def newest(history: History, *, deleted: bool) -> Send:
    """The last record of a key, when that is acknowledged."""
    by_key: dict[str | None, Send] = {}
    for send in every(history, Send, lambda send: send.topic == COMPACTED):
        by_key[send.key] = send
    for send in by_key.values():
        others = [each for each in every(history, Send) if each.key == send.key]
        if (send.value is None) is not deleted or len(others) < 2:
            continue
        if all(each.is_ok for each in others) and others[-2].value is not None:
            return send
    raise Absent


def compact_a_newest_value_away(history: History) -> None:
    forget(history, newest(history, deleted=False).value)


def let_a_key_rise_from_the_dead(history: History) -> None:
    send = newest(history, deleted=True)
    for log in logs(history, COMPACTED):
        log.records = [record for record in log.records if record[0] != send.offset]


def remove_a_tombstone_under_a_reader(history: History) -> None:
    """By the end it may be gone, with all that came before it; this reader was on its way."""
    send = newest(history, deleted=True)
    sweep = every(history, Poll, lambda poll: poll.topic == COMPACTED)
    if sweep[-1].next_position <= (send.offset or 0):
        raise Absent
    for poll in sweep:
        poll.records = [record for record in poll.records if record[0] != send.offset]
    for log in logs(history, COMPACTED):
        log.records = [record for record in log.records if record[1] != send.key]


PLANTED: list[tuple[Callable[[History], None], set[str]]] = [
    (lose_a_write, {"lost-write"}),
    (move_a_write, {"inconsistent-offsets"}),
    (show_two_values_at_one_offset, {"inconsistent-offsets"}),
    (write_twice, {"duplicate"}),
    (read_what_was_refused, {"refused-read"}),
    (read_what_was_never_sent, {"unsent-read"}),
    (swap_two_writes, {"producer-order"}),
    (poll_backwards, {"int-nonmonotonic-poll"}),
    (poll_again_what_was_polled, {"nonmonotonic-poll"}),
    (skip_within_a_poll, {"poll-skip"}),
    (skip_the_first_of_a_poll, {"poll-skip"}),
    (skip_between_polls, {"poll-gap"}),
    (show_what_goes_away, {"vanished-read"}),
    (show_an_aborted_record, {"G1a"}),
    (show_a_record_before_its_commit, {"precommitted-read"}),
    (lose_half_of_a_commit, {"lost-transaction"}),
    (tear_a_transaction, {"torn-transaction"}),
    (leave_a_transaction_open, {"hanging-transaction"}),
    (copy_twice, {"copied-twice"}),
    (lose_a_copy, {"not-copied"}),
    (share_a_partition, {"shared-ownership"}),
    (commit_when_another_has_it, {"fenced-commit"}),
    (commit_less_than_before, {"offset-back"}),
    (forget_a_committed_offset, {"offset-lost"}),
    (commit_the_offset_of_an_abort, {"offset-from-nowhere"}),
    (commit_beyond_the_end, {"offset-beyond"}),
    (compact_a_newest_value_away, {"lost-key"}),
    (let_a_key_rise_from_the_dead, {"undeleted-key"}),
    (remove_a_tombstone_under_a_reader, {"early-tombstone"}),
]


@given(seed=st.integers(0, 2**32))
def test_a_history_of_a_cluster_that_does_everything_right_has_no_anomaly(seed: int) -> None:
    assert check(make_history(seed)) == []


@pytest.mark.parametrize(("plant", "kinds"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_an_anomaly_is_found_in_every_history_that_has_it(
    plant: Callable[[History], None], kinds: set[str]
) -> None:
    planted = 0
    for seed in range(100):
        history = make_history(seed)
        try:
            plant(history)
        except Absent:
            continue
        planted += 1
        found = {anomaly.kind for anomaly in check(history)}
        assert kinds <= found, f"seed {seed}: {found}"
    assert planted > 10


def test_every_checker_has_found_something() -> None:
    """A checker that no planted anomaly needs is one that might as well be away."""
    kinds = {kind for _, planted in PLANTED for kind in planted}
    assert len(kinds) >= len(CHECKERS)


@given(seed=st.integers(0, 2**32))
def test_a_history_survives_its_lines(seed: int) -> None:
    history = make_history(seed)
    assert list(from_lines(to_lines(history))) == history.operations


@pytest.mark.parametrize("line", ["[]", "{}", '{"kind":"what"}', '{"kind":"poll","outcome":"ok"}'])
def test_a_line_that_is_no_operation_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        list(from_lines([line]))


def test_what_an_unclean_election_may_lose_is_no_anomaly_and_what_nobody_sent_is_one() -> None:
    clock = iter(range(1_000))
    history = History(lambda: float(next(clock)))
    history.add(UseTopic(process="admin", topic="t"))
    sent = history.begin(Send(process="p", topic="t", partition=0, value="a", offset=0))
    history.end(sent)
    read = ReadAll(
        process="r",
        topic="t",
        partition=0,
        isolation=Isolation.UNCOMMITTED,
        log_start=0,
        log_end=1,
        records=[(0, None, "b")],
    )
    history.add(read)
    kinds = {anomaly.kind for anomaly in check(history)}
    assert kinds == {"lost-write", "unsent-read"}
    history.add(UseTopic(process="admin", topic="t", policy=Policy.LOSE))
    assert {anomaly.kind for anomaly in check(history)} == {"unsent-read"}
