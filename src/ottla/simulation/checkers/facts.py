"""A history as the checkers read it: sorted by what it is about, in one pass.

A transaction is *committed* when its commit was acknowledged, *open* when its commit was asked for
and the answer is unknown, else *aborted*: nobody has asked for its commit, or was refused for sure.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import NamedTuple

from ottla.simulation.history import (
    Assign,
    ChangeAcl,
    ChangeToken,
    CommitOffset,
    Copy,
    EndTransaction,
    FetchOffset,
    Isolation,
    ListAcls,
    Operation,
    Outcome,
    Policy,
    Poll,
    Read,
    ReadAll,
    SeeTokens,
    Send,
    TryAccess,
    UseTopic,
)


class Anomaly(NamedTuple):
    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


class Place(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Verdict(Enum):
    COMMITTED = auto()
    OPEN = auto()
    ABORTED = auto()


class Facts:
    def __init__(self, history: Iterable[Operation]) -> None:
        self.topics: dict[str, UseTopic] = {}
        self.sends: list[Send] = []
        self.by_value: dict[str, Send] = {}
        self.polls: list[Poll] = []
        self.logs: dict[tuple[Place, Isolation], ReadAll] = {}
        self.ends: dict[str, EndTransaction] = {}
        """The commit of a transaction, if one was asked for; else its abort."""
        self.assigns: list[Assign] = []
        self.commits: list[CommitOffset] = []
        self.fetches: list[FetchOffset] = []
        self.copies: list[Copy] = []
        self.token_changes: list[ChangeToken] = []
        self.tokens_seen: list[SeeTokens] = []
        self.acl_changes: list[ChangeAcl] = []
        self.acl_lists: list[ListAcls] = []
        self.accesses: list[TryAccess] = []
        """Those that were answered."""
        self.lossy_reads: list[tuple[Place, Read]] = []
        """Of topics with unclean elections, of which nothing more is promised."""
        operations = list(history)
        self._lossy = {
            each.topic
            for each in operations
            if isinstance(each, UseTopic) and each.policy is Policy.LOSE
        }
        for operation in operations:
            if self._lossy and getattr(operation, "topic", None) in self._lossy:
                self._sort_lossy(operation)
            elif isinstance(operation, ChangeToken):
                self.token_changes.append(operation)
            elif isinstance(operation, SeeTokens):
                self.tokens_seen += [operation] if operation.is_ok else []
            elif isinstance(operation, ChangeAcl | ListAcls | TryAccess):
                self._sort_access(operation)
            else:
                self._sort(operation)

    def _sort_lossy(self, operation: Operation) -> None:
        if isinstance(operation, Send) and operation.value is not None:
            self.by_value[operation.value] = operation
        elif isinstance(operation, Poll | ReadAll):
            place = Place(operation.topic, operation.partition)
            self.lossy_reads += [(place, record) for record in operation.records]

    def _sort(self, operation: Operation) -> None:
        match operation:
            case UseTopic():
                self.topics[operation.topic] = operation
            case Send():
                self.sends.append(operation)
                if operation.value is not None:
                    assert operation.value not in self.by_value, "values are unique"
                    self.by_value[operation.value] = operation
            case Poll():
                if operation.is_ok:
                    self.polls.append(operation)
            case ReadAll():
                if operation.is_ok:
                    place = Place(operation.topic, operation.partition)
                    self.logs[place, operation.isolation] = operation
            case EndTransaction():
                if operation.commit or operation.transaction not in self.ends:
                    self.ends[operation.transaction] = operation
            case Assign():
                self.assigns.append(operation)
            case CommitOffset():
                self.commits.append(operation)
            case FetchOffset():
                if operation.is_ok:
                    self.fetches.append(operation)
            case Copy():
                self.copies.append(operation)
            case _:
                raise AssertionError(f"no checker knows {operation}")

    def _sort_access(self, operation: ChangeAcl | ListAcls | TryAccess) -> None:
        if isinstance(operation, ChangeAcl):
            self.acl_changes.append(operation)
        elif operation.end >= 0:
            if isinstance(operation, ListAcls):
                self.acl_lists.append(operation)
            else:
                self.accesses.append(operation)

    def policy(self, topic: str) -> Policy:
        used = self.topics.get(topic)
        return Policy.KEEP if used is None else used.policy

    def verdict(self, transaction: str) -> Verdict:
        end = self.ends.get(transaction)
        if end is None or not end.commit or end.outcome is Outcome.FAILED:
            return Verdict.ABORTED
        return Verdict.COMMITTED if end.is_ok else Verdict.OPEN

    def log(self, place: Place) -> ReadAll | None:
        """Everything that stands in a partition at the end."""
        return self.logs.get((place, Isolation.UNCOMMITTED))
