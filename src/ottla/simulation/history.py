"""What clients did and saw: operations with a begin, an end and an outcome, for the checkers.

Nothing here knows the simulator: workloads of simulated hosts and real clients in real processes
write the same history, as objects in memory or as lines of JSON. The times of one history come from
one clock. An outcome is ``FAILED`` only when the operation has certainly had no effect and never
will; whatever ended without an answer is ``UNKNOWN``: it may have happened, or happen yet.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Final, TypeVar

LINE_CHARACTERS_MAX: Final = 64 << 20
"""Of one operation; a final read of a partition is the longest."""


class Outcome(StrEnum):
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Isolation(StrEnum):
    COMMITTED = "read_committed"
    UNCOMMITTED = "read_uncommitted"


class Policy(StrEnum):
    """What may happen to the records of a topic."""

    KEEP = "keep"
    EXPIRE = "expire"
    """Retention and DeleteRecords move the log start offset."""
    COMPACT = "compact"
    LOSE = "lose"
    """A leader was elected uncleanly: anything may be gone, or stand elsewhere."""


Read = tuple[int, str | None, str | None]
"""A record as a consumer saw it: offset, key, value."""


@dataclass(slots=True, kw_only=True)
class Operation:
    """``process`` is the one that did it: one thing at a time, but for sends."""

    KIND: ClassVar[str] = ""
    process: str
    begin: float = -1.0
    end: float = -1.0
    """Negative while it goes on."""
    outcome: Outcome = Outcome.UNKNOWN

    @property
    def is_ok(self) -> bool:
        return self.outcome is Outcome.OK


@dataclass(slots=True, kw_only=True)
class UseTopic(Operation):
    """A topic that others write and read, and what is promised about its records."""

    KIND: ClassVar[str] = "topic"
    topic: str
    policy: Policy = Policy.KEEP
    delete_retention_seconds: float = 0.0
    """How long a tombstone stays; only of a compacted topic."""


@dataclass(slots=True, kw_only=True)
class Send(Operation):
    """One record. Values other than None are unique in a history; None is a tombstone."""

    KIND: ClassVar[str] = "send"
    topic: str
    partition: int
    key: str | None = None
    value: str | None
    producer: str = ""
    """One producer id, from which the broker keeps order; empty for one without idempotence."""
    sequence: int = -1
    """The how many-th send of this producer to this partition."""
    transaction: str | None = None
    offset: int | None = None
    """As the broker said, if it did."""


@dataclass(slots=True, kw_only=True)
class EndTransaction(Operation):
    KIND: ClassVar[str] = "end"
    transaction: str
    commit: bool


@dataclass(slots=True, kw_only=True)
class Poll(Operation):
    """What one partition gave, from ``position`` up to, not including, ``next_position``."""

    KIND: ClassVar[str] = "poll"
    topic: str
    partition: int
    isolation: Isolation
    position: int
    next_position: int
    records: list[Read] = field(default_factory=list)
    is_fresh: bool = False
    """The position was set anew, by a seek or by an assignment."""


@dataclass(slots=True, kw_only=True)
class ReadAll(Operation):
    """A partition from its start to its end, when all was quiet again."""

    KIND: ClassVar[str] = "all"
    topic: str
    partition: int
    isolation: Isolation
    log_start: int
    log_end: int
    records: list[Read] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Assign(Operation):
    """A member was told what it has; ``epoch`` is the generation, or the epoch of the member."""

    KIND: ClassVar[str] = "assign"
    group: str
    member: str
    epoch: int
    partitions: list[tuple[str, int]]


@dataclass(slots=True, kw_only=True)
class CommitOffset(Operation):
    KIND: ClassVar[str] = "commit offset"
    group: str
    member: str
    epoch: int
    topic: str
    partition: int
    offset: int
    transaction: str | None = None


@dataclass(slots=True, kw_only=True)
class FetchOffset(Operation):
    """The committed offset as the coordinator tells it; -1 when there is none."""

    KIND: ClassVar[str] = "fetch offset"
    group: str
    topic: str
    partition: int
    offset: int = -1
    is_final: bool = False
    """Asked when all was quiet again, of the coordinator that is the only one."""


@dataclass(slots=True, kw_only=True)
class Copy(Operation):
    """A transaction that consumes, transforms and produces: what it made of what."""

    KIND: ClassVar[str] = "copy"
    group: str
    source: str
    partition: int
    offset: int
    value: str
    """As it was sent; ``transaction`` has the send and the committed offset."""
    transaction: str


@dataclass(slots=True, kw_only=True)
class ChangeToken(Operation):
    """A delegation token is made, renewed or removed; each process has its own."""

    KIND: ClassVar[str] = "token"
    change: str
    token_id: str = ""
    """Empty when nobody has told."""
    expires_ms: int = -1
    """As the controller said, if it did."""


@dataclass(slots=True, kw_only=True)
class SeeTokens(Operation):
    """All delegation tokens and when they expire, asked of a broker when all was quiet again."""

    KIND: ClassVar[str] = "tokens"
    tokens: list[tuple[str, int]] = field(default_factory=list)
    wall_ms: int = 0
    clocks_were_right: bool = True
    """Whether no node has had another day than the others."""


@dataclass(slots=True, kw_only=True)
class ChangeAcl(Operation):
    """An ACL is made or removed; ``acl`` names it, and equal names are one ACL."""

    KIND: ClassVar[str] = "change acl"
    acl: str
    user: str
    operation: str
    is_allowed: bool
    """Whether it allows; else it denies."""
    is_added: bool
    known: float = -1.0
    """From when on all brokers know of it; negative while they do not."""


@dataclass(slots=True, kw_only=True)
class ListAcls(Operation):
    """What one broker tells of ACLs."""

    KIND: ClassVar[str] = "list acls"
    broker: int
    acls: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TryAccess(Operation):
    """A user reads or writes a topic: *ok* when it was allowed, *failed* when it was refused."""

    KIND: ClassVar[str] = "access"
    user: str
    operation: str
    topic: str
    value: str = ""
    """Of the record that is written."""


KINDS: Final[dict[str, type[Operation]]] = {
    each.KIND: each
    for each in (
        UseTopic,
        Send,
        EndTransaction,
        Poll,
        ReadAll,
        Assign,
        CommitOffset,
        FetchOffset,
        Copy,
        ChangeToken,
        SeeTokens,
        ChangeAcl,
        ListAcls,
        TryAccess,
    )
}

O = TypeVar("O", bound=Operation)  # noqa: E741 - an operation


class History:
    """Operations in the order of their begins."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.operations: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.operations)

    def __len__(self) -> int:
        return len(self.operations)

    def begin(self, operation: O) -> O:
        operation.begin = self._clock()
        self.operations.append(operation)
        return operation

    def end(self, operation: Operation, outcome: Outcome = Outcome.OK) -> None:
        """Without this an operation that was begun has no end, and an unknown outcome."""
        assert operation.end < 0, "it has ended"
        operation.end = self._clock()
        operation.outcome = outcome

    def add(self, operation: O) -> O:
        """Add what took no time."""
        self.begin(operation)
        self.end(operation)
        return operation


