"""The supervisor's decisions: what has happened goes in, what is to be done comes out. Pure.

- A process that ends is started again: soon for the first time, then later and later. One that ends
  before it ever served cannot start: everything is stopped, and the exit code is 1.
- A stop ends all but the first process at once, and then the first, which may be the controller
  that lets the others go. What does not end in time is pressed, and then killed. Asked a second
  time, all are pressed at once; a third time, all are killed.
- A restart takes one process at a time, the first one last, and each only while all serve and the
  cluster is in sync. What does not come to that in time ends the restart, and nothing else.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

BACKOFF_SECONDS: Final = (0.5, 60.0)
"""Before a process that has ended is started again: the first time, and at most."""
STEADY_SECONDS: Final = 60.0
"""A process that served for so long has earned a fresh start."""
PATIENCE_SECONDS: Final = 30.0
"""For a process that stops, until it is pressed; and again until it is killed."""
SYNC_SECONDS: Final = 300.0
"""For a restart, until all serve and are in sync again."""
ASK_SECONDS: Final = 1.0
"""Between two questions whether the cluster is in sync."""


class ProcessState(Enum):
    WAITING = "waiting"
    """It has ended, and will be started."""
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"
    STOPPED = "stopped"


class RestartState(Enum):
    NONE = "none"
    GOING = "going"
    DONE = "done"
    GIVEN_UP = "given up"


class Spawn(NamedTuple):
    """Start the process of this number; :meth:`Supervisor.ended` tells when it cannot be."""

    number: int


class Press(NamedTuple):
    """Ask it to stop; asked again it hurries."""

    number: int


class Kill(NamedTuple):
    number: int


class AskSync(NamedTuple):
    """Ask all processes whether the cluster is in sync; :meth:`Supervisor.answered`."""

    question: int


class Say(NamedTuple):
    """A line for the log."""

    text: str
    node_id: int | None = None
    is_bad: bool = False


class Leave(NamedTuple):
    """All have ended; the supervisor's exit code."""

    exit_code: int


Act: TypeAlias = Spawn | Press | Kill | AskSync | Say | Leave


@dataclass(slots=True)
class Child:
    """A process as the supervisor knows it."""

    number: int
    node_id: int
    state: ProcessState = ProcessState.WAITING
    since: float = 0.0
    """When its state began."""
    starts: int = 0
    failures: int = 0
    """How often it has ended since it last served for long."""
    has_served: bool = False
    pressed: int = 0
    due: float = 0.0
    """When it is to be started, pressed or killed."""
    exit_code: int | None = None
    """Of its last end."""

    @property
    def lives(self) -> bool:
        return self.state in {ProcessState.STARTING, ProcessState.SERVING, ProcessState.STOPPING}

    def become(self, state: ProcessState, now: float) -> None:
        self.state = state
        self.since = now


@dataclass(slots=True)
class Restart:
    """The last restart of all processes, one by one."""

    count: int = 0
    state: RestartState = RestartState.NONE
    reason: str = ""
    """Why it was given up."""


