"""Batches of the metadata log in, images out; metadata transactions are honoured.

Between BeginTransaction and EndTransaction nothing is shown: the image stays the one before. After
AbortTransaction it is as if the records had never been written.
"""

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)


class MetadataReplay:
    """The image of all that was replayed and is not inside an open transaction."""

    __slots__ = ("_before_transaction", "_delta", "image", "transaction_offset")

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.transaction_offset: int | None = None
        """Where the open transaction began."""
        self._delta = MetadataDelta(image)
        self._before_transaction: list[MetadataRecord] = []
        """Records of the batch in which the transaction began: an abort leaves them."""

    @property
    def latest(self) -> MetadataImage:
        """The image with the records of an open transaction, as the one who writes them sees it."""
        if self.transaction_offset is None:
            return self.image
        return self._delta.apply(self.image.offset, self.image.epoch, self.image.timestamp_ms)

    def replay_batch(
        self, records: list[MetadataRecord], *, base_offset: int, epoch: int, timestamp_ms: int
    ) -> MetadataDelta | None:
        """Replay one batch. Return the change to ``image`` or, inside a transaction, None."""
        offset = base_offset
        for index, record in enumerate(records):
            if isinstance(record, BeginTransactionRecord):
                self._begin(offset)
                self._before_transaction = records[:index]
            elif isinstance(record, EndTransactionRecord):
                self._close(offset, "end")
            elif isinstance(record, AbortTransactionRecord):
                self._close(offset, "abort")
                self._delta = MetadataDelta(self.image)
                for earlier in self._before_transaction:
                    self._delta.replay(earlier)
            else:
                self._delta.replay(record)
            offset += 1
        if self.transaction_offset is not None:
            return None
        delta = self._delta
        self.image = delta.apply(offset - 1, epoch, timestamp_ms)
        self._delta = MetadataDelta(self.image)
        return delta

    def skip(self, offset: int, epoch: int, timestamp_ms: int) -> MetadataDelta | None:
        """A control batch that ends at ``offset``: it says nothing about the cluster."""
        return self.replay_batch([], base_offset=offset + 1, epoch=epoch, timestamp_ms=timestamp_ms)

    def _begin(self, offset: int) -> None:
        if self.transaction_offset is not None:
            raise ValueError(
                f"a transaction begins at {offset} while that of {self.transaction_offset} is open"
            )
        self.transaction_offset = offset

    def _close(self, offset: int, how: str) -> None:
        if self.transaction_offset is None:
            raise ValueError(f"{how} of a transaction at {offset}, but none is open")
        self.transaction_offset = None
