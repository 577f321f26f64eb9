"""Accepts connections at one listening socket, and stops for a while when nobody can be accepted.

Readiness is told again and again while a connection waits. A process without a free descriptor
cannot take it, so that an event loop that only returned would do nothing else any more.
"""

import errno
from collections.abc import Callable
from typing import Final, Generic, Protocol, TypeVar

from ottla.common.environment import Cancellable
from ottla.observability.logging import logger

log = logger(__name__)

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)

BACKLOG: Final = 512
"""How many may wait to be accepted; so many are taken in one turn at most."""
PAUSE_SECONDS: Final = 0.5
"""Connections wait in the backlog meanwhile, and lose nothing."""
_ONE_PEER: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPERM,
        errno.EPROTO,
        errno.ETIMEDOUT,
    }
)
"""What accept says of a next connection that is gone by now."""


class Acceptable(Protocol[S_co]):
    """A listening socket on an event loop."""

    def accept(self) -> S_co:
        """Take the next; BlockingIOError when nobody waits."""
        ...

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back in each turn in which somebody waits."""
        ...

    def unwatch(self) -> None: ...


class Accepting(Generic[S]):
    """See the module. ``later`` calls something after so many seconds."""

    def __init__(
        self,
        listening: Acceptable[S],
        accepted: Callable[[S], None],
        later: Callable[[float, Callable[[], None]], Cancellable],
    ) -> None:
        self._listening = listening
        self._accepted = accepted
        self._later = later
        self._timer: Cancellable | None = None
        self._failed = False
        """The last one was not accepted, and the log has been told."""

    def start(self) -> None:
        self._timer = None
        self._listening.watch(self._take)

    def _take(self) -> None:
        for _ in range(BACKLOG):
            try:
                sock = self._listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno not in _ONE_PEER:
                    self._pause(error)
                    return
            else:
                self._failed = False
                self._accepted(sock)
                if self._timer is not None:
                    return

    def pause(self, seconds: float) -> None:
        """Take nobody for so long, though somebody could be."""
        self.stop()
        self._timer = self._later(seconds, self.start)

    def _pause(self, error: OSError) -> None:
        if not self._failed:
            log.error(
                "no connection can be accepted for now",
                reason=str(error),
                retry_seconds=PAUSE_SECONDS,
            )
        self._failed = True
        self._listening.unwatch()
        self._timer = self._later(PAUSE_SECONDS, self.start)

    def stop(self) -> None:
        if self._timer is None:
            self._listening.unwatch()
        else:
            self._timer.cancel()
