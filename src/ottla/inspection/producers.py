"""Whether the states of producers beside segments can be read."""

from collections.abc import Iterator

from ottla.inspection.read_only import FILES
from ottla.inspection.segment import Problem, reason
from ottla.storage.producer_snapshots import CorruptSnapshot, decode_snapshot
from ottla.storage.segment import SNAPSHOT_SUFFIX


def snapshot_problems(directory: str, name: str | None = None) -> Iterator[Problem]:
    """Of all snapshots in ``directory``; ``name`` is what a remote segment is called."""
    for file in FILES.list_directory(directory):
        if file.endswith(SNAPSHOT_SUFFIX):
            shown = f"{directory}/{file}" if name is None else name + SNAPSHOT_SUFFIX
            try:
                decode_snapshot(FILES.read(f"{directory}/{file}"))
            except CorruptSnapshot as error:
                yield Problem(shown, None, str(error))
            except OSError as error:
                yield Problem(shown, None, reason(error))
