"""``ssl.principal.mapping.rules``: a short name made of the name in a certificate.

A list of ``DEFAULT`` (the name as it is) and ``RULE:pattern/replacement/`` with ``L`` or ``U``
behind it for lower or upper case. The first rule whose pattern matches the whole name holds.
"""

import re
from collections.abc import Callable
from typing import Final

from ottla.common.errors import InvalidConfig

_RULE: Final = re.compile(r"(DEFAULT)|RULE:((\\.|[^\\/])*)/((\\.|[^\\/])*)/([LU]?)")
_GROUP: Final = re.compile(r"\$(\d+)")
SETTING: Final = "ssl.principal.mapping.rules"


def parse_rules(text: str) -> Callable[[str], str | None]:
    """What makes a principal's name of a certificate's; None when no rule fits."""
    rules = []
    pos = 0
    text = text.strip()
    while pos < len(text):
        match = _RULE.match(text, pos)
        if match is None:
            raise InvalidConfig(f"Invalid rule in {SETTING}: `{text[pos:]}`")
        rules.append(_rule(match))
        pos = match.end()
        separator = re.compile(r"\s*,\s*").match(text, pos)
        if separator is None and pos < len(text):
            raise InvalidConfig(f"Invalid rule in {SETTING}: `{text[pos:]}`")
        if separator is not None:
            pos = separator.end()

    def apply(name: str) -> str | None:
        for rule in rules:
            made = rule(name)
            if made is not None:
                return made
        return None

    return apply


def _rule(match: re.Match[str]) -> Callable[[str], str | None]:
    if match[1] is not None:
        return lambda name: name
    try:
        pattern = re.compile(match[2])
    except re.error as error:
        raise InvalidConfig(f"Invalid rule in {SETTING}: {match[2]}: {error}") from None
    replacement, case = match[4], match[6]

    def apply(name: str) -> str | None:
        found = pattern.fullmatch(name)
        if found is None:
            return None
        made = _GROUP.sub(lambda group: _group(found, group), replacement)
        if case == "L":
            return made.lower()
        return made.upper() if case == "U" else made

    return apply


def _group(found: re.Match[str], group: re.Match[str]) -> str:
    """The text of a group; a number that the pattern does not have stays as it is written."""
    number = int(group[1])
    return (found[number] or "") if number <= found.re.groups else group[0]
