"""The columns of a topic, named and typed as Spark's own Kafka connector has them."""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

HEADERS: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
    )
)
TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
"""In the connector's order; headers only when they are asked for."""


class Columns:
    """Which columns are wanted, in which order."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.schema = pa.schema([pa.field(name, TYPES[name]) for name in self.names])
