"""Of the same line so many a minute and no more: what goes wrong all the time fills no disk.

Messages are constants, so a line is the same when its logger, level and message are. What is left
out is counted, and told by the next line of any kind after that minute. Lines below INFO have no
bound: they are written on request only. Nor have those whose source bounds them by itself.
"""

import logging
from typing import Final, TextIO

LINES_MAX: Final = 30
"""The same line in a minute."""
MINUTE_SECONDS: Final = 60.0
BOUNDED: Final = "ottla_bounded"
"""What a record has whose source bounds its lines by itself."""
KINDS_MAX: Final = 1_000
"""Of lines whose number is remembered; messages are constants, but no rule without a bound."""

_Key = tuple[str, int, str]
_OTHERS: Final = ("ottla", logging.WARNING, "lines of too many kinds")
"""All kinds beyond the bound: those within it go on as ever."""


class _Minute:
    """How often a line came since the minute began."""

    __slots__ = ("began", "left_out", "told")

    def __init__(self, began: float) -> None:
        self.began = began
        self.told = 0
        self.left_out = 0

    def is_over(self, now: float) -> bool:
        return not 0 <= now - self.began < MINUTE_SECONDS  # a clock may be set back


class LimitedHandler(logging.StreamHandler[TextIO]):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._minutes: dict[_Key, _Minute] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO and not hasattr(record, BOUNDED):
            self._forget(record.created)
            minute = self._minute(record)
            if minute.told >= LINES_MAX:
                minute.left_out += 1
                return
            minute.told += 1
        super().emit(record)

    def _minute(self, record: logging.LogRecord) -> _Minute:
        key = (record.name, record.levelno, record.getMessage())
        if key not in self._minutes and len(self._minutes) >= KINDS_MAX:
            key = _OTHERS
        return self._minutes.setdefault(key, _Minute(record.created))

    def _forget(self, now: float) -> None:
        """Tell how many lines were left out in the minutes that are over."""
        for key in [key for key, minute in self._minutes.items() if minute.is_over(now)]:
            minute = self._minutes.pop(key)
            if minute.left_out:
                name, level, message = key
                line = logging.LogRecord(name, level, "", 0, message, None, None)
                line.ottla_fields = {"left_out": minute.left_out}
                super().emit(line)
