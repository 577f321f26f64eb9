"""The keeper of a log, which is told what has to be done outside of it."""

from typing import TYPE_CHECKING, Protocol

from ottla.storage.directories import LogDirFailed
from ottla.storage.files import Filesystem
from ottla.storage.inspection import Damage

if TYPE_CHECKING:
    from ottla.storage.segment import Segment


class LogListener(Protocol):
    """Called on the loop, by one log."""

    def rolled(self) -> None:
        """The segments before the active one are to be flushed."""
        ...

    def truncating(self, offset: int) -> None:
        """What stands at or above ``offset`` is about to go."""
        ...

    def files_deleted(self, paths: list[str]) -> None:
        """Renamed files that nobody will open again: to be removed after a while."""
        ...

    def recovery_point_lowered(self) -> None:
        """Before this returns, no checkpoint on disk claims more than the log's recovery point."""
        ...

    def failed(self, failure: LogDirFailed) -> None: ...

    def indexes_doubted(self, segment: "Segment") -> None:
        """Its indexes mislead and are to be made anew; until then its readers are put off."""
        ...

    def damaged(self, path: str, damage: Damage) -> None:
        """A segment has bytes that are not as they were written; told once of each place."""
        ...


class StandsAlone:
    """The listener of a log without a keeper: what is deleted goes at once."""

    __slots__ = ("_filesystem",)

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem

    def rolled(self) -> None:
        pass

    def truncating(self, offset: int) -> None:
        pass

    def files_deleted(self, paths: list[str]) -> None:
        for path in paths:
            self._filesystem.remove(path)

    def recovery_point_lowered(self) -> None:
        pass

    def failed(self, failure: LogDirFailed) -> None:
        pass

    def indexes_doubted(self, segment: "Segment") -> None:
        segment.rebuild_indexes()

    def damaged(self, path: str, damage: Damage) -> None:
        pass
