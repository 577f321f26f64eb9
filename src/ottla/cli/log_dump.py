"""What files hold, one after another; segments of the remote store are brought here for it."""

import tempfile
from collections.abc import Iterable, Iterator

from ottla.cli.log_files import Content, Selection, reader_of, segment
from ottla.cli.output import Output, Row
from ottla.cli.progress import Progress
from ottla.common.errors import ApiError
from ottla.inspection.log_place import Place
from ottla.inspection.read_only import FILES
from ottla.inspection.remote_tier import RemoteCopy, RemoteTier
from ottla.storage.checkpoints import CorruptCheckpoint
from ottla.storage.producer_snapshots import CorruptSnapshot
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.store import RemoteStoreError

Chosen = tuple[str, int, RemoteCopy | None]
"""A file by its name and size; what is to be brought first, if it is not here."""


def files_of(
    logs: Iterable[tuple[Place, list[RemoteCopy]]],
    tier: RemoteTier | None,
    offset: int,
    *,
    local: bool,
) -> Iterator[Chosen]:
    """The segments that may have something from ``offset`` on, each once: from here if it is."""
    for place, copies in logs:
        segments = place.segments() if local else []
        first_here = segments[0].base_offset if segments else None
        for copy in copies:
            end = copy.segment.end_offset
            if not copy.is_finished or end < offset or tier is None or not tier.is_readable:
                continue
            if first_here is None or copy.segment.start_offset < first_here:
                yield tier.name(copy) + LOG_SUFFIX, copy.size, copy
        for number, files in enumerate(segments):
            following = segments[number + 1 : number + 2]
            if not following or following[0].base_offset > offset:
                path = files.path(LOG_SUFFIX)
                yield path, FILES.size(path), None


class Dump:
    """Prints what files hold, as it is read; what is damaged is said and does not hide the rest."""

    def __init__(
        self, output: Output, selection: Selection, tier: RemoteTier | None, progress: Progress
    ) -> None:
        self._output = output
        self._selection = selection._replace(progress=progress.update)
        self._tier = tier
        self._progress = progress
        self._files: dict[str, dict[str, list[Row]]] = {}

    def show(self, name: str, copy: RemoteCopy | None, *, several: bool) -> None:
        try:
            if copy is None:
                reader = reader_of(name)
                assert reader is not None
                self._print(name, reader(name, self._selection), several=several)
            else:
                self._show_copy(name, copy, several=several)
        except BrokenPipeError:
            raise  # the reader of the pipe has enough: that is no damage
        except (
            ApiError,
            CorruptSnapshot,
            CorruptCheckpoint,
            RemoteStoreError,
            ValueError,
            OSError,
        ) as error:
            self._progress.clear()
            self._output.error("CORRUPT", str(error), file=name)

    def _show_copy(self, name: str, copy: RemoteCopy, *, several: bool) -> None:
        assert self._tier is not None
        with tempfile.TemporaryDirectory(prefix="ottla-dump-") as directory:
            files = self._tier.bring(copy, directory, self._progress.update)
            selection = self._selection._replace(progress=lambda _: None)
            content = segment(files.path(LOG_SUFFIX), selection)
            self._print(name, content, several=several)

    def _print(self, name: str, content: Content, *, several: bool) -> None:
        if self._output.is_document:
            # What comes before damage stays.
            rows = self._files.setdefault(name, {}).setdefault(content.noun, [])
            rows.extend(content.rows)
            return
        self._progress.clear()
        if several:
            self._output.talk(f"{name}:")
        if not self._output.stream(content.columns, content.rows, self._progress.clear):
            self._output.talk(f"there are no {content.noun} in {name}")

    def finish(self) -> None:
        if self._output.is_document:
            self._output.document({"files": self._files})
