"""Virtual time: nothing waits, everything happens in the order of its moment.

Work that a real node would hand to a thread is done on the spot, but its answer comes after a delay
drawn from the seed, so that what happens in between is explored. Each node of a cluster has a view
of its own (:class:`NodeScheduler`): it can be paused, its timers end with its process, and its
clocks may be wrong.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from typing import Any, Final, TypeVar

from ottla.common.chance import Chance
from ottla.common.promise import Promise, settle_by
from ottla.common.turn import Turn

T = TypeVar("T")

EPOCH_MS: Final = 1_700_000_000_000
"""What the wall clock shows when a simulation begins."""
BACKGROUND_SECONDS: Final = (0.0001, 0.01)
STEPS_LIMIT: Final = 50_000_000
MOMENT_STEPS_LIMIT: Final = 1_000_000


class SimulatedTimer(list[Any]):
    """A call that is to happen at a moment, unless it is cancelled or its node ends before.

    It is its own entry in the queue, since most of what a simulation makes are timers: moment,
    order among equals, callback, arguments, and for a node itself and its life.
    """

    __slots__ = ()

    def cancel(self) -> None:
        self[2] = None
        self[3] = ()


class SimulatedScheduler:
    """The one queue of everything that is to happen, and the time that all views begin from."""

    is_paused: Final = False
    life: Final = 0

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._heap: list[SimulatedTimer] = []
        self._order = 0
        self.now = 0.0
        self.steps = 0
        self.wall_skew_ms = 0
        self.turn = Turn(self.call_soon)
        """Of all that is in no node."""

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self.now * 1000) + self.wall_skew_ms

    def call_at(
        self,
        at: float,
        callback: Callable[..., Any],
        args: tuple[Any, ...],
        owner: "NodeScheduler | None" = None,
    ) -> SimulatedTimer:
        order = self._order = self._order + 1
        life = 0 if owner is None else owner.life
        timer = SimulatedTimer((at, order, callback, args, owner, life))
        heappush(self._heap, timer)
        return timer

    def call_again(self, timer: SimulatedTimer) -> None:
        """Let what was held back happen now, after all that is due already."""
        self._order += 1
        timer[0], timer[1] = self.now, self._order
        heappush(self._heap, timer)

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> SimulatedTimer:
        return self.call_at(self.now, callback, args)

    def call_later(
        self, seconds: float, callback: Callable[..., Any], *args: Any
    ) -> SimulatedTimer:
        return self.call_at(self.now + seconds if seconds > 0 else self.now, callback, args)

    def run_in_background(self, work: Callable[[], T], _lane: str = "") -> Promise[T]:
        promise: Promise[T] = Promise(self.turn)
        delay = self._chance.between(*BACKGROUND_SECONDS)
        self.call_later(delay, settle_by, promise, work)
        return promise

    def forget_all(self) -> None:
        """Nothing that was to happen happens any more: what waited for it is gone."""
        self._heap.clear()
        self.turn.forget_all()

    def next_at(self) -> float | None:
        """Return the moment of the next call that still counts."""
        heap = self._heap
        while heap:
            first = heap[0]
            if first[2] is not None:
                at: float = first[0]
                return at
            heappop(heap)
        return None

    def step(self) -> bool:
        """Go to the next moment at which something happens; False when there is none."""
        at = self.next_at()
        if at is None:
            return False
        now = self.now = max(self.now, at)
        heap = self._heap
        limit = self.steps + MOMENT_STEPS_LIMIT
        while heap and heap[0][0] <= now:
            assert self.steps < limit, "a moment of the simulation does not come to an end"
            timer = heappop(heap)
            _, _, callback, args, owner, life = timer
            if callback is None:
                continue
            turn = self.turn
            if owner is not None:
                if life != owner.life:
                    continue
                if owner.is_paused:
                    owner.held.append(timer)
                    continue
                owner.steps += 1
                turn = owner.turn
            self.steps += 1
            turn.run(callback, *args)
        assert self.steps < STEPS_LIMIT, "the simulation does not come to an end"
        return True

    def run_for(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            at = self.next_at()
            if at is None or at > end:
                self.now = end
                return
            self.step()

    def run_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Step until ``condition`` holds; tell whether it did within ``seconds``."""
        end = self.now + seconds
        while not condition():
            at = self.next_at()
            if at is None or at > end:
                return False
            self.step()
        return True


