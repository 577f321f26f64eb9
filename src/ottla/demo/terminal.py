"""Where figures are shown: in place on a terminal, a line now and then everywhere else."""

import shutil
from collections.abc import Callable, Sequence
from typing import Final, Protocol

IN_PLACE_SECONDS: Final = 0.5
LINE_SECONDS: Final = 5.0
_UP: Final = "\x1b[{}F"
_ERASE_BELOW: Final = "\x1b[J"


class Stream(Protocol):
    """``sys.stdout`` is one."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...

    def isatty(self) -> bool: ...


class Display:
    """One block of lines that is rewritten; what is said in between stands above it."""

    def __init__(
        self, stream: Stream, *, size: Callable[[], tuple[int, int]] = shutil.get_terminal_size
    ) -> None:
        self.is_live = stream.isatty()
        self._stream = stream
        self._size = size
        self._shown = 0

    @property
    def every_seconds(self) -> float:
        return IN_PLACE_SECONDS if self.is_live else LINE_SECONDS

    @property
    def width(self) -> int:
        return self._size()[0]

    def say(self, text: str) -> None:
        """A line that stays."""
        self._stream.write(self._away() + text + "\n")
        self._stream.flush()

    def show(self, lines: Sequence[str]) -> None:
        """Put these lines in the place of the last ones; as many as fit."""
        fitting = lines[: max(1, self._size()[1] - 1)]
        self._stream.write(self._away() + "".join(f"{line}\n" for line in fitting))
        self._stream.flush()
        self._shown = len(fitting)

    def _away(self) -> str:
        shown, self._shown = self._shown, 0
        return _UP.format(shown) + _ERASE_BELOW if shown else ""
