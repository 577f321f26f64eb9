"""Batches of the metadata log in, images out; metadata transactions are honoured.

Between BeginTransaction and EndTransaction nothing is shown: the image stays the one before. After
AbortTransaction it is as if the records had never been written.

Replaying and showing are two steps, so that a log of many batches can be replayed into one image.
"""

from typing import NamedTuple

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


class Published(NamedTuple):
    """A new image, and how it came from the one before."""

    image: MetadataImage
    delta: MetadataDelta


class MetadataReplay:
    """``image`` is the last one that was shown; ``take`` shows what was replayed since."""

    __slots__ = ("_delta", "_end", "_ready", "image", "transaction_offset")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.transaction_offset: int | None = None
        """Where the open transaction began."""
        self._delta = MetadataDelta(image)
        self._end = (image.offset, image.epoch, image.timestamp_ms)
        self._ready: list[Published] = []

    @property
    def latest(self) -> MetadataImage:
        """The image with all that was replayed, as its writer sees it."""
        if self._end[0] == self.image.offset:
            return self.image
        return self._delta.apply(*self._end)

    def replay_batch(
        self, records: list[MetadataRecord], *, base_offset: int, epoch: int, timestamp_ms: int
    ) -> None:
        """Replay a batch that ends at ``base_offset + len(records) - 1``."""
        offset = base_offset
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                self._begin(offset)
            elif isinstance(record, EndTransactionRecord):
                self._close(offset, "end")
            elif isinstance(record, AbortTransactionRecord):
                self._close(offset, "abort")
                self._delta = MetadataDelta(self.image)
            else:
                self._delta.replay(record)
            self._end = (offset, epoch, timestamp_ms)
            offset += 1
        self._end = (offset - 1, epoch, timestamp_ms)

    def take(self) -> list[Published]:
        """The images since the last call; an open transaction is held back."""
        if self.transaction_offset is None:
            self._show()
        ready, self._ready = self._ready, []
        return ready

    def _show(self) -> None:
        if self._end[0] == self.image.offset:
            return
        self.image = self._delta.apply(*self._end)
        self._ready.append(Published(self.image, self._delta))
        self._delta = MetadataDelta(self.image)

    def _begin(self, offset: int) -> None:
        if self.transaction_offset is not None:
            raise ValueError(
                f"a transaction begins at {offset} while that of {self.transaction_offset} is open"
            )
        self._show()  # what came before must outlive an abort
        self.transaction_offset = offset

    def _close(self, offset: int, how: str) -> None:
        if self.transaction_offset is None:
            raise ValueError(f"{how} of a transaction at {offset}, but none is open")
        self.transaction_offset = None
