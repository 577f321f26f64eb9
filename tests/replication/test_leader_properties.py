"""A leader among followers that lag, restart and lose records, and a controller that is slow.

The followers are models: how much of the log each really has. So is the controller: it has the true
ISR, takes a proposal or refuses it as Kafka's does, and its answers and its log reach the leader
late or, the answers, never. Whatever happens, what the leader calls committed is on every broker
that the controller could elect.
"""

from contextlib import suppress
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.replication.led import LAG, Led, Registered

from ottla.common.errors import NotLeaderOrFollower, UnknownLeaderEpoch
from ottla.replication.isr import ProposedIsr

FOLLOWERS = st.sampled_from([2, 3])


@dataclass
class Follower:
    """What a follower really is, whatever the leader believes."""

    has: int = 0
    epoch: int = 0
    last_fetch: tuple[int, int] | None = None
    """Offset and broker epoch of a fetch that may still be under way."""


@dataclass(frozen=True)
class Truth:
    """The controller's state of the partition."""

    isr: tuple[int, ...]
    partition_epoch: int
    brokers: tuple[tuple[int, Registered], ...]


class LeaderMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.led = Led(min_isr=1)
        self.followers = {2: Follower(epoch=102), 3: Follower(epoch=103)}
        self.brokers = dict(self.led.brokers)
        self.isr: tuple[int, ...] = (1, 2, 3)
        self.partition_epoch = 1
        self.unseen: list[Truth] = []
        self.answered: list[tuple[ProposedIsr, int, tuple[int, ...]]] = []
        self.next_epoch = 200
        self.highest = 0

    def _log(self) -> None:
        """The metadata log has another record, which the leader has not seen."""
        self.unseen.append(Truth(self.isr, self.partition_epoch, tuple(self.brokers.items())))

    def _leaves(self, broker_id: int) -> None:
        if broker_id in self.isr:
            self.isr = tuple(member for member in self.isr if member != broker_id)
            self.partition_epoch += 1

    # What happens to the leader

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.led.append(count)

    @rule(seconds=st.sampled_from([1.0, LAG + 1]), is_checked=st.booleans())
    def time_passes(self, seconds: float, is_checked: bool) -> None:
        self.led.now += seconds
        if is_checked:
            self.led.partition.maybe_shrink_isr()

    @precondition(lambda self: self.unseen)
    @rule()
    def metadata_comes(self) -> None:
        for truth in self.unseen:
            self.led.brokers.clear()
            self.led.brokers.update(dict(truth.brokers))
            self.led.lead(truth.isr, partition_epoch=truth.partition_epoch)
        self.unseen = []

    # What followers do

    @rule(broker_id=FOLLOWERS, takes=st.integers(0, 4))
    def fetch(self, broker_id: int, takes: int) -> None:
        follower = self.followers[broker_id]
        follower.last_fetch = (follower.has, follower.epoch)
        self._arrives(broker_id, follower.has, follower.epoch)
        follower.has = min(follower.has + takes, self.led.log.log_end_offset)

    @rule(broker_id=FOLLOWERS)
    def catch_up(self, broker_id: int) -> None:
        self.fetch(broker_id, self.led.log.log_end_offset)
        self.fetch(broker_id, 0)

    @precondition(lambda self: any(each.last_fetch for each in self.followers.values()))
    @rule(broker_id=FOLLOWERS)
    def a_fetch_arrives_late(self, broker_id: int) -> None:
        """It says what was true of another life; within one, fetches keep their order."""
        follower = self.followers[broker_id]
        if follower.last_fetch is not None and follower.last_fetch[1] != follower.epoch:
            self._arrives(broker_id, *follower.last_fetch)

    def _arrives(self, broker_id: int, offset: int, epoch: int) -> None:
        with suppress(NotLeaderOrFollower, UnknownLeaderEpoch):
            self.led.fetch(broker_id, offset, epoch=epoch)

    @rule(broker_id=FOLLOWERS, lost=st.integers(0, 5))
    def restart(self, broker_id: int, lost: int) -> None:
        """It loses its tail; the controller has it registered anew and out of the ISR."""
        follower = self.followers[broker_id]
        follower.has = max(0, follower.has - lost)
        self.next_epoch += 1
        follower.epoch = self.next_epoch
        self._leaves(broker_id)
        self.brokers[broker_id] = Registered(follower.epoch)
        self._log()

    @rule(broker_id=FOLLOWERS, shutdown=st.booleans())
    def fence(self, broker_id: int, shutdown: bool) -> None:
        self._leaves(broker_id)
        known = self.brokers[broker_id]
        self.brokers[broker_id] = Registered(known.epoch, not shutdown, shutdown)
        self._log()

    @precondition(lambda self: any(each.fenced for each in self.brokers.values()))
    @rule(broker_id=FOLLOWERS)
    def unfence(self, broker_id: int) -> None:
        self.brokers[broker_id] = Registered(self.brokers[broker_id].epoch)
        self._log()

    # What the controller does

    @precondition(lambda self: self.led.proposed)
    @rule(answer=st.sampled_from(["heard", "lost", "lost and asked again"]))
    def the_controller_decides(self, answer: str) -> None:
        proposed = self.led.proposed.pop(0)
        if proposed.partition_epoch != self.partition_epoch:
            self.led.partition.isr_refused(proposed, is_unchanged=False)
            return
        for member in proposed.members:
            known = self.brokers[member.broker_id]
            fit = not known.fenced and not known.in_controlled_shutdown
            if not fit or member.broker_epoch not in (-1, known.epoch):
                self.led.partition.isr_refused(proposed, is_unchanged=True)
                return
        self.isr = tuple(member.broker_id for member in proposed.members)
        self.partition_epoch += 1
        self._log()
        if answer == "heard":
            self.answered.append((proposed, self.partition_epoch, self.isr))
        elif answer == "lost and asked again":
            self.led.proposed.insert(0, proposed)

    @precondition(lambda self: not self.led.proposed)
    @rule(broker_id=FOLLOWERS, is_asked_again=st.booleans())
    def one_joins_unheard_and_falls_silent(self, broker_id: int, is_asked_again: bool) -> None:
        """The controller has it in the ISR, and the leader hears nothing of that for long."""
        if self.unseen:
            self.metadata_comes()
        self.catch_up(broker_id)
        if self.led.proposed:
            self.the_controller_decides("lost and asked again" if is_asked_again else "lost")
        if self.led.proposed:
            self.the_controller_decides("lost")
        self.led.now += LAG + 1
        self.led.append(1)
        self.catch_up(5 - broker_id)

    @precondition(lambda self: self.answered)
    @rule()
    def an_answer_comes(self) -> None:
        proposed, epoch, isr = self.answered.pop(0)
        self.led.partition.isr_altered(proposed, 0, epoch, isr)

    # What always holds

    @invariant()
    def the_high_watermark_does_not_go_back(self) -> None:
        assert self.led.high_watermark >= self.highest
        self.highest = self.led.high_watermark

    @invariant()
    def whoever_could_be_elected_has_what_is_committed(self) -> None:
        for member in self.isr:
            if member != 1:
                assert self.followers[member].has >= self.led.high_watermark

    @invariant()
    def the_isr_has_none_that_is_fenced(self) -> None:
        for member in self.isr:
            known = self.brokers[member]
            assert not known.fenced
            assert not known.in_controlled_shutdown


TestLeader = LeaderMachine.TestCase
TestLeader.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
