"""The tables of ``ottla log segments``: the segments of logs, and the logs as a whole."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.cli.output import Column, Row
from ottla.inspection.log_survey import DEEP_FACTS

SEGMENT_COLUMNS: Final = (
    *map(Column, ("topic", "partition", "tier", "base_offset", "last_offset", "size")),
    Column("first_timestamp", wide=True),
    *map(Column, ("last_timestamp", "leader_epochs", "index", "timeindex", "txnindex")),
    *map(Column, ("cleaning", "remote_state")),
    Column("segment_id", wide=True),
)
DEEP_COLUMNS: Final = tuple(map(Column, DEEP_FACTS))
PARTITION_COLUMNS: Final = (
    *map(Column, ("topic", "partition", "segments", "local_size", "remote_size")),
    *map(Column, ("log_start_offset", "local_log_start_offset", "log_end_offset")),
    *map(Column, ("clean_offset", "dirty_ratio")),
)


def table_rows(rows: Sequence[Row]) -> Iterator[Row]:
    """Rows whose indexes are in columns of their own: the number of entries, if they are sound."""
    for row in rows:
        indexes: Any = row["indexes"]
        columns = {
            name: "damaged" if facts["sound"] is False else facts["entries"]
            for name, facts in indexes.items()
        }
        cleaning = "active" if row["active"] and row["cleaning"] else row["cleaning"]
        yield {**row, **columns, "cleaning": cleaning}
