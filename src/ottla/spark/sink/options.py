"""The options of the sink, by the names of spark-sql-kafka, and some of our own.

``kafka.*`` are settings of Kafka's producer by their own names. What a producer of ours has no use
for (``linger.ms``) is taken and passed over, so that a query moves over unchanged; what would
change what is written, and that we do not have, is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.client.cluster import Cluster, Timing
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.client.system_time import SystemTime
from ottla.records.compression import CODECS
from ottla.spark.codec.encoding import Batching
from ottla.spark.errors import BadOption
from ottla.spark.format_options import NO_FORMATS, FormatOptions, format_option_names
from ottla.spark.given_options import GivenOptions
from ottla.spark.kafka_settings import PATIENCE, PREFIX, TIMING, check_name, parse_security
from ottla.spark.sink.produce import IN_FLIGHT_MAX, Delivery

KNOWN: Final = ("topic", "exactlyOnce", "transactionalIdPrefix")
OF_SPARK: Final = ("checkpointLocation", "path", "queryName")
"""Spark's own, which it hands on."""
_USED: Final = (
    "acks",
    "batch.size",
    "bootstrap.servers",
    "client.id",
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "default.api.timeout.ms",
    "delivery.timeout.ms",
    "enable.idempotence",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
    "transaction.timeout.ms",
)
_PASSED_OVER: Final = (
    "buffer.memory",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "linger.ms",
    "metadata.max.idle.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "retries",
    "send.buffer.bytes",
)
_FORBIDDEN: Final = {
    "interceptor.classes": "interceptors may change what is written",
    "key.serializer": "set the option keyFormat, or cast keys in the query",
    "partitioner.class": "rows go by column partition, by key, or to any; there is no other way",
    "partitioner.ignore.keys": "leave out column key, or give column partition",
    "transactional.id": "set the options exactlyOnce and transactionalIdPrefix",
    "value.serializer": "set the option valueFormat, or cast values in the query",
}
_ACKS: Final = ("all", "-1", "1", "0")
BATCH_BYTES: Final = 256 << 10
"""Sixteen times Kafka's: a task has many rows at hand and never waits for more."""
_BATCHING: Final = Batching(batch_bytes=BATCH_BYTES)
_DELIVERY: Final = Delivery()
TRANSACTION_TIMEOUT_MS: Final = 600_000
"""The first task of a micro-batch waits in its transaction for the last one."""


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Where to write, and how. Equal options share their connections."""

    bootstrap_servers: str
    topic: str | None = None
    exactly_once: bool = False
    transactional_id_prefix: str = "ottla-spark"
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    client_id: str = "ottla-spark-sink"
    batching: Batching = _BATCHING
    delivery: Delivery = _DELIVERY
    timing: Timing = PATIENCE
    formats: FormatOptions = NO_FORMATS
    security: ClientSecurity = UNSECURED

    @staticmethod
    def parse(options: Mapping[str, str]) -> "SinkOptions":
        given = GivenOptions(options, KNOWN + OF_SPARK + format_option_names())
        for name in given.values:
            if name.startswith(PREFIX):
                check_name(
                    name.removeprefix(PREFIX),
                    used=_USED,
                    passed_over=_PASSED_OVER,
                    forbidden=_FORBIDDEN,
                )
        servers = given.text("kafka.bootstrap.servers")
        if servers is None:
            raise BadOption("the option kafka.bootstrap.servers must be given")
        # Weaker wishes are fulfilled by doing better: every write is idempotent, with acks=all.
        given.word("kafka.acks", _ACKS)
        given.truth("kafka.enable.idempotence", default=True)
        request_bytes_max = _number(given, "max.request.size", _DELIVERY.request_bytes_max)
        return SinkOptions(
            bootstrap_servers=servers,
            topic=_topic(given),
            exactly_once=given.truth("exactlyOnce", default=False),
            transactional_id_prefix=given.text("transactionalIdPrefix") or "ottla-spark",
            transaction_timeout_ms=_number(given, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
            client_id=given.text("kafka.client.id") or "ottla-spark-sink",
            batching=_batching(given, request_bytes_max),
            delivery=Delivery(
                request_bytes_max=request_bytes_max,
                in_flight_max=min(
                    _number(given, "max.in.flight.requests.per.connection", IN_FLIGHT_MAX),
                    IN_FLIGHT_MAX,
                ),
                timeout_ms=_number(given, "delivery.timeout.ms", _DELIVERY.timeout_ms),
                topic_timeout_ms=_number(given, "max.block.ms", _DELIVERY.topic_timeout_ms),
            ),
            timing=Timing(
                *(
                    _number(given, TIMING[field], default)
                    for field, default in PATIENCE._asdict().items()
                )
            ),
            formats=FormatOptions.parse(given.values, writing=True),
            security=parse_security(given.values),
        )

    @property
    def clock(self) -> SystemTime:
        return SystemTime()

    def cluster(self) -> Cluster:
        """New connections, as far as they will be needed."""
        return Cluster(
            self.bootstrap_servers,
            client_id=self.client_id,
            timing=self.timing,
            security=self.security,
            clock=self.clock,
        )


def _number(given: GivenOptions, name: str, default: int, *, least: int = 1) -> int:
    """Of 32 bits, as they are sent."""
    return given.number(f"{PREFIX}{name}", default, least=least, most=0x7FFF_FFFF)


def _topic(given: GivenOptions) -> str | None:
    topic = given.text("topic")
    if topic is not None and not topic.strip():
        raise BadOption("topic: no topic is named")
    return topic.strip() if topic is not None else None


def _batching(given: GivenOptions, request_bytes_max: int) -> Batching:
    codec = (given.text("kafka.compression.type") or "none").strip().lower()
    if codec not in CODECS:
        known = ", ".join(CODECS)
        raise BadOption(f"kafka.compression.type: expected one of {known}, got {codec!r}")
    level = None
    text = given.text(f"kafka.compression.{codec}.level")
    if text is not None:
        if not text.strip().removeprefix("-").isdecimal():
            raise BadOption(f"kafka.compression.{codec}.level: expected a number, got {text!r}")
        level = int(text)
    size = _number(given, "batch.size", BATCH_BYTES, least=0)
    return Batching(min(size, request_bytes_max), CODECS[codec], level, request_bytes_max)
