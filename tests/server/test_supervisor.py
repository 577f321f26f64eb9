"""The supervisor's decisions: directed cases, and all orders of events by a state machine."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.server.supervision.supervisor import (
    ASK_SECONDS,
    BACKOFF_SECONDS,
    PATIENCE_SECONDS,
    STEADY_SECONDS,
    SYNC_SECONDS,
    Act,
    AskSync,
    Kill,
    Leave,
    Press,
    ProcessState,
    RestartState,
    Say,
    Spawn,
    Supervisor,
)


class World:
    """What the supervisor lives in: its processes, the time, its questions."""

    def __init__(self, count: int) -> None:
        self.supervisor = Supervisor([1 + 1000 * at for at in range(count)])
        self.now = 100.0
        self.living: dict[int, int] = {}
        """How often each that lives was pressed."""
        self.questions: list[int] = []
        self.exit_code: int | None = None
        self.told: list[str] = []
        self.do(self.supervisor.begin(self.now))

    def do(self, acts: list[Act]) -> list[Act]:
        assert self.exit_code is None or not acts, "nothing is done after the end"
        for act in acts:
            match act:
                case Spawn(number):
                    assert number not in self.living, "two processes of one node"
                    self.living[number] = 0
                case Press(number):
                    assert number in self.living, "a process that is gone gets no signal"
                    self.living[number] += 1
                case Kill(number):
                    assert number in self.living
                    self.living[number] = -100
                case AskSync(question):
                    assert len(self.living) == len(self.supervisor.children)
                    self.questions.append(question)
                case Say(text):
                    self.told.append(text)
                case Leave(code):
                    assert not self.living, "all have ended first"
                    self.exit_code = code
        return [act for act in acts if not isinstance(act, Say)]

    def state(self, number: int) -> ProcessState:
        return self.supervisor.children[number].state

    def serve(self, *numbers: int) -> list[Act]:
        return [
            act for number in numbers for act in self.do(self.supervisor.serves(number, self.now))
        ]

    def end(self, number: int, code: int = 0) -> list[Act]:
        del self.living[number]
        return self.do(self.supervisor.ended(number, code, self.now))

    def wait(self, seconds: float) -> list[Act]:
        self.now += seconds
        return self.do(self.supervisor.tick(self.now))

    def answer(self, unrest: str | None = None) -> list[Act]:
        return self.do(self.supervisor.answered(self.questions[-1], unrest, self.now))

    def stop(self) -> list[Act]:
        return self.do(self.supervisor.stop(self.now))

    def restart(self) -> list[Act]:
        return self.do(self.supervisor.restart(self.now))


def serving(count: int = 3) -> World:
    world = World(count)
    world.serve(*world.supervisor.children)
    assert world.supervisor.all_serve
    return world


def restarted(world: World) -> RestartState:
    return world.supervisor.restart_state.state


def test_all_are_started_at_once() -> None:
    world = World(3)
    assert set(world.living) == {1, 2, 3}
    world.serve(1, 2)
    assert "all processes serve" not in world.told
    world.serve(3)
    assert world.told == ["all processes serve"]


def test_what_ends_is_started_again_later_and_later() -> None:
    world = serving()
    pause = BACKOFF_SECONDS[0]
    for _ in range(12):
        assert world.end(2, -9) == []
        assert world.wait(pause - 0.01) == []
        assert world.wait(0.02) == [Spawn(2)]
        world.serve(2)
        pause = min(BACKOFF_SECONDS[1], 2 * pause)
    assert pause == BACKOFF_SECONDS[1]
    world.wait(STEADY_SECONDS + 0.01)
    world.end(2, -9)
    assert world.wait(BACKOFF_SECONDS[0] + 0.01) == [Spawn(2)], "it served for long"
    assert world.supervisor.children[2].starts == 14


def test_an_end_without_an_error_is_an_end_too() -> None:
    world = serving()
    world.end(1, 0)
    assert world.wait(BACKOFF_SECONDS[0]) == [Spawn(1)]


def test_one_that_cannot_start_at_first_stops_all() -> None:
    world = World(3)
    world.serve(1)
    assert world.end(2, 1) == [Press(3)]
    assert world.end(3, 0) == [Press(1)]
    assert world.end(1, 0) == [Leave(1)]
    assert any("cannot start" in line for line in world.told)


def test_one_that_has_served_is_tried_for_ever() -> None:
    world = serving()
    for _ in range(20):
        world.end(3, 1)
        assert world.wait(BACKOFF_SECONDS[1]) == [Spawn(3)]
    assert world.exit_code is None


def test_a_stop_ends_the_first_process_last() -> None:
    world = serving()
    assert world.stop() == [Press(2), Press(3)]
    assert world.end(3) == []
    assert world.end(2) == [Press(1)]
    assert world.end(1) == [Leave(0)]


def test_a_stop_presses_and_then_kills_what_does_not_end() -> None:
    world = serving(2)
    world.stop()
    assert world.wait(PATIENCE_SECONDS - 1) == []
    assert world.wait(1) == [Press(2)]
    assert world.wait(PATIENCE_SECONDS) == [Kill(2)]
    assert world.end(2, -9) == [Press(1)]
    assert world.end(1) == [Leave(1)], "one was killed"


def test_a_second_stop_presses_all_and_a_third_kills_all() -> None:
    world = serving()
    world.stop()
    assert sorted(map(str, world.stop())) == sorted(
        map(str, [Press(1), Press(1), Press(2), Press(3)])
    )
    assert world.living == {1: 2, 2: 2, 3: 2}
    assert world.stop() == [Kill(1), Kill(2), Kill(3)]
    assert world.stop() == []


def test_a_stop_forgets_what_was_to_be_started() -> None:
    world = serving(2)
    world.end(2, -9)
    assert world.stop() == [Press(1)]
    assert world.wait(BACKOFF_SECONDS[1] * 0.4) == []
    assert world.end(1) == [Leave(0)]


def test_a_restart_takes_one_at_a_time_and_the_first_last() -> None:
    world = serving()
    assert world.restart() == [AskSync(world.questions[-1])]
    order = []
    for _ in range(3):
        (pressed,) = world.answer()
        assert isinstance(pressed, Press)
        order.append(pressed.number)
        assert world.end(pressed.number) == [Spawn(pressed.number)]
        assert world.serve(pressed.number) == [AskSync(world.questions[-1])]
    assert order == [2, 3, 1]
    assert restarted(world) is RestartState.GOING
    assert world.answer() == []
    assert restarted(world) is RestartState.DONE


def test_a_restart_waits_until_the_cluster_is_in_sync() -> None:
    world = serving()
    world.restart()
    assert world.answer("t-0 has only [1]") == []
    assert world.wait(ASK_SECONDS - 0.1) == []
    assert world.wait(0.1) == [AskSync(world.questions[-1])]
    assert world.answer() == [Press(2)]


def test_a_restart_is_given_up_when_the_cluster_does_not_come_in_sync() -> None:
    world = serving()
    world.restart()
    world.answer("t-0 has only [1]")
    world.wait(SYNC_SECONDS)
    assert world.supervisor.restart_state.state is RestartState.GIVEN_UP
    assert "t-0 has only [1]" in world.supervisor.restart_state.reason
    assert world.supervisor.all_serve
    assert world.answer() == [], "an answer to nothing"


def test_a_restart_is_given_up_when_one_does_not_start_again() -> None:
    world = serving()
    world.restart()
    world.answer()
    world.end(2)
    world.end(2, 1)
    assert world.supervisor.restart_state.state is RestartState.GIVEN_UP
    assert world.wait(BACKOFF_SECONDS[0]) == [Spawn(2)], "it is tried again all the same"
    world.serve(2)
    assert world.wait(1000) == []


def test_an_answer_of_before_a_death_restarts_nobody() -> None:
    world = serving()
    world.restart()
    world.end(3, -9)
    assert world.answer() == []
    world.wait(BACKOFF_SECONDS[0])
    world.serve(3)
    assert world.wait(ASK_SECONDS) == [AskSync(world.questions[-1])]


def test_a_restart_that_is_asked_for_again_begins_again() -> None:
    world = serving(2)
    world.restart()
    world.answer()
    world.end(2)
    world.serve(2)
    old = world.questions[-1]
    world.restart()
    assert world.do(world.supervisor.answered(old, None, world.now)) == []
    assert world.answer() == [Press(2)]


def test_a_stop_ends_a_restart() -> None:
    world = serving()
    world.restart()
    world.answer()
    assert world.stop() == [Press(3)]
    assert world.end(2) == []
    assert world.end(3) == [Press(1)]
    assert world.end(1) == [Leave(0)]
    assert world.supervisor.restart_state.state is RestartState.GIVEN_UP


class Machine(RuleBasedStateMachine):
    """Deaths, failed starts and signals in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(3)

    def pick(self, chosen: int, *states: ProcessState) -> int | None:
        numbers = [
            number
            for number in self.world.living
            if not states or self.world.state(number) in states
        ]
        return numbers[chosen % len(numbers)] if numbers else None

    @rule(chosen=st.integers(0, 10))
    def one_serves(self, chosen: int) -> None:
        number = self.pick(chosen, ProcessState.STARTING)
        if number is not None:
            self.world.serve(number)

    @rule(chosen=st.integers(0, 10), code=st.sampled_from((-9, 0, 1)))
    def one_ends(self, chosen: int, code: int) -> None:
        number = self.pick(chosen)
        if number is not None:
            self.world.end(number, code)

    @rule(chosen=st.integers(0, 10))
    def one_does_as_it_is_told(self, chosen: int) -> None:
        told = [number for number, pressed in self.world.living.items() if pressed]
        if told:
            self.world.end(told[chosen % len(told)])

    @rule(seconds=st.sampled_from((0.1, 1.0, 5.0, 31.0, 61.0, 301.0)))
    def time_passes(self, seconds: float) -> None:
        before = self.restarting()
        self.world.wait(seconds)
        assert len(self.restarting()) <= max(1, len(before))

    @precondition(lambda self: self.world.questions)
    @rule(in_sync=st.booleans(), newest=st.booleans())
    def an_answer_comes(self, in_sync: bool, newest: bool) -> None:
        world = self.world
        question = world.questions[-1 if newest else 0]
        serve = world.supervisor.all_serve
        unrest = None if in_sync else "t-0"
        acts = world.do(world.supervisor.answered(question, unrest, world.now))
        if acts:
            assert serve, "one is taken down only while all serve"
            assert in_sync
            assert len(acts) == 1

    @rule()
    def a_restart_is_asked_for(self) -> None:
        self.world.restart()

    @rule()
    def a_stop_is_asked_for(self) -> None:
        self.world.stop()

    def restarting(self) -> list[int]:
        world = self.world
        if world.supervisor.is_stopping:
            return []
        return [number for number in world.living if world.state(number) is ProcessState.STOPPING]

    @invariant()
    def at_most_one_is_taken_down(self) -> None:
        assert len(self.restarting()) <= 1

    @invariant()
    def it_knows_what_lives(self) -> None:
        known = {n for n, child in self.world.supervisor.children.items() if child.lives}
        assert known == set(self.world.living)

    @invariant()
    def there_is_always_something_that_goes_on(self) -> None:
        """Nothing is forgotten: a process lives, is due to start, or all is over."""
        supervisor = self.world.supervisor
        if not supervisor.is_stopping:
            assert all(
                child.lives or child.state is ProcessState.WAITING
                for child in supervisor.children.values()
            )

    def teardown(self) -> None:
        """A stop always ends, even if nobody does as it is told but by force."""
        world = self.world
        if world.exit_code is None and not world.supervisor.is_stopping:
            world.stop()
        for _ in range(20):
            if world.exit_code is not None:
                break
            for number in [n for n, pressed in world.living.items() if pressed < 0]:
                world.end(number, -9)
            world.wait(PATIENCE_SECONDS)
        assert world.exit_code is not None


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("count", [2, 8])
def test_left_alone_all_serve_again(count: int) -> None:
    world = serving(count)
    for number in range(1, count + 1):
        world.end(number, -9)
    assert world.wait(BACKOFF_SECONDS[0]) == [Spawn(number) for number in range(1, count + 1)]
    world.serve(*range(1, count + 1))
    assert world.supervisor.all_serve
