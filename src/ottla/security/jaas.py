"""``sasl.jaas.config``: one login module with its options, in the form that Java's JAAS has.

``<class> <flag> (<key>=<value>)* ;`` as Kafka's JaasConfig reads it by a StreamTokenizer. The class
is data: nothing is loaded by its name. An error names the place, never what stands there.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig

PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTHBEARER_MODULE: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_QUOTES: Final = "'\""
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}
_OCTAL: Final = "01234567"


class JaasEntry(NamedTuple):
    """A login module and its options, which hold secrets: they are never shown."""

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module}, [hidden])"

    def __str__(self) -> str:
        return repr(self)


class _Token(NamedTuple):
    text: str
    is_word: bool
    """Bare or in quotes; else a sign."""


def parse_jaas(text: str, name: str) -> JaasEntry:
    """The entry in ``text``, the value of the setting ``name``; InvalidConfig when it is none."""
    tokens = list(_tokens(text, name))
    if not tokens:
        raise InvalidConfig(f"{name}: Login module not specified in JAAS config")
    if not tokens[0].is_word:
        raise _wrong(name, "it does not begin with the class of a login module")
    if len(tokens) == 1 or not tokens[1].is_word:
        raise _wrong(name, "the control flag is missing behind the login module")
    if tokens[1].text.lower() not in _FLAGS:
        raise _wrong(name, "the control flag is none of required, requisite, sufficient, optional")
    options: dict[str, str] = {}
    place = 2
    while place < len(tokens) and tokens[place].is_word:
        key, equals, value = (*tokens[place : place + 3], None, None)[:3]
        if equals is None or equals.text != "=" or equals.is_word:
            raise _wrong(name, f"option {len(options) + 1} has no value; or ';' is missing")
        if value is None or not value.is_word:
            raise _wrong(name, f"option {len(options) + 1} has no value, or one without quotes")
        assert key is not None
        options[key.text] = value.text
        place += 3
    if place >= len(tokens) or tokens[place] != _Token(";", is_word=False):
        raise _wrong(name, "it is not terminated by a semi-colon")
    if place + 1 < len(tokens):
        raise _wrong(name, "there must be exactly one login module, and nothing behind it")
    return JaasEntry(tokens[0].text, options)


def _wrong(name: str, reason: str) -> InvalidConfig:
    return InvalidConfig(f"JAAS config of {name} cannot be read: {reason}")


def _tokens(text: str, name: str) -> Iterator[_Token]:
    place, end = 0, len(text)
    while place < end:
        char = text[place]
        if char <= " ":
            place += 1
        elif text.startswith("//", place):
            newline = text.find("\n", place)
            place = end if newline < 0 else newline
        elif text.startswith("/*", place):
            closing = text.find("*/", place + 2)
            place = end if closing < 0 else closing + 2
        elif char in _QUOTES:
            word, place = _quoted(text, place, name)
            yield _Token(word, is_word=True)
        elif _begins_word(char):
            begin = place
            while place < end and (_begins_word(text[place]) or text[place] in "0123456789.-"):
                place += 1
            yield _Token(text[begin:place], is_word=True)
        else:
            yield _Token(char, is_word=False)
            place += 1


def _begins_word(char: str) -> bool:
    """As the tokenizer has it: letters, and all above ASCII; and what JAAS adds."""
    return (char.isascii() and char.isalpha()) or char in "_$" or char >= "\xa0"


def _quoted(text: str, place: int, name: str) -> tuple[str, int]:
    """The word in quotes that begins at ``place``, and where it ends."""
    quote = text[place]
    place += 1
    out: list[str] = []
    while place < len(text):
        char = text[place]
        place += 1
        if char == quote:
            return "".join(out), place
        if char in "\r\n":
            break
        if char != "\\":
            out.append(char)
        elif place < len(text):
            char, place = _escaped(text, place)
            out.append(char)
    raise _wrong(name, "a quote is not closed on its line")


def _escaped(text: str, place: int) -> tuple[str, int]:
    """What a backslash and the characters at ``place`` stand for, and where they end."""
    char = text[place]
    if char not in _OCTAL:
        return _ESCAPES.get(char, char), place + 1
    digits = 1
    most = 3 if char <= "3" else 2
    while digits < most and text[place + digits : place + digits + 1] in tuple(_OCTAL):
        digits += 1
    return chr(int(text[place : place + digits], 8)), place + digits
