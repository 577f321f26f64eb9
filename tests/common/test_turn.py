"""The one queue of a node: in order, each once, nobody inside of another, and nobody lost."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.common.promise import Promise, run
from ottla.common.turn import Turn, at_once


class Loop:
    """An event loop: it does what it was asked for when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def call_soon(self, callback: Callable[..., object], *args: Any) -> None:
        self.asked.append((callback, args))

    def go_round(self) -> None:
        asked, self.asked = self.asked, []
        for callback, args in asked:
            callback(*args)


Tree = tuple[str, bool, tuple[Any, ...]]
"""How a callback is told of, whether it raises, and what it completes."""
WAYS = ("enqueue", "promise", "done promise", "coroutine", "nested run")
TREES: st.SearchStrategy[Tree] = st.recursive(
    st.tuples(st.sampled_from(WAYS), st.booleans(), st.just(())),
    lambda trees: st.tuples(
        st.sampled_from(WAYS), st.booleans(), st.lists(trees, max_size=4).map(tuple)
    ),
    max_leaves=25,
)


class World:
    """Carries out trees of completions within completions, and notes what is called when."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.turn = Turn(self.loop.call_soon)
        self.enqueued: list[int] = []
        self.called: list[int] = []
        self.within: list[int] = []
        self.count = 0

    def complete(self, tree: Tree) -> None:
        way, raises, inner = tree
        number = self.count
        self.count += 1

        def callback(_: object = None) -> None:
            is_plain = way == "nested run"
            assert is_plain or not self.within, "a callback inside of another"
            self.within.append(number)
            if not is_plain:
                self.called.append(number)
            try:
                for each in inner:
                    self.complete(each)
            finally:
                self.within.pop()
            if raises and not is_plain:
                raise KeyError(number)

        if way == "nested run":
            self.turn.run(callback)
            return
        self.enqueued.append(number)
        promise: Promise[None] = Promise(self.turn)
        if way == "enqueue":
            self.turn.enqueue(callback)
        elif way == "promise":
            promise.when_done(callback)
            promise.fulfil(None)
        elif way == "done promise":
            promise.fulfil(None)
            promise.when_done(callback)
        else:

            async def wait() -> None:
                await promise
                callback()

            run(self.turn, wait())
            promise.fulfil(None)


@given(st.lists(TREES, max_size=4), st.booleans())
@example([("promise", True, (("enqueue", False, ()), ("coroutine", False, ())))], False)
def test_whatever_is_completed_within_what_is_told_once_in_order_and_not_in_between(
    trees: list[Tree], is_outside: bool
) -> None:
    world = World()
    errors: list[KeyError] = []

    def tell(reason: Callable[..., object], *args: Any) -> None:
        try:
            reason(*args)
        except KeyError as error:
            errors.append(error)

    def complete_all() -> None:
        for each in trees:
            world.complete(each)

    if is_outside:
        for each in trees:
            tell(world.complete, each)
        tell(world.loop.go_round)
    else:
        tell(world.turn.run, complete_all)
    assert not world.loop.asked
    assert world.called == world.enqueued
    assert {error.args[0] for error in errors} <= set(world.called)


def test_a_callback_that_fails_costs_those_behind_it_nothing_and_the_loop_hears_of_all() -> None:
    turn = Turn(at_once)
    told: list[int] = []

    def begin() -> None:
        turn.enqueue(told.append, 1)
        turn.enqueue([].pop)
        turn.enqueue(told.append, 2)
        raise KeyError("the reason itself")

    with pytest.raises(KeyError) as raised:
        turn.run(begin)
    assert told == [1, 2]
    assert raised.value.__notes__ == ["and then IndexError('pop from empty list')"]


def test_what_is_completed_outside_of_a_turn_asks_for_one_and_only_once() -> None:
    loop = Loop()
    turn = Turn(loop.call_soon)
    told: list[int] = []
    turn.enqueue(told.append, 1)
    turn.enqueue(told.append, 2)
    assert not told
    assert len(loop.asked) == 1
    loop.go_round()
    assert told == [1, 2]
    turn.enqueue(told.append, 3)
    loop.go_round()
    assert told == [1, 2, 3]


def test_what_a_process_that_is_told_to_end_leaves_behind_gets_another_turn() -> None:
    loop = Loop()
    turn = Turn(loop.call_soon)
    told: list[int] = []

    def stop() -> None:
        raise KeyboardInterrupt

    def begin() -> None:
        turn.enqueue(stop)
        turn.enqueue(told.append, 1)

    with pytest.raises(KeyboardInterrupt):
        turn.run(begin)
    assert told == []
    loop.go_round()
    assert told == [1]


def test_nobody_is_told_in_another_life() -> None:
    loop = Loop()
    turn = Turn(loop.call_soon)
    told: list[int] = []
    turn.enqueue(told.append, 1)
    turn.forget_all()
    loop.asked.clear()
    turn.enqueue(told.append, 2)
    loop.go_round()
    assert told == [2]


def test_what_is_to_be_sent_is_sent_when_the_queue_is_empty() -> None:
    turn = Turn(at_once)
    told: list[str] = []

    def send() -> None:
        told.append("send")
        turn.enqueue(told.append, "of the send")
        if told.count("send") == 1:
            turn.send_at_end(send)

    def begin() -> None:
        turn.send_at_end(send)
        turn.enqueue(told.append, "queue")
        told.append("reason")

    turn.run(begin)
    assert told == ["reason", "queue", *("send", "of the send"), *("send", "of the send")]


def test_a_send_asked_for_outside_of_a_turn_gets_one() -> None:
    loop = Loop()
    turn = Turn(loop.call_soon)
    told: list[int] = []
    turn.send_at_end(lambda: told.append(1))
    assert not told
    loop.go_round()
    assert told == [1]
    turn.send_at_end(lambda: told.append(2))
    turn.forget_all()
    loop.go_round()
    turn.run(told.append, 3)
    assert told == [1, 3]


def test_what_is_to_be_written_is_written_behind_the_queue_and_told_before_anything_is_sent() -> (
    None
):
    turn = Turn(at_once)
    told: list[str] = []

    def write() -> None:
        told.append("write")
        turn.enqueue(told.append, "written")

    def begin() -> None:
        turn.send_at_end(lambda: told.append("send"))
        turn.write_at_end(write)
        turn.write_at_end(write)
        turn.enqueue(told.append, "queue")

    turn.run(begin)
    assert told == ["queue", "write", "written", "write", "written", "send"]


def test_a_write_asked_for_outside_of_a_turn_gets_one() -> None:
    loop = Loop()
    turn = Turn(loop.call_soon)
    told: list[int] = []
    turn.write_at_end(lambda: told.append(1))
    assert not told
    loop.go_round()
    assert told == [1]
    turn.write_at_end(lambda: told.append(2))
    turn.forget_all()
    loop.go_round()
    turn.run(told.append, 3)
    assert told == [1, 3]


def test_a_crowd_is_over_with_its_turn() -> None:
    turn = Turn(at_once)

    def come() -> None:
        turn.is_crowd = True
        turn.enqueue(lambda: seen.append(turn.is_crowd))

    seen: list[bool] = []
    turn.run(come)
    assert seen == [True]
    assert not turn.is_crowd
