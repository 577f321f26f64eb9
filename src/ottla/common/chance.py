"""Chance as an argument: seeded in simulations, from the operating system in production."""

from collections.abc import Sequence
from random import Random, SystemRandom  # noqa: TID251 - the one place
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Draws lots. ``Chance(seed)`` repeats itself, ``Chance()`` never does."""

    __slots__ = ("_random",)

    def __init__(self, seed: int | None = None) -> None:
        self._random: Random = SystemRandom() if seed is None else Random(seed)  # noqa: S311

    def bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def below(self, bound: int) -> int:
        """Return an integer from 0 to ``bound`` - 1."""
        return self._random.randrange(bound)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def choose(self, items: Sequence[T]) -> T:
        return self._random.choice(items)
