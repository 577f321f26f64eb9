"""Each that waits for the high watermark is told once, whatever those before it do."""

from functools import partial

import pytest
from tests.turns import TURN

from ottla.common.errors import ApiError, KafkaStorageError
from ottla.replication.acknowledgements import Acknowledgements


def test_who_is_told_may_end_the_leadership() -> None:
    """Seed 3043: a coordinator wrote its next batch when it heard, and the disk failed by that."""
    acknowledgements = Acknowledgements(TURN)
    told: list[tuple[int, ApiError | None]] = []
    failure = KafkaStorageError()

    def first(error: ApiError | None) -> None:
        told.append((1, error))
        acknowledgements.fail(failure)

    acknowledgements.add(1, first)

    def other(offset: int, error: ApiError | None) -> None:
        told.append((offset, error))

    for offset in (2, 3, 9):
        acknowledgements.add(offset, partial(other, offset))
    TURN.run(acknowledgements.passed, 5)
    assert told == [(1, None), (2, None), (3, None), (9, failure)]
    TURN.run(acknowledgements.passed, 10)
    assert len(told) == 4


def test_who_is_told_may_wait_for_more() -> None:
    acknowledgements = Acknowledgements(TURN)
    told: list[int] = []

    def first(_error: ApiError | None) -> None:
        told.append(1)
        acknowledgements.add(2, lambda _error: told.append(2))
        acknowledgements.add(7, lambda _error: told.append(7))

    acknowledgements.add(1, first)
    TURN.run(acknowledgements.passed, 5)
    assert told == [1]
    TURN.run(acknowledgements.passed, 6)
    assert told == [1, 2]
    assert len(acknowledgements) == 1


@pytest.mark.parametrize("how", ["passed", "fail"])
def test_one_that_fails_when_it_is_told_keeps_nobody_else_waiting(how: str) -> None:
    acknowledgements = Acknowledgements(TURN)
    told: list[int] = []

    def fails(_error: ApiError | None) -> None:
        raise KeyError("a mistake of ours")

    acknowledgements.add(1, fails)
    acknowledgements.add(2, lambda _error: told.append(2))
    with pytest.raises(KeyError):
        if how == "passed":
            TURN.run(acknowledgements.passed, 3)
        else:
            TURN.run(acknowledgements.fail, KafkaStorageError())
    assert told == [2]
