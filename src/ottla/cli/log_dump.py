"""What files hold, one after another; segments of the remote store are brought here for it."""

import tempfile
from collections.abc import Iterable, Iterator

from ottla.cli.log_files import Content, Selection, reader_of, segment
from ottla.cli.log_place import Place
from ottla.cli.output import Output, Row
from ottla.cli.read_only import FILES
from ottla.cli.remote_tier import RemoteCopy, RemoteTier
from ottla.common.errors import ApiError
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
    """Reads files and prints what they hold; what is damaged is said and does not hide others."""

    def __init__(self, output: Output, selection: Selection, tier: RemoteTier | None) -> None:
        self._output = output
        self._selection = selection
        self._tier = tier
        self._files: dict[str, dict[str, list[Row]]] = {}

    def read(self, name: str, copy: RemoteCopy | None) -> Content | None:
        """None when it is damaged, which is said."""
        try:
            if copy is not None:
                return self._read_copy(copy)
            reader = reader_of(name)
            assert reader is not None
            content = reader(name, self._selection)
            return content._replace(rows=list(content.rows))
        except (
            ApiError,
            CorruptSnapshot,
            CorruptCheckpoint,
            RemoteStoreError,
            ValueError,
            OSError,
        ) as error:
            self._output.error("CORRUPT", str(error), file=name)
            return None

    def _read_copy(self, copy: RemoteCopy) -> Content:
        assert self._tier is not None
        with tempfile.TemporaryDirectory(prefix="ottla-dump-") as directory:
            files = self._tier.bring(copy, directory, lambda _: None)
            content = segment(files.path(LOG_SUFFIX), self._selection)
            return content._replace(rows=list(content.rows))

    def show(self, name: str, content: Content, *, several: bool) -> None:
        if self._output.is_document:
            self._files[name] = {content.noun: list(content.rows)}
            return
        if several:
            self._output.talk(f"{name}:")
        self._output.rows(content.noun, content.columns, content.rows)

    def finish(self) -> None:
        if self._output.is_document:
            self._output.document({"files": self._files})
