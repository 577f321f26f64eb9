"""Dictionaries that can go back: to the last committed write, or to before one that failed.

A coordinator replays its records as soon as it has made them, so that the next request sees them,
but they may still fail to be written. What a write changes is therefore remembered in a layer:

- ``seal`` closes the layer of one write and opens the next,
- ``commit`` forgets the layers of the writes that are committed,
- ``revert`` undoes a failed write and everything that came after it.

Layers hold the *old* values. The current value is thus read at the price of a plain dictionary,
and the committed one by asking the layers, oldest first. There are few: those of writes
that are not committed yet. Nothing is remembered before ``begin``: what is loaded is committed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_ABSENT: Final[Any] = object()


class _Layer:
    __slots__ = ("changes", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.changes: dict[TimelineDict[Any, Any], dict[Any, Any]] = {}


class Timeline:
    """The layers that the dictionaries of one state machine share."""

    __slots__ = ("_next", "layers")

    def __init__(self) -> None:
        self.layers: deque[_Layer] = deque()
        """Of writes that are not committed, and the open one; each dictionary notes in them."""
        self._next = 0

    @property
    def open_layer(self) -> int:
        """The number of the write that is being gathered."""
        return self.layers[-1].number

    def begin(self) -> None:
        assert not self.layers
        self._open()

    def _open(self) -> None:
        self.layers.append(_Layer(self._next))
        self._next += 1

    def seal(self) -> int:
        """Close the open layer and return its number; later changes belong to the next write."""
        number = self.open_layer
        self._open()
        return number

    def commit(self, number: int) -> None:
        """Forget how to undo the writes up to and with ``number``."""
        assert number < self.open_layer
        while self.layers[0].number <= number:
            self.layers.popleft()

    def revert(self, number: int) -> None:
        """Undo the write ``number`` and all later ones."""
        while self.layers and self.layers[-1].number >= number:
            for dictionary, changes in self.layers.pop().changes.items():
                dictionary.restore(changes)
        self._open()


class TimelineDict(Generic[K, V]):
    """A dictionary of a timeline; keeps the order of insertion, except over a revert."""

    __slots__ = ("_dropped", "_items", "_layers")

    def __init__(self, timeline: Timeline, dropped: Callable[[V], object] | None = None) -> None:
        """``dropped`` is told of each value that a revert takes away."""
        self._items: dict[K, V] = {}
        self._layers = timeline.layers
        self._dropped = dropped

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._items))

    def items(self) -> list[tuple[K, V]]:
        return list(self._items.items())

    def values(self) -> list[V]:
        return list(self._items.values())

    def __setitem__(self, key: K, value: V) -> None:
        if self._layers:
            self._remember(key)
        self._items[key] = value

    def pop(self, key: K) -> V | None:
        if key not in self._items:
            return None
        if self._layers:
            self._remember(key)
        return self._items.pop(key)

    def committed(self, key: K) -> V | None:
        """The value as of the last committed write."""
        for layer in self._layers:
            changes: dict[K, V] | None = layer.changes.get(self)
            if changes is not None and key in changes:
                old = changes[key]
                return None if old is _ABSENT else old
        return self._items.get(key)

    def uncommitted(self) -> set[K]:
        """The keys that writes have changed which are not committed."""
        return {key for layer in self._layers for key in layer.changes.get(self, ())}

    def committed_items(self) -> list[tuple[K, V]]:
        """All items as of the last committed write."""
        undone = [changes for layer in self._layers if (changes := layer.changes.get(self))]
        if not undone:
            return self.items()
        items = dict(self._items)
        for changes in reversed(undone):
            _undo(items, changes)
        return list(items.items())

    def _remember(self, key: K) -> None:
        changes: dict[K, V] = self._layers[-1].changes.setdefault(self, {})
        if key not in changes:
            changes[key] = self._items.get(key, _ABSENT)

    def restore(self, changes: dict[K, V]) -> None:
        """Take back what the timeline gives up."""
        if self._dropped is not None:
            for key, old in changes.items():
                value = self._items.get(key)
                if value is not None and value is not old:
                    self._dropped(value)
        _undo(self._items, changes)


def _undo(items: dict[K, V], changes: dict[K, V]) -> None:
    for key, old in changes.items():
        if old is _ABSENT:
            items.pop(key, None)
        else:
            items[key] = old
