"""Names that stand for several: ``*``, ``?`` and ``[...]`` as shells have them."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from ottla.cli.output import Output

_WILD: Final = frozenset("*?[")


def has_pattern(names: Iterable[str]) -> bool:
    return any(not _WILD.isdisjoint(name) for name in names)


def expand(names: Iterable[str], known: Iterable[str], noun: str, output: Output) -> list[str]:
    """Names as they are, and for a pattern those that it matches; one without any is an error.

    What is there under exactly that name is meant by it: groups may be called anything.
    """
    known = sorted(known)
    found: dict[str, None] = {}
    for name in names:
        if name in known or not has_pattern([name]):
            found[name] = None
            continue
        matched = [each for each in known if fnmatchcase(each, name)]
        if not matched:
            output.error("NO_MATCH", f"no {noun} is called like it", **{noun: name})
        found.update(dict.fromkeys(matched))
    return list(found)
