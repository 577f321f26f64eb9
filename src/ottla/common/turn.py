"""The one queue of a node: what is completed waits here until what has begun is over.

An event loop calls a node for a reason: a socket can be read, a time has come, work in the
background has ended. All that the node does for it is one turn. What is completed meanwhile (a
promise, an acknowledgement, a fetch that has got enough) only enqueues the callbacks that wait for
it; they are called when the reason is dealt with, in the order of completion, until none is left.
So a method that is at work is never entered again from below, and no list changes under a loop
over it.

When nothing is left in the queue, what was gathered to be written is written: requests that came
together become one write. That completes them, and so fills the queue again. At last, what was
gathered to be sent is sent: by one send to each peer.

Each node has a turn of its own, and gets it with its scheduler: several live in one process. A turn
may as well be a whole iteration of the event loop; nothing relies on its being one callback.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from ottla.common.mistakes import raise_first


def at_once(callback: Callable[..., object], *args: Any) -> None:
    """For where there is no event loop to ask: the turn is taken there and then."""
    callback(*args)


class Turn:
    """``ask`` is the ``call_soon`` of an event loop, for what is completed outside of any turn."""

    __slots__ = ("_ask", "_is_asked", "_is_running", "_queue", "_sends", "_writes", "is_crowd")

    def __init__(self, ask: Callable[..., object]) -> None:
        self._ask = ask
        self._queue: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._writes: deque[Callable[[], object]] = deque()
        self._sends: deque[Callable[[], object]] = deque()
        self.is_crowd = False
        """Whether more than one thing has come in this turn, so that what waits has company."""
        self._is_running = False
        self._is_asked = False
        """Whether the event loop was asked for a turn, and has not given it yet."""

    def enqueue(self, callback: Callable[..., object], *args: Any) -> None:
        """Call ``callback`` when all that was enqueued before it is done, in this turn."""
        self._queue.append((callback, args))
        if not self._is_running and not self._is_asked:
            self._ask_for_one()

    def write_at_end(self, write: Callable[[], object]) -> None:
        """Call ``write`` when nothing is left in the queue, before anything is sent."""
        self._writes.append(write)
        if not self._is_running and not self._is_asked:
            self._ask_for_one()

    def send_at_end(self, send: Callable[[], object]) -> None:
        """Call ``send`` when nothing is left in the queue, or to be written."""
        self._sends.append(send)
        if not self._is_running and not self._is_asked:
            self._ask_for_one()

    def run(self, callback: Callable[..., object], *args: Any) -> None:
        """Call ``callback``, then what was enqueued; within a turn it is a plain call.

        What they raise is a mistake of ours. It costs the others nothing: it is raised behind the
        last, to the event loop, which tells of it.
        """
        if self._is_running:
            callback(*args)
            return
        errors: list[Exception] | None = None
        queue, writes, sends = self._queue, self._writes, self._sends
        self._is_running = True
        try:
            while True:
                try:
                    callback(*args)
                except Exception as error:  # noqa: BLE001 - raised below
                    errors = errors or []
                    errors.append(error)
                if queue:
                    callback, args = queue.popleft()
                elif writes:
                    callback, args = writes.popleft(), ()
                elif sends:
                    callback, args = sends.popleft(), ()
                else:
                    break
        finally:
            self._is_running = False
            self.is_crowd = False
            # The process is told to end; should it not, nothing is forgotten.
            if queue or writes or sends:
                self._ask_for_one()
        if errors is not None:
            raise_first(errors)

    def forget_all(self) -> None:
        """The process is gone, and with it all that waited."""
        self._queue.clear()
        self._writes.clear()
        self._sends.clear()
        self._is_asked = False

    def _ask_for_one(self) -> None:
        self._is_asked = True
        self._ask(self.run, self._was_given)

    def _was_given(self) -> None:
        self._is_asked = False
