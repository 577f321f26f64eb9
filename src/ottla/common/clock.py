"""Time as an argument.

``wall_ms`` may jump and go back: it dates records and retention, nothing else. ``monotonic`` is
what every timeout and deadline is measured by.
"""

from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...
