"""Which transactions a cleaning meets on its way through a log, in order of offsets.

The records of an aborted transaction go. Its marker stays as long as any batch of it does, and with
it the entry in the transaction index, or what is left would read as committed. The marker of a
transaction of which nothing was met may go too, after its delete horizon, as a tombstone does.

Counterpart: ``CleanedTransactionMetadata``.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from ottla.records.batch import BatchHeader
from ottla.records.control import ControlType, read_control_type
from ottla.records.record import Record
from ottla.storage.transaction_index import AbortedTransaction


class CleanedTransactions:
    """What is known while batches are read one after the other."""

    __slots__ = ("_aborted", "_coming", "_committed", "kept")

    def __init__(self) -> None:
        self._coming: list[tuple[int, AbortedTransaction]] = []
        """Aborted transactions that begin further on, the first of them on top."""
        self._aborted: dict[int, tuple[AbortedTransaction, bool]] = {}
        """By producer id: the one that is being read, and whether a batch of it was met."""
        self._committed: set[int] = set()
        """Producer ids of transactions of which a batch was met, and that were not aborted."""
        self.kept: list[AbortedTransaction] = []
        """Those whose marker stays: entries of the new transaction index."""

    def add_aborted(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Tell what was aborted in the part that is read next; it may be told twice."""
        for transaction in transactions:
            heappush(self._coming, (transaction.first_offset, transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Take note of a data batch; whether its records go."""
        self._advance(header.last_offset)
        if not header.is_transactional:
            return False
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        self._aborted[header.producer_id] = found[0], True
        return True

    def is_of_nothing(self, header: BatchHeader, records: list[Record]) -> bool:
        """Take note of a control batch; whether nothing is left that needs it."""
        self._advance(header.last_offset)
        if not records:
            return True
        control_type = read_control_type(records[0].key)
        if control_type is ControlType.ABORT:
            found = self._aborted.pop(header.producer_id, None)
            if found is None or not found[1]:
                return True
            self.kept.append(found[0])
            return False
        if control_type is ControlType.COMMIT:
            met = header.producer_id in self._committed
            self._committed.discard(header.producer_id)
            return not met
        return False

    def _advance(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, (transaction, False))
