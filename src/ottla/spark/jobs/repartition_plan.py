"""What there is to repartition: the topics, made if they are missing, and the next round.

The target gets the settings of the source. Timestamps are kept, so the target must not set its own.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.client.configs import describe_configs
from ottla.client.descriptions import ConfigResource, ConfigSource, NewTopic, ResourceType
from ottla.client.metadata import TopicMetadata
from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.topics import create_topics
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    InvalidPartitions,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.common.identifiers import uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.spark.jobs.repartition import PartitionCopy, Repartition
from ottla.spark.kafka_settings import security_options
from ottla.spark.sink.options import SinkOptions
from ottla.spark.source.broker_reads import BrokerReads
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import plan_ranges

ROUND_RECORDS: Final = 1_000_000
"""Of each partition in one round: people want to see that it goes on."""
MAPPING_SUFFIX: Final = "-offsets"
_STAMPS: Final = "message.timestamp.type"
_CREATE_TIME: Final = "CreateTime"
_OVERHEAD: Final = 1 << 16
"""Of a request, besides its largest batch."""


class Wanted(NamedTuple):
    """What somebody asks for."""

    job: str
    source: str
    target: str
    mapping: str
    partitions: int | None
    """Of a target that is not there yet."""
    options: SourceOptions
    sink: Mapping[str, str]
    transaction_records: int


class Topics(NamedTuple):
    """The topics of a job, as far as they exist."""

    source: TopicMetadata
    target: TopicMetadata | None
    mapping: TopicMetadata | None
    settings: Mapping[str, str]
    """Of the source, by itself."""
    record_bytes_max: int


def find_topics(reads: BrokerReads, wanted: Wanted) -> Topics:
    """UnknownTopicOrPartition without a source, others for a target that cannot be right."""
    known = reads.topics([wanted.source, wanted.target, wanted.mapping])
    if wanted.source not in known:
        raise UnknownTopicOrPartition(f"topic {wanted.source} does not exist")
    target = known.get(wanted.target)
    if target is None and wanted.partitions is None:
        raise UnknownTopicOrPartition(
            f"topic {wanted.target} does not exist: say by --partitions how many it is to get, "
            "or create it"
        )
    if target is not None:
        _check_target(reads, wanted, target)
    named = ConfigResource(ResourceType.TOPIC, wanted.source)
    entries = describe_configs(reads.cluster, [named])[named]
    own = {
        entry.name: entry.value or ""
        for entry in entries
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    largest = next(int(each.value or 0) for each in entries if each.name == "max.message.bytes")
    return Topics(known[wanted.source], target, known.get(wanted.mapping), own, largest)


def _check_target(reads: BrokerReads, wanted: Wanted, target: TopicMetadata) -> None:
    if wanted.partitions not in {None, len(target.partitions)}:
        raise InvalidPartitions(
            f"topic {wanted.target} has {len(target.partitions)} partitions, not "
            f"{wanted.partitions}"
        )
    named = ConfigResource(ResourceType.TOPIC, wanted.target)
    (entry,) = describe_configs(reads.cluster, [named], keys=[_STAMPS])[named]
    if entry.value != _CREATE_TIME:
        raise InvalidRequest(
            f"topic {wanted.target} has {_STAMPS}={entry.value} and would set its own timestamps: "
            f"set it to {_CREATE_TIME} until all is copied"
        )


def make_topics(reads: BrokerReads, wanted: Wanted, found: Topics) -> None:
    """Those that are missing."""
    replicas = len(next(iter(found.source.partitions.values())).replicas)
    missing = []
    if found.target is None:
        assert wanted.partitions is not None
        settings = {**found.settings, _STAMPS: _CREATE_TIME}
        missing.append(NewTopic(wanted.target, wanted.partitions, replicas, settings))
    if found.mapping is None:
        count = len(found.source.partitions)
        settings = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
        missing.append(NewTopic(wanted.mapping, count, replicas, settings))
    for each in missing:
        try:
            create_topics(reads.cluster, [each])
        except ApiError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    deadline, attempt = reads.cluster.deadline(), 0
    while len(reads.topics([each.name for each in missing])) < len(missing):
        attempt += 1
        if deadline.passed:
            raise UnknownTopicOrPartition(f"{missing} were made, but are not known yet")
        reads.cluster.pause(attempt, deadline)


def repartition(wanted: Wanted, found: Topics) -> Repartition:
    """The job, once its topics exist."""
    assert found.target is not None
    assert found.mapping is not None
    largest = max(found.record_bytes_max + _OVERHEAD, 1 << 20)
    sink = {
        "kafka.transaction.timeout.ms": "120000",
        "kafka.compression.type": "zstd",
        "kafka.max.request.size": str(largest),
        **wanted.sink,
        "kafka.bootstrap.servers": wanted.options.kafka.bootstrap_servers,
        **security_options(wanted.options.kafka.security),
    }
    ids = {"source": found.source, "target": found.target, "mapping": found.mapping}
    note = " ".join(f"{name}={uuid_text(topic.topic_id)}" for name, topic in ids.items())
    return Repartition(
        wanted.job,
        wanted.source,
        wanted.target,
        wanted.mapping,
        len(found.target.partitions),
        len(found.mapping.partitions),
        f"{note} partitions={len(found.target.partitions)}",
        wanted.options,
        SinkOptions.parse(sink),
        wanted.transaction_records,
    )


class Round(NamedTuple):
    lag: int
    """Offsets of all partitions that are not copied yet."""
    copies: list[PartitionCopy]


def next_round(reads: BrokerReads, job: Repartition, records_max: int = ROUND_RECORDS) -> Round:
    """From where the group stands to the ends of the source as they are now, or a part of it."""
    source = reads.topics([job.source])[job.source]
    partitions = [TopicPartition(job.source, index) for index in source.partitions]
    committed = reads.committed(job.job)
    for partition in partitions:
        if partition in committed:
            job.check(partition, committed[partition].metadata)
    fresh = dict.fromkeys((each for each in partitions if each not in committed), EARLIEST)
    starts, refused = reads.list_offsets(fresh)
    ends, more = reads.list_offsets(dict.fromkeys(partitions, LATEST))
    for error in (*refused.values(), *more.values()):
        raise error
    starts |= {each: committed[each].offset for each in partitions if each in committed}
    lag = sum(max(ends[each] - starts[each], 0) for each in partitions)
    upto = {each: min(end, starts[each] + records_max) for each, end in ends.items()}
    by_partition: dict[TopicPartition, list[OffsetRange]] = {}
    for planned in plan_ranges(job.options, reads, {job.source: source.topic_id}, starts, upto):
        where = TopicPartition(planned.topic, planned.partition)
        by_partition.setdefault(where, []).append(planned)
    copies = [PartitionCopy(job, each, tuple(some)) for each, some in by_partition.items()]
    return Round(lag, copies)