class Supervisor:
    def __init__(self, node_ids: Sequence[int]) -> None:
        """``node_ids`` of the processes in their order."""
        self.children = {at: Child(at, node_id) for at, node_id in enumerate(node_ids, 1)}
        self.restart_state = Restart()
        self.stops = 0
        """How often a stop was asked for."""
        self._exit_code = 0
        self._is_finished = False
        self._left: deque[int] = deque()
        """Those that a restart has not come to yet."""
        self._restarting: int | None = None
        """The one that a restart has stopped, until it serves again."""
        self._restart_due = 0.0
        self._question = 0
        self._is_asked = False
        self._ask_at = 0.0
        self._acts: list[Act] = []

    @property
    def is_stopping(self) -> bool:
        return self.stops > 0

    @property
    def all_serve(self) -> bool:
        return all(child.state is ProcessState.SERVING for child in self.children.values())

    # What happens

    def begin(self, now: float) -> list[Act]:
        for child in self.children.values():
            self._start(child, now)
        return self._done()

    def serves(self, number: int, now: float) -> list[Act]:
        """It has told so itself."""
        child = self.children[number]
        if child.state is not ProcessState.STARTING:
            return []
        child.become(ProcessState.SERVING, now)
        child.has_served = True
        if self._restarting == number:
            self._restarting = None
            self._restart_due = now + SYNC_SECONDS
        if self.all_serve:
            self._acts.append(Say("all processes serve"))
        self._go_on_restarting(now)
        return self._done()

    def ended(self, number: int, exit_code: int, now: float) -> list[Act]:
        """Its process is gone, however that came."""
        child = self.children[number]
        if not child.lives:
            return []
        before, served_for = child.state, now - child.since
        child.exit_code = exit_code
        if self.is_stopping:
            self._has_stopped(child, now)
        elif before is ProcessState.STOPPING:
            self._start(child, now)
        elif not child.has_served:
            self._warn(f"a process cannot start and has ended with {exit_code}: all stop", child)
            self._exit_code = 1
            child.become(ProcessState.STOPPED, now)
            self._stop(now)
        else:
            if before is ProcessState.SERVING and served_for >= STEADY_SECONDS:
                child.failures = 0
            self._start_later(child, exit_code, now)
            if self._restarting == number:
                self._give_up_restart(f"node {child.node_id} does not start again")
        return self._done()

    def tick(self, now: float) -> list[Act]:
        """Time has passed."""
        for child in self.children.values():
            if child.state is ProcessState.WAITING and now >= child.due and not self.is_stopping:
                self._start(child, now)
            elif child.state is ProcessState.STOPPING and now >= child.due:
                self._press(child, now)
        self._go_on_restarting(now)
        return self._done()

    def stop(self, now: float) -> list[Act]:
        """Somebody wants all of it to end; asked again, sooner."""
        if self.stops == 0:
            self._acts.append(Say("all processes stop"))
        self._stop(now)
        return self._done()

    def restart(self, now: float) -> list[Act]:
        """Somebody wants all processes anew; while that goes on, it begins again."""
        if self.is_stopping:
            return []
        self.restart_state.count += 1
        self.restart_state.state = RestartState.GOING
        self.restart_state.reason = ""
        self._left = deque([*sorted(self.children)[1:], 1])
        self._restart_due = max(self._restart_due, now + SYNC_SECONDS)
        self._acts.append(Say("all processes restart, one by one"))
        self._ask_anew(now)
        self._go_on_restarting(now)
        return self._done()

    def answered(self, question: int, unrest: str | None, now: float) -> list[Act]:
        """Why the cluster is not in sync; None when it is."""
        if question != self._question or not self._is_asked:
            return []
        self._is_asked = False
        self._ask_at = now + ASK_SECONDS
        if self.restart_state.state is RestartState.GOING:
            self.restart_state.reason = unrest or ""
            if unrest is None and self._restarting is None and self.all_serve:
                self._restart_next(now)
        return self._done()

    # What is done

    def _warn(self, text: str, child: Child | None = None) -> None:
        node_id = None if child is None else child.node_id
        self._acts.append(Say(text, node_id, is_bad=True))

    def _done(self) -> list[Act]:
        if (
            self.is_stopping
            and not self._is_finished
            and all(child.state is ProcessState.STOPPED for child in self.children.values())
        ):
            self._is_finished = True
            self._acts.append(Leave(self._exit_code))
        acts, self._acts = self._acts, []
        return acts

    def _start(self, child: Child, now: float) -> None:
        child.become(ProcessState.STARTING, now)
        child.starts += 1
        child.pressed = 0
        self._acts.append(Spawn(child.number))

    def _start_later(self, child: Child, exit_code: int, now: float) -> None:
        first, most = BACKOFF_SECONDS
        pause = min(most, first * 2 ** min(child.failures, 30))
        child.failures += 1
        child.become(ProcessState.WAITING, now)
        child.due = now + pause
        text = f"a process has ended with {exit_code}, and starts again in {pause:g} s"
        self._warn(text, child)

    # Stopping

    def _stop(self, now: float) -> None:
        self.stops += 1
        if self.restart_state.state is RestartState.GOING:
            self._give_up_restart("all processes stop")
        for child in self.children.values():
            if child.state is ProcessState.WAITING:
                child.become(ProcessState.STOPPED, now)
        if self.stops == 1:
            self._stop_next(now)
            return
        for child in self.children.values():
            if child.lives:
                child.pressed = max(child.pressed, min(self.stops, 3) - 1)
                if child.state is not ProcessState.STOPPING:
                    # The second signal says that it is not to wait for the controller.
                    self._acts.append(Press(child.number))
                    child.become(ProcessState.STOPPING, now)
                self._press(child, now)

    def _stop_next(self, now: float) -> None:
        """All but the first; the first when there are no others."""
        others = [child for child in self.children.values() if child.number > 1 and child.lives]
        for child in others or [self.children[1]]:
            if child.state in {ProcessState.STARTING, ProcessState.SERVING}:
                self._press_first(child, now)

    def _press_first(self, child: Child, now: float) -> None:
        child.become(ProcessState.STOPPING, now)
        child.pressed = 0
        self._press(child, now)

    def _press(self, child: Child, now: float) -> None:
        """Once, once more, and then at all costs."""
        child.pressed += 1
        child.due = now + PATIENCE_SECONDS
        if child.pressed < 3:
            if child.pressed == 2:
                self._warn("a process stops too slowly, and is pressed", child)
            self._acts.append(Press(child.number))
        elif child.pressed == 3:
            self._warn("a process stops too slowly, and is killed", child)
            self._acts.append(Kill(child.number))

    def _has_stopped(self, child: Child, now: float) -> None:
        if child.exit_code != 0:
            self._warn(f"a process has ended with {child.exit_code}", child)
            self._exit_code = 1
        child.become(ProcessState.STOPPED, now)
        self._stop_next(now)

    # Restarting, one by one

    def _go_on_restarting(self, now: float) -> None:
        if self.restart_state.state is not RestartState.GOING:
            return
        if now >= self._restart_due:
            waited = self.restart_state.reason or "not all processes serve"
            self._give_up_restart(f"not in sync within {SYNC_SECONDS:g} s: {waited}")
        elif self._restarting is None and self.all_serve and self._may_ask(now):
            self._question += 1
            self._is_asked = True
            self._acts.append(AskSync(self._question))

    def _may_ask(self, now: float) -> bool:
        return not self._is_asked and now >= self._ask_at

    def _ask_anew(self, now: float) -> None:
        """An answer that is still on its way is of before."""
        self._is_asked = False
        self._ask_at = now
        self._question += 1

    def _restart_next(self, now: float) -> None:
        if not self._left:
            self.restart_state.state = RestartState.DONE
            self._acts.append(Say("all processes were restarted"))
            return
        child = self.children[self._left.popleft()]
        self._restarting = child.number
        self._restart_due = now + 2 * PATIENCE_SECONDS + SYNC_SECONDS
        self._acts.append(Say("a process is restarted", child.node_id))
        self._press_first(child, now)
        self._ask_anew(now)

    def _give_up_restart(self, reason: str) -> None:
        self.restart_state.state = RestartState.GIVEN_UP
        self.restart_state.reason = reason
        self._left.clear()
        self._restarting = None
        self._warn(f"the restart is given up: {reason}")
