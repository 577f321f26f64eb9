"""What a Python worker of Spark holds for the whole of its life, kept out of garbage collection.

Spark collects garbage after each task (``pyspark.daemon``), before the worker takes the next. Of
the hundred thousand objects and more that numba and pyarrow bring none is ever garbage, and to look
at each took four fifths of the time of tasks that read a segment. So they are set apart once, when
the first task of a worker is done and all that it needs is loaded.
"""

import gc
import os
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

T = TypeVar("T")

_settled: Final[set[int]] = set()
"""Processes that have done so; a forked child is another."""


def settle() -> None:
    """To be called in a worker when a task is done; only the first call does something."""
    if os.getpid() not in _settled:
        _settled.add(os.getpid())
        gc.collect()  # what is garbage now would be kept for ever
        gc.freeze()


def settled(items: Iterable[T]) -> Iterator[T]:
    """All items, then :func:`settle`."""
    yield from items
    settle()
