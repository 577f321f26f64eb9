"""Produce to a topic that is flushed often, while leaders change and flushes end late.

Broker 1 is real, from the handler to the log. Broker 7 is a model: what it has of each partition,
and what it writes when it leads. All elections are clean. Whatever the order of things, what a
producer with acks=all is told to be there is in both logs, at the offset that it was told, and
broker 1 takes nothing for committed that is not in both.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.handlers.broker import Broker, Peer, registered
from tests.replication.alone import AloneBrokers
from tests.replication.states import lead
from tests.turns import TURN

from ottla.common.promise import Promise
from ottla.handlers import produce
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.storage.log import Log

OTHER = 7
PARTITIONS = st.sampled_from([0, 1])
NOW_MS = 1_700_000_000_000
TIMEOUT_MS = 1_000


class Sent:
    """A request with one record for each of some partitions, and what became of it."""

    def __init__(self, broker: Broker, values: dict[int, bytes], acks: int) -> None:
        self.values = values
        self.acks = acks
        data = [
            PartitionProduceData(index=index, records=batch(value, 0, 0))
            for index, value in values.items()
        ]
        topic_id = broker.metadata.image.topics.by_name["t"].topic_id
        topics = [TopicProduceData(topic_id=topic_id, partition_data=data)]
        request = ProduceRequest(acks=acks, timeout_ms=TIMEOUT_MS, topic_data=topics)
        frame = memoryview(bytearray(to_bytes(request, 13)))
        self.answer = produce.answer(frame, 0, 13, 77, broker.services, Peer())

    def outcomes(self) -> list[tuple[int, int, int]] | None:
        """Partition, error and offset of each; None while it waits."""
        answer = self.answer
        if isinstance(answer, Promise):
            if not answer.done:
                return None
            answer = answer.result()
        assert isinstance(answer, bytes)
        response = from_bytes(ProduceResponse, answer[9:], 13).responses[0]
        return [
            (one.index, one.error_code, one.base_offset) for one in response.partition_responses
        ]


def batch(value: bytes, offset: int, epoch: int) -> bytes:
    data = build_batch([Record(timestamp=NOW_MS, value=value)], base_offset=offset)
    return bytes(data[:12]) + epoch.to_bytes(4, "big") + bytes(data[16:])


def values_of(log: Log) -> list[bytes]:
    if not log.log_end_offset:
        return []
    data = log.read_bytes(0, 1 << 20)
    found: list[bytes] = []
    position = 0
    while position < len(data):
        found += [bytes(record.value or b"") for record in iterate(data, position)]
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
    return found


def common(one: list[bytes], other: list[bytes]) -> int:
    """How many they have in common from the start."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


class FlushedProduce(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        broker = self.broker = Broker({"log.flush.interval.messages": "2"})
        broker.set_image(brokers={1: registered(1), OTHER: registered(OTHER)})
        broker.replicas.outside.brokers = AloneBrokers(broker.metadata.image.brokers.get)
        broker.add_topic("t", 2, replicas=(1, OTHER))
        self.flushes: list[tuple[Log, Promise[None]]] = []
        broker.replicas.outside.flush = self._flush
        self.others: dict[int, list[bytes]] = {0: [], 1: []}
        self.committed: dict[int, list[bytes]] = {0: [], 1: []}
        self.epoch = 10
        self.count = 0
        self.waiting: list[Sent] = []

    def _flush(self, log: Log) -> Promise[None]:
        asked: Promise[None] = Promise(TURN)
        self.flushes.append((log, asked))
        return asked

    def _value(self) -> bytes:
        self.count += 1
        return b"%d" % self.count

    def _leads(self, index: int) -> bool:
        return self.broker.partition("t", index).is_leader

    # Producers, followers, the disk

    @rule(indexes=st.sampled_from([(0,), (1,), (0, 1)]), acks=st.sampled_from([-1, -1, 1]))
    def send(self, indexes: tuple[int, ...], acks: int) -> None:
        values = {index: self._value() for index in indexes}
        self.waiting.append(Sent(self.broker, values, acks))

    @precondition(lambda self: self.flushes)
    @rule(number=st.integers(0, 5))
    def a_flush_ends(self, number: int) -> None:
        log, asked = self.flushes.pop(number % len(self.flushes))
        log.flush(NOW_MS)
        asked.fulfil(None)

    @rule(index=PARTITIONS, takes=st.integers(0, 3))
    def the_follower_fetches(self, index: int, takes: int) -> None:
        """Whichever it is."""
        partition = self.broker.partition("t", index)
        other, own = self.others[index], values_of(partition.log)
        if partition.is_leader:
            del other[common(own, other) :]
            partition.fetch_as_follower(
                OTHER,
                registered(OTHER).epoch,
                len(other),
                1 << 20,
                partition.leader_epoch,
                at_least_one=True,
                log_start_offset=0,
            )
            other += own[len(other) : len(other) + takes]
            return
        partition.truncate_to(common(own, other), NOW_MS)
        start = partition.log.log_end_offset
        committed = self.committed[index]
        committed += other[len(committed) : start]
        data = b"".join(
            batch(value, start + at, partition.leader_epoch)
            for at, value in enumerate(other[start : start + takes])
        )
        partition.append_as_follower(data, len(committed), 0, NOW_MS)

    @rule(index=PARTITIONS)
    def the_other_writes(self, index: int) -> None:
        if not self._leads(index):
            self.others[index].append(self._value())

    # The controller

    @rule(index=PARTITIONS, leader=st.sampled_from([1, OTHER]))
    def elect(self, index: int, leader: int) -> None:
        """Perhaps the one that leads already."""
        self.epoch += 1
        lead(self.broker.partition("t", index), leader, self.epoch, (1, OTHER))

    @rule(seconds=st.sampled_from([0.0, 0.6, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.broker.scheduler.run_for(seconds)

    # What always holds

    @invariant()
    def nothing_is_told_that_is_not_so(self) -> None:
        self._what_is_committed_is_in_both_logs()
        self._what_is_acknowledged_is_committed()

    def _what_is_committed_is_in_both_logs(self) -> None:
        for index in (0, 1):
            log = self.broker.log_of("t", index)
            own, other = values_of(log), self.others[index]
            committed = self.committed[index]
            if self._leads(index) and log.high_watermark > len(committed):
                committed += own[len(committed) : log.high_watermark]
            assert log.high_watermark <= len(committed), "a follower knows more than its leader"
            assert own[: len(committed)] == committed or not self._leads(index)
            assert other[: len(committed)] == committed

    def _what_is_acknowledged_is_committed(self) -> None:
        for sent in list(self.waiting):
            outcomes = sent.outcomes()
            if outcomes is None:
                continue
            self.waiting.remove(sent)
            for index, code, offset in outcomes:
                if code == 0 and sent.acks == -1:
                    assert self.committed[index][offset : offset + 1] == [sent.values[index]]
                    assert offset < self.broker.log_of("t", index).due_offset, "it is not on disk"

    def teardown(self) -> None:
        """All that wait are answered in time, though no flush ever ends."""
        self.broker.scheduler.run_for(60)
        assert [sent for sent in self.waiting if sent.outcomes() is None] == []


TestFlushedProduce = FlushedProduce.TestCase
TestFlushedProduce.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
