"""Reading an expression character by character, and what follows a backslash."""

from typing import Final

from ottla.common.errors import InvalidRegularExpression
from ottla.coordinator.group.regex import charset

_INVALID: Final = "invalid escape sequence"
_CONTROL: Final = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_OCTAL: Final = "01234567"
_HEXADECIMAL: Final = "0123456789abcdefABCDEF"
_CODE_POINT_MAX: Final = 0x10FFFF
_DIGITS_MAX: Final = 9


class Text:
    """An expression, and how far it is read."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    @property
    def more(self) -> bool:
        return self.position < len(self.text)

    def stands_in(self, characters: str) -> bool:
        """Whether one of ``characters`` stands here."""
        return self.position < len(self.text) and self.text[self.position] in characters

    @property
    def peek(self) -> str:
        return self.text[self.position]

    @property
    def rest(self) -> str:
        return self.text[self.position :]

    def after(self, count: int) -> str:
        """The character that stands ``count`` further, or nothing."""
        return self.text[self.position + count : self.position + count + 1]

    def next(self) -> str:
        character = self.text[self.position]
        self.position += 1
        return character

    def looks_at(self, expected: str) -> bool:
        return self.text.startswith(expected, self.position)

    def take(self, expected: str) -> bool:
        """Read ``expected``, if that is what stands here."""
        if not self.looks_at(expected):
            return False
        self.position += len(expected)
        return True

    def until(self, end: str, *, to_the_end: bool = False) -> str:
        """What stands before ``end``, which is read too; nothing when there is no end."""
        found = self.text.find(end, self.position)
        if found < 0:
            if not to_the_end:
                return ""
            found = len(self.text)
        part = self.text[self.position : found]
        self.position = min(found + len(end), len(self.text))
        return part

    def number(self) -> int | None:
        """Decimal digits; none, or a zero before others, is no number."""
        start = self.position
        while self.stands_in("0123456789"):
            self.position += 1
        digits = self.text[start : self.position]
        if not digits or (len(digits) > 1 and digits[0] == "0"):
            return None
        return int(digits[:_DIGITS_MAX])


def escaped(text: Text) -> int:
    """The character that an escape stands for."""
    text.next()
    if not text.more:
        raise InvalidRegularExpression("trailing backslash at end of expression")
    character = text.next()
    if character in "1234567" and not text.stands_in(_OCTAL):
        raise InvalidRegularExpression(_INVALID)  # a back reference
    if character in _OCTAL:
        value = int(character)
        for _ in range(2):
            if text.stands_in(_OCTAL):
                value = value * 8 + int(text.next())
        return value
    if character == "x":
        return _hexadecimal(text)
    if character in _CONTROL:
        return _CONTROL[character]
    if character.isascii() and not character.isalnum():
        return ord(character)
    raise InvalidRegularExpression(_INVALID)


def _hexadecimal(text: Text) -> int:
    """Two digits, or any number of them in braces."""
    if text.take("{"):
        digits = text.until("}")
    else:
        digits = text.rest[:2].ljust(2)
        text.position = min(text.position + 2, len(text.text))
    if not digits or any(digit not in _HEXADECIMAL for digit in digits):
        raise InvalidRegularExpression(_INVALID)
    value = int(digits, 16)
    if value > _CODE_POINT_MAX:
        raise InvalidRegularExpression(_INVALID)
    return value


def unicode_escape(text: Text) -> int:
    """A class by its name, in braces unless it is one letter; with ``P`` or ``^`` the others."""
    text.next()
    negated = text.next() == "P"
    if not text.more:
        raise InvalidRegularExpression("invalid character class range")
    if text.take("{"):
        name = text.until("}")
    else:
        name = text.next()
    if name.startswith("^"):
        negated, name = not negated, name[1:]
    mask = charset.unicode_class(name)
    if mask is None:
        raise InvalidRegularExpression("invalid character class range")
    return charset.complement(mask) if negated else mask
