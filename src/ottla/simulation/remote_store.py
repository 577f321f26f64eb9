"""The remote store that the nodes of a simulated cluster share, and its moods.

Work for it takes its time, which is drawn, and is done at the beginning or at the end of that time;
so a node that was replaced, or is slow, writes and removes when others have gone on. A node that is
killed takes its work with it. What fails has either not happened, or only its answer was lost.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeVar

from ottla.common.chance import Chance
from ottla.common.promise import Promise, settle_by
from ottla.simulation.scheduler import NodeScheduler
from ottla.storage.files import Filesystem
from ottla.testing.remote_store import MemoryStore
from ottla.tiered.store import RemoteStoreError

T = TypeVar("T")


class Mood(NamedTuple):
    seconds: tuple[float, float]
    """How long work takes."""
    fails_one_in: int = 0
    """How many operations come to a failure; 0: none fails."""
    hangs_one_in: int = 0
    """How many works take as long as ``HANG_SECONDS``."""


HANG_SECONDS: Final = (20.0, 60.0)
WELL: Final = Mood((0.001, 0.05))
MOODS: Final = {
    "well": WELL,
    "slow": Mood((0.05, 4.0)),
    "failing": Mood((0.001, 0.5), fails_one_in=12),
    "hanging": Mood((0.001, 0.5), fails_one_in=60, hangs_one_in=25),
}


class SharedStore:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self.objects: dict[str, bytes] = {}
        self.mood = WELL

    def heal(self) -> None:
        """It is well from now on; what hangs still takes its time."""
        self.mood = WELL

    def store(self, files: Filesystem) -> MemoryStore:
        """The store as a node with these files sees it."""
        store = MemoryStore(files, self.objects)
        store.fail = lambda operation, key: self._fail(store, operation, key)
        return store

    def _fail(self, store: MemoryStore, operation: str, key: str) -> RemoteStoreError | None:
        one_in = self.mood.fails_one_in
        if not one_in or self._chance.below(one_in):
            return None
        if self._chance.below(2):
            # It is done, and nobody hears of it.
            store.fail_at(-1, takes_effect=True)
            return None
        return RemoteStoreError(f"{operation} of {key} fails")

    def work(self, scheduler: NodeScheduler, work: Callable[[], T]) -> Promise[T]:
        """Do what blocks, for a node, in its time."""
        promise: Promise[T] = Promise(scheduler.turn)
        mood, chance = self.mood, self._chance
        hangs = mood.hangs_one_in and chance.below(mood.hangs_one_in) == 0
        delay = chance.between(*(HANG_SECONDS if hangs else mood.seconds))
        if chance.below(2):
            done: Promise[T] = Promise(scheduler.turn)
            scheduler.call_soon(settle_by, done, work)
            scheduler.call_later(delay, settle_by, promise, done.result)
        else:
            scheduler.call_later(delay, settle_by, promise, work)
        return promise
