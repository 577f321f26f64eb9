"""How a run is: one JSON file in the storage directory, replaced in one step after each change.

Whether somebody runs is told by a lock on a file beside it, which the system releases when its
holder dies, and not by the process id in the state. A run is asked to stop by a third file, which
names it: to ask takes no right to send signals, nor the same machine.
"""

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from ottla.spark.pipelines.model import PipelineError

STATE: Final = "state.json"
LOCK: Final = "run.lock"
STOP: Final = "stop"

STARTING: Final = "starting"
RUNNING: Final = "running"
WAITING: Final = "waiting"
"""A flow that failed and will be started again."""
STOPPING: Final = "stopping"
STOPPED: Final = "stopped"
FINISHED: Final = "finished"
FAILED: Final = "failed"
DIED: Final = "died"
"""A run that says it runs, and does not."""
ENDED: Final = (STOPPED, FINISHED, FAILED, DIED)


@dataclass(slots=True)
class FlowState:
    name: str
    target: str
    kind: str
    """Of the target."""
    status: str = STARTING
    rows: int = 0
    """Written by this run."""
    rows_per_second: float = 0.0
    lag: int | None = None
    """Records of topics that are not read yet."""
    batch: int | None = None
    batch_seconds: float | None = None
    restarts: int = 0
    error: str | None = None
    """The last one, also when the flow goes on."""
    error_ms: int | None = None
    updated_ms: int | None = None


@dataclass(slots=True)
class RunState:
    pipeline: str
    run_id: str
    pid: int
    master: str
    started_ms: int
    status: str = STARTING
    error: str | None = None
    updated_ms: int = 0
    flows: dict[str, FlowState] = field(default_factory=dict)
    step: str | None = None
    """What it does while it starts."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(content: dict[str, Any]) -> "RunState":
        """Keys of later versions are passed over."""
        flows = {
            name: FlowState(**_known(FlowState, flow))
            for name, flow in content.get("flows", {}).items()
        }
        return RunState(**{**_known(RunState, content), "flows": flows})


def _known(kind: type, content: dict[str, Any]) -> dict[str, Any]:
    names = {each.name for each in fields(kind)}
    return {name: value for name, value in content.items() if name in names}


def write(directory: Path, state: RunState) -> None:
    """Readers see the old state or the new one. Nobody needs it after a crash of the machine."""
    directory.mkdir(parents=True, exist_ok=True)
    new = directory / f"{STATE}.{os.getpid()}.new"
    new.write_text(json.dumps(state.to_json(), indent=2) + "\n", encoding="utf-8")
    new.replace(directory / STATE)


def read(directory: Path) -> RunState | None:
    """``None`` if nothing ever ran; ``died`` is told of a run whose process is gone."""
    try:
        content = json.loads((directory / STATE).read_text(encoding="utf-8"))
        state = RunState.from_json(content)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as error:
        raise PipelineError(f"{directory / STATE} cannot be read: {error}") from None
    if state.status not in ENDED and not is_locked(directory):
        state.status = DIED
    return state


class RunLock:
    """Held while a pipeline runs: two runs would take turns in fencing each other off."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)
        file = (self._directory / LOCK).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise PipelineError(
                f"a run of this pipeline is going on in {self._directory}; `ottla pipeline stop` "
                "ends it"
            ) from None
        self._file = file
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()


def is_locked(directory: Path) -> bool:
    try:
        with (directory / LOCK).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False
    except FileNotFoundError:
        return False


def ask_to_stop(directory: Path, state: RunState) -> None:
    (directory / STOP).write_text(state.run_id, encoding="utf-8")


def is_asked_to_stop(directory: Path, run_id: str) -> bool:
    """A question to another run, an earlier one, is none."""
    try:
        return (directory / STOP).read_text(encoding="utf-8").strip() == run_id
    except FileNotFoundError:
        return False


def wait_until_ended(
    directory: Path, seconds: float, pause: Callable[[float], object], every: float = 0.1
) -> bool:
    """Whether nobody holds the lock any more."""
    for _ in range(max(1, round(seconds / every))):
        if not is_locked(directory):
            return True
        pause(every)
    return not is_locked(directory)
