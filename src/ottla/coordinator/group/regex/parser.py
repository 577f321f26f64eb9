"""RE2's syntax, as Kafka accepts it: Perl's classes, lazy operators, named groups, Unicode classes.

What would need going back is not in RE2, and is refused: back references, looking ahead or behind.
The words of the refusals are re2j's, since clients show them.
"""

from typing import Final

from ottla.common.errors import InvalidRegularExpression
from ottla.coordinator.group.regex import charset
from ottla.coordinator.group.regex.escapes import Text, escaped, unicode_escape
from ottla.coordinator.group.regex.nodes import (
    Alternation,
    At,
    Node,
    OneOf,
    Position,
    Repeat,
    Sequence,
)

REPEAT_MAX: Final = 1_000
DEPTH_MAX: Final = 100
"""Groups within groups."""
LENGTH_MAX: Final = 4_096
"""Characters of an expression; Kafka has no bound."""

_PERL_SYNTAX: Final = "invalid or unsupported Perl syntax"
_NO_ARGUMENT: Final = "missing argument to repetition operator"
_POSITIONS: Final = {
    "A": Position.BEGIN,
    "b": Position.WORD_BOUNDARY,
    "B": Position.NO_WORD_BOUNDARY,
    "z": Position.END,
}


def parse(expression: str) -> Node:
    if len(expression) > LENGTH_MAX:
        raise InvalidRegularExpression("expression is too large")
    return _Parser(expression).parse()


class _Flags:
    """Of the group that is being read; a group begins with those of the one around it."""

    __slots__ = ("any_newline", "fold")

    def __init__(self, *, fold: bool = False, any_newline: bool = False) -> None:
        self.fold = fold
        self.any_newline = any_newline

    def copy(self) -> "_Flags":
        return _Flags(fold=self.fold, any_newline=self.any_newline)


