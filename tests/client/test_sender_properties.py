"""Whatever the network does: nothing is written twice, and what is told to be written is there."""

from collections.abc import Iterable
from contextlib import suppress
from itertools import chain

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.client.model_leader import Fate, ModelLeader, MovedClock, Network, Outcome

from ottla.client.cluster import Timing
from ottla.client.errors import BrokerUnavailable
from ottla.client.producer import Producer
from ottla.client.sender import Delivered
from ottla.common.errors import ApiError
from ottla.common.promise import Promise

PARTITIONS = 3
DELIVERY_MS = 100
TIMING = Timing(
    connect_timeout_ms=1000,
    request_timeout_ms=1000,
    call_timeout_ms=1000,
    back_off_ms=10,
    back_off_max_ms=40,
)
FLUSH = -1

outcomes = st.lists(st.sampled_from(Outcome), min_size=1, max_size=PARTITIONS).map(tuple)
milliseconds = st.sampled_from([0, 10, 60, 120])
fates = st.lists(
    st.builds(Fate, st.sampled_from(Network), outcomes, milliseconds), min_size=1, max_size=10
)
steps = st.lists(
    st.tuples(st.integers(FLUSH, PARTITIONS - 1), milliseconds), min_size=4, max_size=20
)
"""To which partition a record goes, or that all are flushed; and what time passes after that."""


class Run:
    """A producer does its steps, then all is well and it ends."""

    def __init__(self, fates: list[Fate]) -> None:
        self.clock = MovedClock()
        self.leader = ModelLeader(PARTITIONS, iter(fates), self.clock)
        self.sent: list[tuple[int, bytes, Promise[Delivered]]] = []

    def go(self, steps: list[tuple[int, int]], away: Iterable[bool] = ()) -> None:
        self.leader.metadata_is_away = chain([False], away)
        with self.leader.broker as broker:
            producer = Producer(
                broker.address,
                timing=TIMING,
                clock=self.clock,
                delivery_timeout_ms=DELIVERY_MS,
                batch_bytes=80,
            )
            for partition, passed in steps:
                if partition == FLUSH:
                    self._flush(producer)
                else:
                    self._send(producer, partition)
                self.clock.now += passed / 1000
            self._flush(producer)
            self._flush(producer)
            producer.close()

    def _send(self, producer: Producer, partition: int) -> None:
        value = b"%d" % len(self.sent)
        with suppress(BrokerUnavailable):  # nobody says which partitions there are
            promise = producer.send("t", value, partition=partition)
            self.sent.append((partition, value, promise))

    def _flush(self, producer: Producer) -> None:
        with suppress(ApiError, BrokerUnavailable):
            producer.flush()

    def check(self) -> None:
        for partition, log in enumerate(self.leader.logs):
            assert len(set(log.values)) == len(log.values), "written twice"
            assert log.values == sorted(log.values, key=int), "behind what was sent after it"
            delivered = []
            for at, value, promise in self.sent:
                assert promise.done
                if at != partition:
                    continue
                with suppress(ApiError):
                    offset = promise.result().offset
                    delivered.append(value)
                    assert offset < 0 or log.values[offset] == value, "told to be elsewhere"
            told = set(delivered)
            assert [each for each in log.values if each in told] == delivered, "lost"


@settings(max_examples=150, deadline=None)
@given(fates, steps, st.lists(st.booleans(), max_size=25))
@example(
    # The answer to both is lost; then the time of one is over, and the other is sent again.
    [Fate(Network.ANSWER_LOST, milliseconds=60)],
    [(0, 60), (1, 0), (FLUSH, 0)],
    [],
)
@example(
    # A batch that was written is refused when it comes again: the next one is not that one.
    [Fate(Network.ANSWER_LOST), Fate(outcomes=(Outcome.REFUSED,))],
    [(0, 0), (FLUSH, 0), (0, 0)],
    [],
)
@example([Fate(outcomes=(Outcome.WRITTEN_AND_BROKEN,))], [(0, 0), (FLUSH, 0), (0, 0)], [])
@example(
    # One partition makes the producer take another id; a batch of the other was written by then.
    [Fate(Network.ANSWER_LOST), Fate(outcomes=(Outcome.NO_SUCH_ID, Outcome.NOT_LEADER))],
    [(0, 0), (0, 0), (1, 0), (FLUSH, 0)],
    [],
)
@example(
    # The time of one batch is over; for the other nobody is there to tell who leads.
    [Fate(Network.REQUEST_LOST)],
    [(0, 50), (1, 0), (FLUSH, 0), (FLUSH, 0), (FLUSH, 0)],
    [True] * 20,
)
def test_nothing_is_written_twice_or_told_in_vain(
    fates: list[Fate], steps: list[tuple[int, int]], away: list[bool]
) -> None:
    """``away``: at which questions for metadata nobody is there."""
    run = Run(fates)
    run.go(steps, away)
    run.check()
