"""The options of the source, by the names of spark-sql-kafka, and some of our own."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ottla.client.offsets import EARLIEST, LATEST
from ottla.common.topic_partition import TopicPartition
from ottla.spark.errors import BadOption
from ottla.spark.format_options import NO_FORMATS, FormatOptions, format_option_names
from ottla.spark.given_options import GivenOptions
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.offsets import (
    NAMES,
    AtTimestamp,
    AtTimestamps,
    Everywhere,
    Limit,
    OfGroup,
    Specific,
    parse_limit,
    parse_partitions,
    parse_timestamps,
)

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
OF_CONNECTOR: Final = (
    *SUBSCRIPTIONS,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "includeHeaders",
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
STORE_SETTINGS: Final = {
    "remoteStore.endpoint": "ottla.remote.store.endpoint",
    "remoteStore.region": "ottla.remote.store.region",
    "remoteStore.access.key.id": "ottla.remote.store.access.key.id",
    "remoteStore.secret.access.key": "ottla.remote.store.secret.access.key",
    "remoteStore.allow.http": "ottla.remote.store.allow.http",
}
"""How to reach the remote store, by the settings of the broker that say it."""
OUR_OWN: Final = (
    "commitGroup",
    "checkpointTopicIds",
    "maxBytesPerTrigger",
    "maxBytesPerPartition",
    "readFrom",
    "logDirs",
    "remoteStore",
    *STORE_SETTINGS,
)
READ_FROM: Final = ("auto", "broker", "segments", "remote")
SPLIT_BYTES: Final = 256 << 20
"""What one task of a batch query reads at most, as far as sizes are known."""

_STRATEGIES: Final = ("error", "latest")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions: of topics, of topics whose whole name matches, or those that are named."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What to read, from where to where, and how much at a time."""

    kafka: KafkaSettings
    subscription: Subscription
    starting: Limit
    ending: Limit
    latest_if_no_match: bool
    """Where a starting timestamp has no record: from the end, instead of an error."""
    fail_on_data_loss: bool
    read_from: str
    log_dirs: tuple[str, ...]
    remote_store: str | None
    store_settings: tuple[tuple[str, str], ...] = field(repr=False)
    """Secrets are among them."""
    commit_group: str | None
    checkpoint_topic_ids: bool
    """Whether the offsets of a stream say of which topics they are."""
    min_partitions: int | None
    records_per_partition_max: int | None
    bytes_per_partition_max: int | None
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    bytes_per_trigger_max: int | None
    trigger_delay_max_ms: int
    poll_timeout_ms: int | None
    retries: int
    retry_interval_ms: int
    formats: FormatOptions = NO_FORMATS

    @staticmethod
    def parse(options: Mapping[str, str], *, streaming: bool = False) -> "SourceOptions":
        given = GivenOptions(options, OF_CONNECTOR + OUR_OWN + format_option_names())
        starting = _limit(given, "starting", LATEST if streaming else EARLIEST)
        ending = _limit(given, "ending", LATEST)
        given.truth("includeHeaders", default=False)  # the schema has them; here it is checked
        if streaming:
            _check_streaming(given)
        else:
            _check_batch(starting, ending)
        kafka = KafkaSettings.parse(given.values)
        commit_group = given.text("commitGroup")
        if isinstance(starting, OfGroup) and not (commit_group or kafka.group_id):
            raise BadOption("startingOffsets=group: name the group, by the option commitGroup")
        read_from = given.word("readFrom", READ_FROM)
        if read_from == "remote" and "remoteStore" not in given:
            raise BadOption("readFrom=remote: name the remote store by the option remoteStore")
        split = given.bytes("maxBytesPerPartition")
        parsed = SourceOptions(
            kafka=kafka,
            subscription=_subscription(given),
            starting=starting,
            ending=ending,
            latest_if_no_match=given.word("startingOffsetsByTimestampStrategy", _STRATEGIES)
            == "latest",
            fail_on_data_loss=given.truth("failOnDataLoss", default=True),
            read_from=read_from,
            log_dirs=_paths(given.text("logDirs") or ""),
            remote_store=given.text("remoteStore"),
            store_settings=tuple(
                (setting, value)
                for name, setting in STORE_SETTINGS.items()
                if (value := given.text(name)) is not None
            ),
            commit_group=commit_group,
            checkpoint_topic_ids=given.truth("checkpointTopicIds", default=True),
            min_partitions=given.number("minPartitions"),
            records_per_partition_max=given.number("maxRecordsPerPartition"),
            bytes_per_partition_max=split if streaming else split or SPLIT_BYTES,
            offsets_per_trigger_max=given.number("maxOffsetsPerTrigger"),
            offsets_per_trigger_min=given.number("minOffsetsPerTrigger"),
            bytes_per_trigger_max=given.bytes("maxBytesPerTrigger"),
            trigger_delay_max_ms=given.milliseconds("maxTriggerDelay", "15m"),
            poll_timeout_ms=given.number("kafkaConsumer.pollTimeoutMs"),
            retries=given.number("fetchOffset.numRetries", 3, least=0),
            retry_interval_ms=given.number("fetchOffset.retryIntervalMs", 1_000, least=0),
            formats=FormatOptions.parse(given.values),
        )
        least, most = parsed.offsets_per_trigger_min, parsed.offsets_per_trigger_max
        if least is not None and most is not None and least > most:
            raise BadOption(
                f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most})"
            )
        return parsed

    @property
    def group(self) -> str | None:
        """The consumer group whose offsets ``startingOffsets=group`` means."""
        return self.commit_group or self.kafka.group_id


