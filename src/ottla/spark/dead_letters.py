"""Records that could not be decoded, written to a topic of their own with the reason.

Key, value and headers are kept as they were; headers of ours are added that say why and from where.
A dead letter is written before the rows behind it are handed on, at least once: a task that is
repeated writes its dead letters again, and the place that they name tells which are the same.
"""

import logging
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.producer import Producer
from ottla.common.errors import ApiError, ErrorCode
from ottla.records.record import Header
from ottla.spark.formats.values import ERROR_CLASS, REASON
from ottla.spark.kafka_settings import KafkaSettings

_log = logging.getLogger(__name__)

REASON_HEADER: Final = "ottla.error.reason"
CLASS_HEADER: Final = "ottla.error.class"
OMITTED_HEADER: Final = "ottla.error.omitted"
"""The size of a value that the topic would not take; the letter is without it."""
SOURCE_HEADERS: Final = {
    name: f"ottla.source.{name}" for name in ("topic", "partition", "offset", "timestamp")
}
NEEDED: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""The columns of a table whose rows may become dead letters."""
REASON_CHARACTERS_MAX: Final = 1_000
LARGE: Final = 64 << 10
"""From here on a record is sent alone, to see whether the topic takes it."""
_BINARY_HEADERS: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.binary()), ("value", pa.binary())]))
)
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class BadRecord(RuntimeError):
    """A record that is not what it should be, and nowhere to put it."""


class TooManyDeadLetters(RuntimeError):
    """More records are bad than were expected: the schema is wrong, more likely."""


class DeadLetters:
    """The dead letters of one task; without a topic, the first one fails the query."""

    def __init__(self, kafka: KafkaSettings, topic: str | None, most: int | None = None) -> None:
        self._kafka = kafka
        self._topic = topic
        self._most = most
        self._producer: Producer | None = None
        self.counts: Counter[str] = Counter()
        """How many, by the class of the error."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._producer is not None:
            self._producer.close()
        if self.counts:
            _log.warning("%s dead letters to %s: %s", self.count, self._topic, dict(self.counts))

    @property
    def count(self) -> int:
        return self.counts.total()

    def write(self, dead: pa.RecordBatch) -> None:
        """Returns when the brokers have them."""
        if dead.num_rows == 0:
            return
        rows = _plain(dead).to_pylist()
        if self._topic is None:
            raise BadRecord(
                f"{_place(rows[0])}: {rows[0][REASON]}. To put such records aside and go on, "
                "set the option deadLetterTopic"
            )
        if self._most is not None and self.count + len(rows) > self._most:
            raise TooManyDeadLetters(
                f"{self.count + len(rows)} bad records in one task are more than "
                f"deadLetterMax={self._most}; the last: {_place(rows[-1])}: {rows[-1][REASON]}"
            )
        producer = self._opened()
        for row in rows:
            self._send(producer, self._topic, row)
        producer.flush()
        self.counts.update(row[ERROR_CLASS] for row in rows)

    def _opened(self) -> Producer:
        """Most tasks never need one."""
        if self._producer is None:
            kafka = self._kafka
            self._producer = kafka.producer(
                client_id=f"{kafka.client_id}-dead-letters",
                request_bytes_max=64 << 20,
                timing=kafka.timing,
            )
        return self._producer

    @staticmethod
    def _send(producer: Producer, topic: str, row: dict[str, Any]) -> None:
        key, value, headers = row.get("key"), row.get("value"), list(headers_of(row))
        size = sum(len(part) for part in (key, value) if part is not None)
        size += sum(len(name) + len(content or b"") for name, content in headers)
        if size < LARGE:
            producer.send(topic, value, key, headers=headers)
            return
        producer.flush()
        try:
            producer.send(topic, value, key, headers=headers)
            producer.flush()
        except ApiError as error:
            if error.code not in _TOO_LARGE:
                raise
            omitted = (OMITTED_HEADER, str(size).encode())
            producer.send(topic, None, headers=[*headers_of({**row, "headers": None}), omitted])


def headers_of(row: dict[str, Any]) -> Iterable[Header]:
    """The record's own, then ours."""
    for each in row.get("headers") or ():
        yield each["key"], each["value"]
    yield REASON_HEADER, str(row[REASON])[:REASON_CHARACTERS_MAX].encode(errors="replace")
    yield CLASS_HEADER, str(row[ERROR_CLASS]).encode()
    for name, header in SOURCE_HEADERS.items():
        if name in row:
            yield header, str(row[name]).encode()


def _plain(dead: pa.RecordBatch) -> pa.RecordBatch:
    """Times as milliseconds and names of headers as bytes: neither need be what Python knows."""
    for place, name in enumerate(dead.schema.names):
        column = dead.column(place)
        if name == "timestamp":
            column = pc.divide(column.cast(pa.int64()), 1_000)
        elif name == "headers":
            column = column.cast(_BINARY_HEADERS)
        dead = dead.set_column(place, name, column)
    return dead


def _place(row: dict[str, Any]) -> str:
    return f"{row.get('topic')}-{row.get('partition')} at offset {row.get('offset')}"
