"""The checkers of ACLs: histories that are right, and the same with one thing wrong in them."""

import pytest

from ottla.simulation.checkers.suite import check
from ottla.simulation.history import (
    ChangeAcl,
    Isolation,
    ListAcls,
    Operation,
    Outcome,
    Read,
    ReadAll,
    Send,
    TryAccess,
    from_lines,
    to_lines,
)

ACL = "alice may read guarded"
DENY = "alice may not read guarded"


def change(
    begin: float, known: float, *, is_added: bool, is_allowed: bool = True, is_answered: bool = True
) -> ChangeAcl:
    return ChangeAcl(
        process="admin",
        begin=begin,
        end=begin + 1 if is_answered else -1.0,
        outcome=Outcome.OK if is_answered else Outcome.UNKNOWN,
        acl=ACL if is_allowed else DENY,
        user="alice",
        operation="read",
        is_allowed=is_allowed,
        is_added=is_added,
        known=known,
    )


def listed(begin: float, *acls: str) -> ListAcls:
    return ListAcls(
        process="lister", begin=begin, end=begin + 1, outcome=Outcome.OK, broker=1, acls=list(acls)
    )


def tried(begin: float, *, is_ok: bool) -> TryAccess:
    outcome = Outcome.OK if is_ok else Outcome.FAILED
    return TryAccess(
        process="alice",
        begin=begin,
        end=begin + 1,
        outcome=outcome,
        user="alice",
        operation="read",
        topic="guarded",
    )


COMES = change(10, 12, is_added=True)
GOES = change(20, 22, is_added=False)


def kinds(*operations: Operation) -> set[str]:
    kept = list(from_lines(to_lines(operations)))
    return {anomaly.kind for anomaly in check(kept)}


@pytest.mark.parametrize(
    "operations",
    [
        (COMES, GOES, tried(13, is_ok=True), listed(13, ACL)),
        (COMES, GOES, tried(23, is_ok=False), listed(23)),
        # While it is not known everywhere each broker may say either.
        (COMES, GOES, tried(10.5, is_ok=True), tried(10.5, is_ok=False), listed(10.5)),
        (COMES, GOES, tried(20.5, is_ok=True), tried(20.5, is_ok=False), listed(20.5, ACL)),
        # What had no answer may be carried out at any time, or never.
        (change(10, -1, is_added=True, is_answered=False), tried(90, is_ok=True), listed(90)),
        (COMES, change(20, -1, is_added=False, is_answered=False), listed(90, ACL), listed(91)),
    ],
)
def test_what_may_be_is_no_anomaly(operations: tuple[Operation, ...]) -> None:
    assert kinds(*operations) == set()


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        ((COMES, GOES, listed(13)), "lost-acl"),
        ((COMES, GOES, listed(23, ACL)), "resurrected-acl"),
        ((listed(1, ACL),), "resurrected-acl"),
        ((COMES, GOES, tried(23, is_ok=True)), "unauthorized-access"),
        ((COMES, change(11, 13, is_added=True, is_allowed=False), tried(14, is_ok=True)),
         "unauthorized-access"),
        ((COMES, GOES, tried(13, is_ok=False)), "refused-access"),
    ],
)  # fmt: skip
def test_what_must_not_be_is_found(operations: tuple[Operation, ...], kind: str) -> None:
    assert kinds(*operations) == {kind}


@pytest.mark.parametrize("records", [[], [(0, None, "alice/1")]])
def test_a_write_that_was_refused_leaves_nothing(records: list[Read]) -> None:
    send = Send(
        process="alice", begin=1, end=2, outcome=Outcome.FAILED,
        topic="guarded", partition=0, value="alice/1",
    )  # fmt: skip
    attempt = tried(1, is_ok=False)
    attempt.operation, attempt.value = "write", "alice/1"
    read = ReadAll(
        process="end", begin=30, end=31, outcome=Outcome.OK, topic="guarded", partition=0,
        isolation=Isolation.UNCOMMITTED, log_start=0, log_end=len(records), records=records,
    )  # fmt: skip
    assert ("refused-write" in kinds(send, attempt, read)) == bool(records)