class _Parser:
    def __init__(self, expression: str) -> None:
        self._text = Text(expression)
        self._names: set[str] = set()
        self._depth = 0

    def parse(self) -> Node:
        node = self._choice(_Flags())
        if self._text.more:
            raise InvalidRegularExpression("regexp/syntax: internal error")  # a ) too many
        return node

    def _choice(self, flags: _Flags) -> Node:
        options = [self._sequence(flags)]
        while self._text.take("|"):
            options.append(self._sequence(flags))
        return options[0] if len(options) == 1 else Alternation(tuple(options))

    def _sequence(self, flags: _Flags) -> Node:
        items: list[Node] = []
        repeated = False
        while self._text.more and self._text.peek not in "|)":
            bounds = self._repetition()
            if bounds is None:
                items.extend(self._items(flags))
                repeated = False
                continue
            if repeated:
                raise InvalidRegularExpression("invalid nested repetition operator")
            if not items:
                raise InvalidRegularExpression(_NO_ARGUMENT)
            items[-1] = Repeat(items[-1], *bounds)
            repeated = True
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    # Repetition

    def _repetition(self) -> tuple[int, int | None] | None:
        """The bounds of the operator that stands here, or None when none does."""
        bounds: tuple[int, int | None]
        match self._text.peek:
            case "*":
                bounds = (0, None)
            case "+":
                bounds = (1, None)
            case "?":
                bounds = (0, 1)
            case "{":
                counted = self._counted()
                if counted is None:
                    return None
                self._text.take("?")
                return counted
            case _:
                return None
        self._text.next()
        self._text.take("?")
        return bounds

    def _counted(self) -> tuple[int, int | None] | None:
        """``{2}``, ``{2,}`` or ``{2,5}``; anything else is read as it stands."""
        text, start = self._text, self._text.position
        text.next()
        low = text.number()
        high: int | None = low
        if low is not None and text.take(","):
            high = None if text.stands_in("}") else text.number()
            if high is None and not text.stands_in("}"):
                low = None
        if low is None or not text.take("}"):
            text.position = start
            return None
        if low > REPEAT_MAX or (high is not None and (high > REPEAT_MAX or low > high)):
            raise InvalidRegularExpression("invalid repeat count")
        return low, high

    # One item

    def _items(self, flags: _Flags) -> list[Node]:
        """What stands here; a quotation is several, a flag none."""
        text = self._text
        match text.peek:
            case "(":
                return self._group(flags)
            case "[":
                return [OneOf(self._class(flags))]
            case ".":
                text.next()
                return [OneOf(charset.ALL if flags.any_newline else charset.NOT_NEWLINE)]
            case "^":
                text.next()
                return [At(Position.BEGIN)]
            case "$":
                text.next()
                return [At(Position.END)]
            case "\\":
                return self._escape(flags)
            case _:
                return [_literal(text.next(), flags)]

    def _group(self, flags: _Flags) -> list[Node]:
        text = self._text
        text.next()
        inner = flags.copy()
        if text.take("?"):
            name_follows = text.take("P<") or (text.looks_at("<") and text.take("<"))
            if name_follows:
                self._group_name()
            elif not self._flags(flags, inner):
                return []
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise InvalidRegularExpression("expression nests too deeply")
        node = self._choice(inner)
        self._depth -= 1
        if not text.take(")"):
            raise InvalidRegularExpression("missing closing )")
        return [node]

    def _group_name(self) -> None:
        name = self._text.until(">")
        if not name or not all(c == "_" or (c.isascii() and c.isalnum()) for c in name):
            raise InvalidRegularExpression("invalid named capture")
        if name in self._names:
            raise InvalidRegularExpression("duplicate capture group name")
        self._names.add(name)

    def _flags(self, outer: _Flags, inner: _Flags) -> bool:
        """Read ``imsU-imsU`` up to ``:`` (a group follows) or ``)`` (they hold from here on)."""
        text, value, seen, changed = self._text, True, False, inner.copy()
        while text.more:
            character = text.next()
            match character:
                case "i":
                    changed.fold = value
                case "s":
                    changed.any_newline = value
                case "m" | "U":
                    pass  # a name is one line, and lazy or greedy is the same
                case "-" if value:
                    value, seen = False, False
                    continue
                case ":" | ")" if value or seen:
                    target = inner if character == ":" else outer
                    target.fold, target.any_newline = changed.fold, changed.any_newline
                    return character == ":"
                case _:
                    raise InvalidRegularExpression(_PERL_SYNTAX)
            seen = True
        raise InvalidRegularExpression(_PERL_SYNTAX)

    def _escape(self, flags: _Flags) -> list[Node]:
        text = self._text
        if text.take("\\Q"):
            quoted = text.until("\\E", to_the_end=True)
            return [_literal(character, flags) for character in quoted]
        following = text.after(1)
        if following in _POSITIONS:
            text.position += 2
            return [At(_POSITIONS[following])]
        if following in charset.PERL:
            text.position += 2
            return [OneOf(charset.PERL[following])]
        if following in ("p", "P"):
            mask = unicode_escape(text)
            return [OneOf(charset.fold(mask) if flags.fold else mask)]
        return [_literal(chr(escaped(text)), flags)]

    # Classes

    def _class(self, flags: _Flags) -> int:
        text = self._text
        text.next()
        negated = text.take("^")
        mask, first = charset.NONE, True
        while first or not text.stands_in("]"):
            first = False
            if not text.more:
                raise InvalidRegularExpression("missing closing ]")
            mask |= self._class_item(flags)
        text.next()
        return charset.complement(mask) if negated else mask

    def _class_item(self, flags: _Flags) -> int:
        text = self._text
        if text.looks_at("[:") and ":]" in text.rest:
            text.position += 2
            name = text.until(":]")
            mask = charset.POSIX.get(name.removeprefix("^"))
            if mask is None:
                raise InvalidRegularExpression("invalid character class range")
            return charset.complement(mask) if name.startswith("^") else _folded(mask, flags)
        if text.peek == "\\":
            following = text.after(1)
            if following in charset.PERL:
                text.position += 2
                return charset.PERL[following]
            if following in ("p", "P"):
                return _folded(unicode_escape(text), flags)
        low = high = self._class_character()
        if text.looks_at("-") and text.after(1) not in ("", "]"):
            text.next()
            high = self._class_character()
            if high < low:
                raise InvalidRegularExpression("invalid character class range")
        mask = _folded(charset.between(low, high), flags)
        return mask | charset.folded_from_beyond(low, high) if flags.fold else mask

    def _class_character(self) -> int:
        if not self._text.more:
            raise InvalidRegularExpression("missing closing ]")
        return escaped(self._text) if self._text.peek == "\\" else ord(self._text.next())


def _folded(mask: int, flags: _Flags) -> int:
    return charset.fold(mask) if flags.fold else mask


def _literal(character: str, flags: _Flags) -> Node:
    code = ord(character)
    mask = _folded(charset.between(code, code), flags)
    return OneOf(mask | charset.folded_from_beyond(code, code) if flags.fold else mask)
