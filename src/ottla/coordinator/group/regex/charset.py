"""Sets of characters, as far as topic names go: a bit for each of ASCII's 128.

The name of a topic is made of ASCII alone, so of a class of letters only what it has
in ASCII can ever match. All names that RE2 knows are known here, so that what is valid for
Kafka is valid for us.
"""

import unicodedata
from typing import Final

SIZE: Final = 128
ALL: Final = (1 << SIZE) - 1
NONE: Final = 0


def of(text: str) -> int:
    mask = 0
    for character in text:
        if ord(character) < SIZE:
            mask |= 1 << ord(character)
    return mask


def between(low: int, high: int) -> int:
    """All from ``low`` to ``high``, both included, that are ASCII."""
    if low >= SIZE:
        return NONE
    high = min(high, SIZE - 1)
    return (1 << (high + 1)) - (1 << low)


def complement(mask: int) -> int:
    return ALL & ~mask


DIGITS: Final = between(ord("0"), ord("9"))
UPPER: Final = between(ord("A"), ord("Z"))
LOWER: Final = between(ord("a"), ord("z"))
WORD: Final = DIGITS | UPPER | LOWER | of("_")
SPACE: Final = of("\t\n\f\r ")
NOT_NEWLINE: Final = complement(of("\n"))

PERL: Final = {
    "d": DIGITS,
    "D": complement(DIGITS),
    "s": SPACE,
    "S": complement(SPACE),
    "w": WORD,
    "W": complement(WORD),
}

POSIX: Final = {
    "alnum": DIGITS | UPPER | LOWER,
    "alpha": UPPER | LOWER,
    "ascii": ALL,
    "blank": of("\t "),
    "cntrl": between(0, 31) | between(127, 127),
    "digit": DIGITS,
    "graph": between(ord("!"), ord("~")),
    "lower": LOWER,
    "print": between(ord(" "), ord("~")),
    "punct": between(ord("!"), ord("/"))
    | between(ord(":"), ord("@"))
    | between(ord("["), ord("`"))
    | between(ord("{"), ord("~")),
    "space": SPACE | of("\v"),
    "upper": UPPER,
    "word": WORD,
    "xdigit": DIGITS | of("abcdefABCDEF"),
}

_FOLDED_FROM_BEYOND: Final = {"\u212a": of("kK"), "\u017f": of("sS")}
"""The Kelvin sign and the long s: not ASCII, but what they fold to is."""


def fold(mask: int) -> int:
    """With each letter also its other case."""
    return mask | (mask & UPPER) << 32 | (mask & LOWER) >> 32


def folded_from_beyond(low: int, high: int) -> int:
    """What characters from ``low`` to ``high`` that are not ASCII have in ASCII, by folding."""
    mask = NONE
    for character, folded in _FOLDED_FROM_BEYOND.items():
        if low <= ord(character) <= high:
            mask |= folded
    return mask


_CATEGORY_NAMES: Final = """
    Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Zs Zl Zp Cc Cf Co Cs Pd Ps Pe Pc Po Sm Sc Sk So Pi Pf
    P S C Z L M N
"""
_CATEGORIES: Final = frozenset(_CATEGORY_NAMES.split())
_SCRIPT_NAMES: Final = """
    Common Inherited Bamum Arabic Lisu Armenian Bengali Old_South_Arabian Bopomofo Cherokee Coptic
    Cyrillic Deseret Devanagari Ethiopic Georgian Gothic Greek Gujarati Gurmukhi Han Hangul Hebrew
    Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Ogham Old_Italic Oriya
    Runic Sinhala Syriac Tamil Telugu Thaana Thai Tibetan Canadian_Aboriginal Yi Tagalog Hanunoo
    Buhid Tagbanwa Braille Cypriot Limbu Linear_B Osmanya Shavian Tai_Le Ugaritic Buginese
    Glagolitic Kharoshthi Syloti_Nagri New_Tai_Lue Tifinagh Old_Persian Balinese Batak Brahmi Cham
    Egyptian_Hieroglyphs Javanese Kayah_Li Lepcha Mandaic Nko Old_Turkic Phags_Pa Phoenician Vai
    Cuneiform Carian Tai_Tham Lycian Lydian Ol_Chiki Rejang Saurashtra Sundanese Meetei_Mayek
    Imperial_Aramaic Avestan Kaithi Inscriptional_Pahlavi Inscriptional_Parthian Samaritan Tai_Viet
"""
_SCRIPTS: Final = frozenset(_SCRIPT_NAMES.split())


def unicode_class(name: str) -> int | None:
    """The class of that name; None when there is no such class."""
    if name == "Any":
        return ALL
    if name in _CATEGORIES:
        return of(
            "".join(chr(c) for c in range(SIZE) if unicodedata.category(chr(c)).startswith(name))
        )
    if name == "Latin":
        return UPPER | LOWER
    if name == "Common":
        return complement(UPPER | LOWER)
    return NONE if name in _SCRIPTS else None
