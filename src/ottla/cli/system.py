"""Time, chance and name of this machine, for commands that hand them on."""

import socket
import time

from ottla.common.chance import Chance


def wall_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def system_chance() -> Chance:
    return Chance()


def machine_name() -> str:
    """What this machine calls itself."""
    return socket.gethostname()
