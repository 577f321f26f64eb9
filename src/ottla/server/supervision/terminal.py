"""Why SIGHUP came: because somebody asks for a restart, or because our terminal was closed."""

import os
import signal
from enum import Enum, auto
from typing import Final

_DEVICE: Final = "/dev/tty"


class Hangup(Enum):
    """What SIGHUP means."""

    RESTART = auto()
    STOP = auto()
    NOTHING = auto()


class ControllingTerminal:
    """The terminal that we were started at, if any; made before SIGHUP has a handler.

    The kernel takes a closed terminal from all of its session before it sends the signal.
    """

    def __init__(self) -> None:
        self._was_there = _is_there()
        self._outlived = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        """Whether we were started by nohup."""

    def hangup(self) -> Hangup:
        """What the signal that came just now means."""
        if not self._was_there or _is_there():
            return Hangup.RESTART
        self._was_there = False
        return Hangup.NOTHING if self._outlived else Hangup.STOP


def _is_there() -> bool:
    try:
        os.close(os.open(_DEVICE, os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
