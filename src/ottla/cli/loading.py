"""Loading a program that will run for long."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Without the garbage collector: what modules make stays, and would be looked through in vain.

    It is some 5 % of the instructions that loading a broker takes.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