def to_lines(operations: Iterable[Operation]) -> Iterator[str]:
    """Each operation as one line of JSON."""
    for operation in operations:
        yield json.dumps({"kind": operation.KIND, **asdict(operation)}, separators=(",", ":"))


def from_lines(lines: Iterable[str]) -> Iterator[Operation]:
    """The operations that :func:`to_lines` wrote; ValueError when they are none."""
    for line in lines:
        if len(line) > LINE_CHARACTERS_MAX:
            raise ValueError("a line that is too long for an operation")
        fields = json.loads(line)
        if not isinstance(fields, dict) or fields.get("kind") not in KINDS:
            raise ValueError(f"not an operation: {line[:100]}")
        yield _operation(KINDS[fields.pop("kind")], fields)


def _operation(kind: type[Operation], fields: dict[str, Any]) -> Operation:
    fields["outcome"] = Outcome(fields["outcome"])
    for name, values in (("isolation", Isolation), ("policy", Policy)):
        if name in fields:
            fields[name] = values(fields[name])
    for name in ("records", "partitions", "tokens"):
        if name in fields:
            fields[name] = [tuple(each) for each in fields[name]]
    try:
        return kind(**fields)
    except TypeError as error:
        raise ValueError(f"not an operation of kind {kind.KIND}: {error}") from error
