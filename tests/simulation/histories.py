"""Histories of a cluster that does everything right, made from a seed without any cluster."""

from ottla.common.chance import Chance
from ottla.simulation.history import (
    Assign,
    CommitOffset,
    Copy,
    EndTransaction,
    FetchOffset,
    History,
    Isolation,
    Outcome,
    Policy,
    Poll,
    Read,
    ReadAll,
    Send,
    UseTopic,
)

TOPIC = "t"
COPIES = "copies"
COMPACTED = "c"


class Ideal:
    """One partition of each topic, whose log is a list; every act takes one second."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.now = 0.0
        self.history = History(self._tick)
        self.logs: dict[str, list[Read]] = {TOPIC: [], COPIES: [], COMPACTED: []}
        self.ends: dict[str, int] = dict.fromkeys(self.logs, 0)
        self.hidden: set[str] = set()
        """Values of transactions that are not committed."""
        self.sequences: dict[tuple[str, str], int] = {}
        self.offset = -1
        self.copied_up_to = -2
        self.numbers = 0
        for topic in self.logs:
            policy = Policy.COMPACT if topic == COMPACTED else Policy.KEEP
            self.history.add(
                UseTopic(process="admin", topic=topic, policy=policy, delete_retention_seconds=1e6)
            )

    def _tick(self) -> float:
        self.now += 1.0
        return self.now

    def send(self, topic: str, producer: str, transaction: str | None = None) -> Send:
        self.numbers += 1
        sequence = self.sequences[producer, topic] = self.sequences.get((producer, topic), -1) + 1
        key = f"k{self.chance.below(4)}" if topic == COMPACTED else None
        value = None if topic == COMPACTED and self.chance.below(3) == 0 else f"v{self.numbers}"
        operation = self.history.begin(
            Send(
                process=producer,
                topic=topic,
                partition=0,
                key=key,
                value=value,
                producer=producer,
                sequence=sequence,
                transaction=transaction,
            )
        )
        fate = self.chance.below(10)
        if fate > 0:  # else it never arrived
            operation.offset = self.ends[topic]
            self.logs[topic].append((operation.offset, key, value))
            self.ends[topic] += 1
            if transaction is not None and value is not None:
                self.hidden.add(value)
        if fate > 1:
            self.history.end(operation)
        else:
            operation.offset = None
        return operation

    def transaction(self) -> None:
        name = f"tx{self.numbers}"
        values = [self.send(TOPIC, "transactional", name).value for _ in range(3)]
        commit = self.chance.below(3) > 0
        end = self.history.begin(
            EndTransaction(process="transactional", transaction=name, commit=commit)
        )
        if commit:
            self.hidden -= {value for value in values if value is not None}
        self.ends[TOPIC] += 1  # the marker
        if self.chance.below(5) > 0:
            self.history.end(end)

    def copy(self) -> None:
        """Consume, transform and produce: one record of TOPIC in a transaction of its own."""
        log = [record for record in self.visible(TOPIC) if record[0] > self.copied_up_to]
        if not log:
            return
        offset, _, value = log[0]
        name = f"copy-{value}"
        self.history.add(
            Copy(
                process="copier",
                group="copiers",
                source=TOPIC,
                partition=0,
                offset=offset,
                value=f"{value}'",
                transaction=name,
            )
        )
        sent = self.history.begin(
            Send(
                process="copier",
                topic=COPIES,
                partition=0,
                value=f"{value}'",
                producer="copier",
                sequence=offset,
                transaction=name,
                offset=self.ends[COPIES],
            )
        )
        self.logs[COPIES].append((self.ends[COPIES], None, f"{value}'"))
        self.ends[COPIES] += 2
        self.history.end(sent)
        self.commit_offset("copiers", "copier", 1, offset + 1, name)
        self.history.add(EndTransaction(process="copier", transaction=name, commit=True))
        self.copied_up_to = offset

    def commit_offset(
        self, group: str, member: str, epoch: int, offset: int, transaction: str | None = None
    ) -> CommitOffset:
        return self.history.add(
            CommitOffset(
                process=member,
                group=group,
                member=member,
                epoch=epoch,
                topic=TOPIC,
                partition=0,
                offset=offset,
                transaction=transaction,
            )
        )

    def visible(self, topic: str) -> list[Read]:
        return [record for record in self.logs[topic] if record[2] not in self.hidden]

    def poll(self, topic: str, process: str, position: int) -> int:
        operation = self.history.begin(
            Poll(
                process=process,
                topic=topic,
                partition=0,
                isolation=Isolation.UNCOMMITTED,
                position=position,
                next_position=position,
                is_fresh=position == 0,
            )
        )
        records = [record for record in self.logs[topic] if record[0] >= position]
        operation.records = records[: self.chance.below(5) + 1]
        if operation.records:
            operation.next_position = operation.records[-1][0] + 1
        self.history.end(operation)
        return operation.next_position

    def finish(self) -> History:
        for topic, log in self.logs.items():
            for isolation in Isolation:
                operation = ReadAll(
                    process="final",
                    topic=topic,
                    partition=0,
                    isolation=isolation,
                    log_start=0,
                    log_end=self.ends[topic],
                    records=self.visible(topic) if isolation is Isolation.COMMITTED else list(log),
                )
                self.history.add(operation)
        for group, offset in (("copiers", self.copied_up_to + 1), ("readers", self.offset)):
            self.history.add(
                FetchOffset(
                    process="final",
                    group=group,
                    topic=TOPIC,
                    partition=0,
                    offset=offset,
                    is_final=True,
                )
            )
        return self.history


def make_history(seed: int) -> History:
    """About a hundred operations of every kind."""
    ideal = Ideal(seed)
    position = 0
    epoch = 1
    for member in ("a", "b"):
        place = (TOPIC, 0) if member == "a" else (TOPIC, 1)
        ideal.history.add(
            Assign(process=member, group="readers", member=member, epoch=1, partitions=[place])
        )
    for _ in range(40):
        match ideal.chance.below(6):
            case 0 | 1:
                ideal.send(ideal.chance.choose((TOPIC, COMPACTED)), "idempotent")
            case 2:
                ideal.transaction()
            case 3:
                ideal.copy()
            case 4:
                position = ideal.poll(TOPIC, "reader", position)
                ideal.commit_offset("readers", "ab"[(epoch - 1) % 2], epoch, position)
                ideal.offset = position
            case _:
                epoch += 1
                member = "ab"[(epoch - 1) % 2]
                ideal.history.add(
                    Assign(
                        process=member,
                        group="readers",
                        member=member,
                        epoch=epoch,
                        partitions=[(TOPIC, 0)],
                    )
                )
    sweep = 0
    for _ in range(10):
        sweep = ideal.poll(COMPACTED, "sweeper", sweep)
    refused = ideal.history.begin(
        Send(process="p", topic=TOPIC, partition=0, value="refused", producer="p", sequence=0)
    )
    ideal.history.end(refused, Outcome.FAILED)
    return ideal.finish()
