"""Options as the user gave them, for source and sink alike.

Names are the same in any case of letters, as everywhere in Spark. A name that nobody knows is
refused: an option that is silently without effect costs its user more than one that is refused.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Final, overload

from ottla.spark.errors import BadOption
from ottla.spark.kafka_settings import PREFIX

_TRUTHS: Final = {"true": True, "false": False}
_MILLISECONDS: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}
_BYTES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class GivenOptions:
    """Options as they were given, taken out by name and kind."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self.values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in known}
        for name in options:
            if name.lower() not in names and not name.lower().startswith(PREFIX):
                raise BadOption(f"the option {name} is unknown{_meant(name, known)}")

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.values

    def text(self, name: str) -> str | None:
        return self.values.get(name.lower())

    def truth(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in _TRUTHS:
            raise BadOption(f"{name}: expected true or false, got {text!r}")
        return _TRUTHS[text.strip().lower()]

    @overload
    def number(
        self, name: str, default: int, *, least: int = 1, most: int | None = None
    ) -> int: ...

    @overload
    def number(
        self, name: str, default: None = None, *, least: int = 1, most: int | None = None
    ) -> int | None: ...

    def number(
        self, name: str, default: int | None = None, *, least: int = 1, most: int | None = None
    ) -> int | None:
        text = self.text(name)
        if text is None:
            return default
        number = int(text) if re.fullmatch(r"-?\d{1,18}", text.strip()) else None
        if number is None or number < least or (most is not None and number > most):
            wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
            raise BadOption(f"{name}: expected a number {wanted}, got {text!r}")
        return number

    def milliseconds(self, name: str, default: str) -> int:
        """A time as Spark writes it: ``15m``, ``30s``; a number alone is of milliseconds."""
        text = self.text(name)
        text = default if text is None else text
        found = re.fullmatch(r"(\d{1,15})\s*([a-z]*)", text.strip().lower())
        if found is None or (found[2] or "ms") not in _MILLISECONDS:
            raise BadOption(f"{name}: expected a time such as 30s or 15m, got {text!r}")
        return int(int(found[1]) * _MILLISECONDS[found[2] or "ms"])

    def bytes(self, name: str) -> int | None:
        """A size as Spark writes it: ``64m``, ``1g``; a number alone is of bytes."""
        text = self.text(name)
        if text is None:
            return None
        found = re.fullmatch(r"(\d{1,15})\s*([bkmgt]?)b?", text.strip().lower())
        if found is None or int(found[1]) == 0:
            raise BadOption(f"{name}: expected a size such as 64m or 1g, got {text!r}")
        return int(found[1]) * _BYTES[found[2]]

    def word(self, name: str, words: tuple[str, ...]) -> str:
        """One of ``words``; the first when nothing is said."""
        text = self.text(name)
        if text is None:
            return words[0]
        if text.strip().lower() not in words:
            raise BadOption(f"{name}: expected {' or '.join(words)}, got {text!r}")
        return text.strip().lower()


def _meant(name: str, known: tuple[str, ...]) -> str:
    lower = {each.lower(): each for each in known}
    lower["kafka.bootstrap.servers"] = "kafka.bootstrap.servers"
    close = difflib.get_close_matches(name.lower(), lower, 1, 0.6)
    return f"; did you mean {lower[close[0]]}?" if close else ""
