"""A mapping that is never changed, and from which the next one is made in little time.

The next one shares the entries below and has what changed above them. When so many are above that
copying them costs more than it spares, all are laid into one dictionary again: of ``n`` entries a
change copies about the root of ``n``, not ``n``. Whatever looks at all entries has them laid into
one first. The order is that of a dictionary.
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Final, Generic, NamedTuple, TypeVar

K = TypeVar("K")
V = TypeVar("V")

COPIED_MAX: Final = 128
"""So few entries are copied as they are: a dictionary is the fastest to read."""


def changed_map(
    base: Mapping[K, V], changed: Mapping[K, V], gone: Mapping[K, object] | None = None
) -> Mapping[K, V]:
    """``base`` without the keys of ``gone``, all of which it has, and then with ``changed``."""
    gone = gone or {}
    if len(base) <= COPIED_MAX:
        return _laid_into_one(base, changed, gone)
    if not isinstance(base, LayeredMap):
        base = LayeredMap(dict(base))
    return base.next(changed, gone)


def _laid_into_one(
    below: Mapping[K, V], above: Mapping[K, V], gone: Mapping[K, object]
) -> dict[K, V]:
    laid = dict(below)
    for key in gone:
        del laid[key]
    laid.update(above)
    return laid


class _Layers(NamedTuple, Generic[K, V]):
    below: dict[K, V]
    above: dict[K, V]
    gone: dict[K, None]
    """Keys of ``below`` that hold no longer; one that came back is in ``above`` too."""


class LayeredMap(Mapping[K, V]):
    """Made by :func:`changed_map`; no value is None."""

    __slots__ = ("_layers", "_size")

    def __init__(self, entries: dict[K, V]) -> None:
        self._layers: _Layers[K, V] = _Layers(entries, {}, {})
        """Replaced whole, never by another content: a snapshot is written on another thread."""
        self._size = len(entries)

    def next(self, changed: Mapping[K, V], gone: Mapping[K, object]) -> "LayeredMap[K, V]":
        below, above, lost = self._layers
        made: LayeredMap[K, V] = LayeredMap(below)
        if (len(above) + len(lost) + len(changed) + len(gone)) ** 2 > len(below):
            made._layers = _Layers(_laid_into_one(self._whole(), changed, gone), {}, {})
            made._size = len(made._layers.below)
            return made
        above, lost = dict(above), dict(lost)
        for key in gone:
            above.pop(key, None)
            if key in below:
                lost[key] = None
        above.update(changed)
        made._layers = _Layers(below, above, lost)
        new = sum(1 for key in above if key not in below or key in lost)
        made._size = len(below) - len(lost) + new
        return made

    def _whole(self) -> dict[K, V]:
        below, above, gone = self._layers
        if above or gone:
            below = _laid_into_one(below, above, gone)
            self._layers = _Layers(below, {}, {})
        return below

    def __getitem__(self, key: K) -> V:
        below, above, gone = self._layers
        found = above.get(key)
        if found is not None:
            return found
        if key in gone:
            raise KeyError(key)
        return below[key]

    def get(self, key: K, default: Any = None) -> Any:
        below, above, gone = self._layers
        found = above.get(key)
        if found is not None:
            return found
        return default if key in gone else below.get(key, default)

    def __contains__(self, key: object) -> bool:
        below, above, gone = self._layers
        return key in above or (key in below and key not in gone)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        return iter(self._whole())

    def keys(self) -> KeysView[K]:
        return self._whole().keys()

    def values(self) -> ValuesView[V]:
        return self._whole().values()

    def items(self) -> ItemsView[K, V]:
        return self._whole().items()
