"""What a supervisor says of itself and its processes, in a file beside the first one's logs.

The file is replaced whole at each change. A lock beside it, which the supervisor holds for as long
as it lives, tells whether what it says is of now.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from ottla.storage.files import DirectoryInUse, OsLock

STATE: Final = "processes.json"
LOCK: Final = "processes.lock"


class NoSupervisor(OSError):
    """There is none for these processes now."""


class StateFile:
    """The supervisor's side."""

    def __init__(self, directories: Sequence[str]) -> None:
        """In the first that can be written; DirectoryInUse when another supervisor has it."""
        for at, directory in enumerate(directories):
            try:
                self._lock = OsLock(f"{directory}/{LOCK}")
            except OSError:
                if at == len(directories) - 1:
                    raise
            else:
                self._directory = directory
                break
        self._written = b""

    def write(self, state: dict[str, Any]) -> None:
        """A disk that fails takes only the report away: processes are watched all the same."""
        text = json.dumps(state, indent=1).encode("utf-8")
        if text != self._written:
            self._written = text
            with suppress(OSError):
                file = Path(self._directory) / STATE
                new = file.with_suffix(".new")
                new.write_bytes(text)
                new.replace(file)

    def close(self) -> None:
        with suppress(OSError):
            (Path(self._directory) / STATE).unlink()
        self._lock.release()


def read_state(directories: Sequence[str]) -> dict[str, Any]:
    """What the supervisor of these directories says; NoSupervisor when there is none."""
    for directory in directories:
        if _is_held(f"{directory}/{LOCK}"):
            with suppress(FileNotFoundError):
                state: dict[str, Any] = json.loads((Path(directory) / STATE).read_bytes())
                return state
    raise NoSupervisor(f"no supervisor runs for {directories[0]}: see `ottla server`")


def _is_held(lock: str) -> bool:
    try:
        if Path(lock).exists():
            OsLock(lock).release()
    except DirectoryInUse:
        return True
    except OSError:
        return False
    return False
