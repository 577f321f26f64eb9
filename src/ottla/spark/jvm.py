"""The JVM that PySpark starts beside this process: how it ends with it.

Ctrl-C does not reach it. It ends when its standard input does, some seconds after this process; and
one whose start was interrupted never does.
"""

import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_END_SECONDS: Final = 10


def is_there() -> bool:
    """Whether this process has started one."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None  # noqa: SLF001 - PySpark has no other way to it


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A JVM that starts is known only when it has: Ctrl-C counts then, and a second one at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = False

    def note(_number: int, _frame: Any) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # Spark sets a handler of its own
            signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def end() -> None:
    """Wait until it has ended."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # noqa: SLF001 - PySpark has no other way to it
    jvm: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    if jvm is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - PySpark has no other way to it
    assert jvm.stdin is not None
    jvm.stdin.close()
    try:
        jvm.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:  # also when somebody presses Ctrl-C again
        jvm.kill()
        jvm.wait()