class NodeScheduler:
    """Time as one node has it.

    ``rate`` is how fast its monotonic clock goes, ``skew_ms`` how wrong its wall clock is. While it
    is paused nothing of the node happens; what was due then happens when it is resumed.
    """

    def __init__(self, scheduler: SimulatedScheduler, chance: Chance, *, rate: float = 1.0) -> None:
        self._scheduler = scheduler
        self._chance = chance
        self._rate = rate
        self._booted_at = chance.between(0.0, 10_000.0)
        self.skew_ms = 0
        self.background_seconds = BACKGROUND_SECONDS
        """How long background work takes, at least and at most; a slow disk makes it longer."""
        self.is_off_loop = False
        """Whether what is done now is done in the background, where it may block."""
        self._hung: set[str] = set()
        """Lanes of the background in which nothing ends."""
        self._held_up: list[Callable[[], None]] = []
        self.life = 0
        self.is_paused = False
        self.steps = 0
        """How often something of the node happened."""
        self.held: list[SimulatedTimer] = []
        """What was due during the pause, in its order."""
        self.turn = Turn(self.call_soon)

    def monotonic(self) -> float:
        return self._booted_at + self._scheduler.now * self._rate

    def wall_ms(self) -> int:
        return EPOCH_MS + int(self._scheduler.now * 1000) + self.skew_ms

    def call_soon(self, callback: Callable[..., Any], *args: Any) -> SimulatedTimer:
        scheduler = self._scheduler
        return scheduler.call_at(scheduler.now, callback, args, self)

    def call_later(
        self, seconds: float, callback: Callable[..., Any], *args: Any
    ) -> SimulatedTimer:
        scheduler = self._scheduler
        now = scheduler.now
        at = now + seconds / self._rate if seconds > 0 else now
        return scheduler.call_at(at, callback, args, self)

    def run_in_background(self, work: Callable[[], T], lane: str = "") -> Promise[T]:
        """Do the work as soon as can be, or as late: a sync covers only what it found."""
        promise: Promise[T] = Promise(self.turn)
        if lane in self._hung:
            self._held_up.append(lambda: self._in_background(promise, lambda: self._off(work)))
        else:
            self._in_background(promise, lambda: self._off(work))
        return promise

    def _off(self, work: Callable[[], T]) -> T:
        """Do ``work`` off the loop."""
        self.is_off_loop = True
        try:
            return work()
        finally:
            self.is_off_loop = False

    def _in_background(self, promise: Promise[T], work: Callable[[], T]) -> None:
        delay = self._chance.between(*self.background_seconds)
        if self._chance.below(2):
            self.call_soon(self._work_early, promise, work, delay)
        else:
            self.call_later(delay, settle_by, promise, work)

    def hang(self, lanes: Iterable[str]) -> None:
        """Let work in these lanes not end any more, until :meth:`release`."""
        self._hung.update(lanes)

    @property
    def is_hanging(self) -> bool:
        return bool(self._hung)

    def release(self) -> None:
        self._hung.clear()
        held_up, self._held_up = self._held_up, []
        for go_on in held_up:
            go_on()

    def _work_early(self, promise: Promise[T], work: Callable[[], T], delay: float) -> None:
        done: Promise[T] = Promise(self.turn)
        settle_by(done, work)
        self.call_later(delay, settle_by, promise, done.result)

    def forget_all(self) -> None:
        """The process is gone, and with it all that was to happen in it."""
        self.life += 1
        self.held.clear()
        self._held_up.clear()
        self.turn.forget_all()
        self.is_paused = False

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        held, self.held = self.held, []
        for timer in held:
            self._scheduler.call_again(timer)
