"""``.txnindex``: the transactions that were aborted in a segment.

34 bytes for each: version 0 (int16), then producer id, first offset, last offset and the last
stable offset at the time of the marker (int64 each). Written at once, since aborts are rare; the
file is there only when there was one.
"""

from struct import Struct
from typing import Final, NamedTuple

from ottla.storage.files import Filesystem

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_filesystem", "_known", "base_offset", "is_trusted", "path")

    def __init__(self, filesystem: Filesystem, path: str, base_offset: int) -> None:
        self._filesystem = filesystem
        self._known: list[AbortedTransaction] | None = None
        self.base_offset = base_offset
        self.path = path
        self.is_trusted = False
        """Whether this incarnation of the broker compared it with the batches, or wrote it."""

    @property
    def entries(self) -> list[AbortedTransaction]:
        """In the order in which they were aborted."""
        if self._known is None:
            self._known = self._read()
        return self._known

    def _read(self) -> list[AbortedTransaction]:
        if not self._filesystem.exists(self.path):
            return []
        data = self._filesystem.read(self.path)
        whole = len(data) - len(data) % ENTRY.size
        return [AbortedTransaction(*entry[1:]) for entry in ENTRY.iter_unpack(data[:whole])]

    def append(self, transaction: AbortedTransaction) -> None:
        entries = self.entries
        file = self._filesystem.open(self.path, create=True)
        try:
            file.write_at(len(entries) * ENTRY.size, ENTRY.pack(VERSION, *transaction))
        finally:
            file.close()
        entries.append(transaction)

    def is_sound(self) -> bool:
        """Whether the file can be what it should be; if not its segment is to be recovered."""
        if not self._filesystem.exists(self.path):
            return True
        data = self._filesystem.read(self.path)
        if len(data) % ENTRY.size:
            return False
        for version, _, first, last, _ in ENTRY.iter_unpack(data):
            if version != VERSION or last < self.base_offset or first > last:
                return False
        return True

    def truncate_to(self, offset: int) -> None:
        """Forget the transactions whose marker stands at ``offset`` or behind."""
        kept = [entry for entry in self.entries if entry.last_offset < offset]
        if len(kept) < len(self.entries):
            self._replace(kept)

    def reset(self) -> None:
        if self._filesystem.exists(self.path):
            self._replace([])
        self._known = []
        self.is_trusted = True

    def mend(self, entries: list[AbortedTransaction]) -> None:
        """The file does not say what the batches say."""
        data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
        self._filesystem.write_atomically(self.path, data)
        self._known = entries

    def sync(self) -> None:
        if self.entries:
            file = self._filesystem.open(self.path)
            try:
                file.sync()
            finally:
                file.close()

    def _replace(self, entries: list[AbortedTransaction]) -> None:
        data = b"".join(ENTRY.pack(VERSION, *entry) for entry in entries)
        self._filesystem.write(self.path, data)
        self._known = entries

    def drop(self) -> None:
        """Forget what is in memory; the file is read again when it is needed."""
        self._known = None
