"""What was ever committed of one log, batch by batch, for comparison with what replicas have."""

from ottla.common.errors import OffsetNotAvailable
from ottla.records.batch import batches, read_header
from ottla.simulation.checkers.facts import Anomaly
from ottla.storage.log import Log


class CommittedLog:
    """Whole batches by their base offset; it only grows."""

    __slots__ = ("_batches", "_ends", "end_offset", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.end_offset = 0
        """Everything before it is committed."""
        self._batches: dict[int, bytes] = {}
        self._ends: dict[int, int] = {}
        """How far each leader epoch has come."""

    def end_before(self, epoch: int) -> int:
        """What a leader of ``epoch`` must have: all that was committed in the epochs before."""
        return max((end for each, end in self._ends.items() if each < epoch), default=0)

    def commit(self, data: bytes, high_watermark: int, epoch: int = 0) -> None:
        """Take what ``data`` has below ``high_watermark`` and was not committed before."""
        self._ends[epoch] = max(self._ends.get(epoch, 0), high_watermark)
        for position, size in batches(data):
            header = read_header(data, position)
            if header.last_offset >= high_watermark:
                break
            if header.last_offset >= self.end_offset:
                self._batches[header.base_offset] = data[position : position + size]
        self.end_offset = max(self.end_offset, high_watermark)

    def compare(self, who: str, data: bytes, end_offset: int) -> Anomaly | None:
        """Whether what is committed stands in ``data``, below ``end_offset``, as it was."""
        for position, size in batches(data):
            base_offset = read_header(data, position).base_offset
            if base_offset >= end_offset:
                break
            known = self._batches.get(base_offset)
            if known is not None and known != data[position : position + size]:
                what = f"{who} has another batch at {base_offset} than was committed"
                return Anomaly("log-matching", f"{self.name}: {what}")
        return None


def read_between(log: Log, start: int, end: int) -> bytes:
    """The bytes of the batches with the offsets from ``start`` to ``end``, as they stand."""
    parts = []
    start = max(start, log.log_start_offset, log.segments[0].base_offset)
    end = min(end, log.log_end_offset)
    while start < end:
        try:
            data = log.read_bytes(start, 1 << 20)
        except OffsetNotAvailable:  # a checker cannot ask again later
            for segment in log.segments.touching(start):
                segment.rebuild_indexes()
            data = log.read_bytes(start, 1 << 20)
        last = start
        for position, _ in batches(data):
            last = read_header(data, position).last_offset
        if not data or last < start:
            break
        parts += [
            data[position : position + size]
            for position, size in batches(data)
            if read_header(data, position).base_offset < end
        ]
        start = last + 1
    return b"".join(parts)