def _paths(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _subscription(given: GivenOptions) -> Subscription:
    named = [name for name in SUBSCRIPTIONS if name in given]
    if len(named) != 1:
        listed = ", ".join(SUBSCRIPTIONS)
        raise BadOption(
            f"{' and '.join(named)} exclude each other: give one of {listed}"
            if named
            else f"one of the options {listed} must be given"
        )
    (name,) = named
    text = (given.text(name) or "").strip()
    if name == "subscribe":
        topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        if not topics:
            raise BadOption("subscribe: no topic is named")
        return Subscription(topics=topics)
    if name == "assign":
        return Subscription(partitions=parse_partitions(text, name))
    if not text:
        raise BadOption("subscribePattern: no pattern is given")
    try:
        re.compile(text)
    except re.error as error:
        raise BadOption(f"subscribePattern: {text!r} is no regular expression: {error}") from None
    return Subscription(pattern=text)


def _limit(given: GivenOptions, which: str, default: int) -> Limit:
    """One time for all goes before a time for each partition, and that before offsets."""
    name = f"{which}Timestamp"
    stamp = given.number(name, least=0)
    if stamp is not None:
        return AtTimestamp(stamp)
    name = f"{which}OffsetsByTimestamp"
    text = given.text(name)
    if text is not None:
        return parse_timestamps(text, name)
    name = f"{which}Offsets"
    text = given.text(name)
    limit = Everywhere(default) if text is None else parse_limit(text, name)
    if which == "ending" and isinstance(limit, OfGroup):
        raise BadOption("endingOffsets: group is for startingOffsets only")
    return limit


def _check_streaming(given: GivenOptions) -> None:
    for name in ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp"):
        if name in given:
            raise BadOption(f"{name}: a streaming query has no end")


def _check_batch(starting: Limit, ending: Limit) -> None:
    """A batch query goes from somewhere before the end to somewhere behind the start."""
    for name, limit, refused in (
        ("startingOffsets", starting, LATEST),
        ("endingOffsets", ending, EARLIEST),
    ):
        word = f"can't be {NAMES[refused]} for batch queries"
        if limit == Everywhere(refused):
            raise BadOption(f"{name} {word}")
        if isinstance(limit, Specific):
            for where, offset in (*limit.offsets, *limit.topics):
                if offset == refused:
                    raise BadOption(f"{name} of {where} {word}")
    if isinstance(starting, Specific) and isinstance(ending, Specific):
        _check_order(dict(starting.offsets), dict(ending.offsets), "Offsets")
    if isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        _check_order(dict(starting.timestamps), dict(ending.timestamps), "OffsetsByTimestamp")


def _check_order(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], name: str
) -> None:
    for partition, start in starts.items():
        end = ends.get(partition, start)
        if 0 <= end < start:
            raise BadOption(f"{partition}: starting{name} {start} is behind ending{name} {end}")
