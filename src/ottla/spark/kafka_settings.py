"""The options that begin with ``kafka.``: settings of the client, by Kafka's own names.

A setting that our client has no use for (``max.poll.records``) is taken and passed over, so that a
query moves over unchanged; one that would change what is read or who may read it, and that we do
not have, is refused.
"""

import difflib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.cluster import Timing
from ottla.client.consumer import ISOLATION_LEVELS, Consumer
from ottla.client.producer import Producer
from ottla.client.security import SECURITY_SETTINGS, UNSECURED, ClientSecurity, security_of
from ottla.common.errors import InvalidConfig
from ottla.spark.errors import BadOption

PREFIX: Final = "kafka."
_log = logging.getLogger(__name__)

_FORBIDDEN: Final = {
    "auto.offset.reset": "set the option startingOffsets: the query itself keeps its offsets",
    "enable.auto.commit": "set the option commitGroup: it commits what a micro-batch has finished",
    "interceptor.classes": "interceptors may change what is read",
    "key.deserializer": "keys are bytes: cast them in the query",
    "value.deserializer": "values are bytes: cast them in the query",
}
_USED: Final = (
    "bootstrap.servers",
    "client.id",
    "default.api.timeout.ms",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "group.id",
    "isolation.level",
    "max.partition.fetch.bytes",
    "metadata.max.age.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
)
_PASSED_OVER: Final = (
    "allow.auto.create.topics",
    "auto.commit.interval.ms",
    "auto.include.jmx.reporter",
    "check.crcs",
    "client.dns.lookup",
    "client.rack",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "exclude.internal.topics",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "partition.assignment.strategy",
    "receive.buffer.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "send.buffer.bytes",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
)
_PARTITION_BYTES: Final = 4 << 20
"""Of one partition by one fetch: some ten thousand small records, a batch of Arrow of good size."""
_FETCH_WAIT_MS: Final = 100
"""A range ends at records that are there, so nobody waits for them; Kafka's 500 ms would show."""


PATIENCE: Final = Timing()


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach a cluster. Equal settings share their connections."""

    bootstrap_servers: str
    client_id: str = "ottla-spark"
    isolation_level: int = 0
    group_id: str | None = None
    fetch_bytes_max: int = 50 << 20
    fetch_bytes_min: int = 1
    fetch_wait_ms: int = _FETCH_WAIT_MS
    partition_bytes_max: int = _PARTITION_BYTES
    timing: Timing = PATIENCE
    security: ClientSecurity = UNSECURED

    @staticmethod
    def parse(options: Mapping[str, str]) -> "KafkaSettings":
        """Of options by their lower-case names; those without the prefix are others' business."""
        given = {
            name.removeprefix(PREFIX): value
            for name, value in options.items()
            if name.startswith(PREFIX)
        }
        for name in given:
            check_name(name, used=_USED, passed_over=_PASSED_OVER, forbidden=_FORBIDDEN)
        if "bootstrap.servers" not in given:
            raise BadOption("the option kafka.bootstrap.servers must be given")
        level = given.get("isolation.level", "read_uncommitted").lower()
        if level not in ISOLATION_LEVELS:
            known = " or ".join(sorted(ISOLATION_LEVELS))
            raise BadOption(f"kafka.isolation.level: expected {known}, got {level!r}")
        numbers, timing = (
            {field: _number(given, name) for field, name in names.items() if name in given}
            for names in (_NUMBERS, TIMING)
        )
        return KafkaSettings(
            bootstrap_servers=given["bootstrap.servers"],
            client_id=given.get("client.id", "ottla-spark"),
            isolation_level=ISOLATION_LEVELS[level],
            group_id=given.get("group.id"),
            timing=Timing(**timing),
            security=parse_security(options),
            **numbers,
        )

    def consumer(self, **more: Any) -> Consumer:
        """Of this cluster."""
        return Consumer(
            self.bootstrap_servers, client_id=self.client_id, security=self.security, **more
        )

    def producer(self, **more: Any) -> Producer:
        """Of this cluster."""
        named = {"client_id": self.client_id, **more}
        return Producer(self.bootstrap_servers, security=self.security, **named)


_NUMBERS: Final = {
    "fetch_bytes_max": "fetch.max.bytes",
    "fetch_bytes_min": "fetch.min.bytes",
    "fetch_wait_ms": "fetch.max.wait.ms",
    "partition_bytes_max": "max.partition.fetch.bytes",
}
TIMING: Final = {
    "connect_timeout_ms": "socket.connection.setup.timeout.ms",
    "request_timeout_ms": "request.timeout.ms",
    "call_timeout_ms": "default.api.timeout.ms",
    "back_off_ms": "retry.backoff.ms",
    "back_off_max_ms": "retry.backoff.max.ms",
    "metadata_age_max_ms": "metadata.max.age.ms",
}


def check_name(
    name: str, *, used: Sequence[str], passed_over: Sequence[str], forbidden: Mapping[str, str]
) -> None:
    """Refuse a setting of Kafka's that cannot be, or that is probably another one misspelt."""
    if name in forbidden:
        raise BadOption(f"kafka.{name} cannot be set: {forbidden[name]}")
    if name in used or name in passed_over or name in SECURITY_SETTINGS:
        return
    close = difflib.get_close_matches(name, (*used, *passed_over, *SECURITY_SETTINGS), 1, 0.8)
    if close:
        raise BadOption(f"kafka.{name} is unknown; did you mean kafka.{close[0]}?")
    if name.startswith(("sasl.", "ssl.")):
        raise BadOption(f"kafka.{name}: there is no such setting, and security must not be guessed")
    _log.warning("kafka.%s is unknown and has no effect", name)


def parse_security(options: Mapping[str, str]) -> ClientSecurity:
    """What the options say of encryption and of who we are."""
    given = {
        name.removeprefix(PREFIX): value
        for name, value in options.items()
        if name.startswith(PREFIX)
    }
    try:
        return security_of(given)
    except InvalidConfig as error:
        raise BadOption(f"{PREFIX}{error.message}") from None


_SHOWN: Final = frozenset({"kafka.ssl.keystore.key", "kafka.ssl.key.pem"})
"""Private keys: Spark prints options into plans, and knows by their names what is a password."""


def refuse_shown(options: Mapping[str, str]) -> None:
    """Refuse secrets that Spark would show to everybody who looks at a plan."""
    for name in _SHOWN.intersection(each.lower() for each in options):
        raise BadOption(
            f"{name}: Spark would show the key in plans and in its event log; put it into a file "
            "that the executors have, and name that by kafka.ssl.keystore.location"
        )


def security_options(security: ClientSecurity) -> dict[str, str]:
    """The same as options."""
    return {f"{PREFIX}{name}": value for name, value in security.settings}


def _number(given: Mapping[str, str], name: str) -> int:
    text = given[name].strip()
    if not text.isdecimal() or int(text) > 0x7FFF_FFFF:
        raise BadOption(f"kafka.{name}: expected a number, got {given[name]!r}")
    return int(text)
