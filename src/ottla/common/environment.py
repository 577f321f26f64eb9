"""What a node is given instead of reaching for it: time, chance, waiting and background work.

The server makes one of the operating system and an event loop, the simulator one of its own.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.common.clock import Clock
from ottla.common.promise import Promise
from ottla.common.turn import Turn

T = TypeVar("T")


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Scheduler(Clock, Protocol):
    """A clock that also calls back; all callbacks run on the one thread of the node.

    Each of them is a turn of the node, or a part of one.
    """

    @property
    def turn(self) -> Turn: ...

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> Cancellable: ...

    def call_later(
        self, seconds: float, callback: Callable[..., Any], *args: Any
    ) -> Cancellable: ...

    def run_in_background(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        """Run blocking ``work`` off the loop; the promise is settled on the loop.

        Work waits for nothing but work of its own ``lane``: the path of a log directory, so that a
        disk that hangs holds up nobody else, or a name of another thing that may.
        """
        ...
