"""A coordinator loads what brokers of old wrote: internal topics have messages of magic 0 and 1."""

from typing import Any, cast

from hypothesis import given
from tests.storage import old_logs

from ottla.coordinator.loading import replay
from ottla.coordinator.shard import RecordFormat, Shard


class Kept:
    """A shard and its format in one: it keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int, tuple[bytes, bytes | None]]] = []

    def replay(self, offset: int, producer_id: int, record: tuple[bytes, bytes | None]) -> None:
        self.records.append((offset, producer_id, record))

    def decode(self, key: bytes, value: bytes | None) -> tuple[bytes, bytes | None]:
        return key, value


@given(old_logs.LOGS)
def test_records_of_every_magic_are_replayed(shapes: list[old_logs.Shape]) -> None:
    found = old_logs.pieces(shapes)
    data = b"".join(piece.data for piece in found)
    end = found[-1].last_offset + 1
    for start in range(0, end, 3):
        kept = Kept()
        shard, record_format = cast("Shard[Any]", kept), cast("RecordFormat[Any]", kept)
        assert replay(data, start, end, shard, record_format).next_offset == end
        assert kept.records == [
            (record.offset, -1, (record.key, record.value))
            for record in old_logs.all_records(found)
            if record.offset >= start
        ]
