"""Questions to brokers: one request each at a time, everything is answered once."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.server.brokers_asked import BrokersAsked
from tests.turns import virtual_time

from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.server.broker_batches import WAITING_MAX, BrokerBatches

NODES = (1, 2)
Question = tuple[str, int]


class World:
    def __init__(self) -> None:
        self.scheduler = virtual_time(3)
        self.channel = BrokersAsked()
        self.answered: list[tuple[Question, bool]] = []
        self.batches = BrokerBatches[Question, FindCoordinatorResponse](
            self.channel,
            self.scheduler,
            key=lambda question: question[0],
            make=self._make,
            answered=self._answered,
        )
        self.requests: list[list[Question]] = []

    def _make(self, questions: list[Question]) -> FindCoordinatorRequest:
        self.requests.append(questions)
        return FindCoordinatorRequest(coordinator_keys=[key for key, _ in questions])

    def _answered(self, questions: list[Question], answer: FindCoordinatorResponse | None) -> None:
        self.answered += [(question, answer is not None) for question in questions]


def test_what_comes_in_one_turn_goes_in_one_request() -> None:
    world = World()
    world.batches.ask(1, ("a", 1))
    world.batches.ask(1, ("b", 2))
    world.scheduler.run_for(0)
    assert world.requests == [[("a", 1), ("b", 2)]]


def test_a_broker_that_does_not_answer_holds_up_nobody_else() -> None:
    world = World()
    world.batches.ask(1, ("a", 1))
    world.scheduler.run_for(0)
    world.batches.ask(1, ("b", 2))
    world.batches.ask(2, ("c", 3))
    world.scheduler.run_for(0)
    assert world.requests == [[("a", 1)], [("c", 3)]]


def test_beyond_the_bound_nothing_is_asked() -> None:
    world = World()
    for number in range(WAITING_MAX + 1):
        world.batches.ask(1, (str(number), number))
    assert world.answered == [((str(WAITING_MAX), WAITING_MAX), False)]


class Batches(RuleBasedStateMachine):
    """Whatever brokers do, each question is answered once, in requests that follow each other."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.asked = 0

    @rule(node_id=st.sampled_from(NODES), key=st.sampled_from("abc"))
    def ask(self, node_id: int, key: str) -> None:
        self.asked += 1
        self.world.batches.ask(node_id, (key, self.asked))

    @rule()
    def turn(self) -> None:
        self.world.scheduler.run_for(0)

    @precondition(lambda self: self.world.channel.asked)
    @rule(whole=st.booleans(), data=st.data())
    def answer(self, whole: bool, data: st.DataObject) -> None:
        asked = data.draw(st.sampled_from(self.world.channel.asked))
        self.world.channel.asked.remove(asked)
        if whole:
            asked.answer.fulfil(FindCoordinatorResponse())
        else:
            asked.answer.fail(ConnectionResetError("cut"))

    @invariant()
    def one_request_to_a_broker_at_a_time(self) -> None:
        under_way = Counter(each.node_id for each in self.world.channel.asked)
        assert all(count == 1 for count in under_way.values())

    @invariant()
    def nothing_shares_a_request_with_its_like(self) -> None:
        for request in self.world.requests:
            keys = [key for key, _ in request]
            assert len(keys) == len(set(keys))

    def teardown(self) -> None:
        for _ in range(2 * self.asked + 1):
            self.turn()
            while self.world.channel.asked:
                self.world.channel.asked.pop().answer.fulfil(FindCoordinatorResponse())
        numbers = sorted(number for (_, number), _ in self.world.answered)
        assert numbers == list(range(1, self.asked + 1))


TestBatches = Batches.TestCase
TestBatches.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
