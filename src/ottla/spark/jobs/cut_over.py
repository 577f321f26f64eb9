"""Where consumer groups go on in a repartitioned topic, so that they miss nothing.

By the mapping of offsets (``offset_mapping``), which is read for each source partition by one task.
Nobody but the job may have written to the target before it had copied all: what others write behind
that is read by every group.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.consumer import Consumer
from ottla.client.groups import list_groups
from ottla.client.offsets import EARLIEST
from ottla.common.errors import GroupIdNotFound, InvalidRequest
from ottla.common.topic_partition import TopicPartition
from ottla.spark.jobs.offset_mapping import Placed, Reach, cut_over, reach, read_again
from ottla.spark.jobs.repartition import Repartition
from ottla.spark.source.broker_reads import BrokerReads

POLL_MS: Final = 1_000

Committed = dict[str, dict[int, int]]
"""Of each group the offset in each source partition."""


class GroupPosition(NamedTuple):
    """Where a group goes on in one partition of the target."""

    group: str
    topic: str
    partition: int
    offset: int
    again: int
    """Records from there on that the group has read in the source already."""


class MappingRead(NamedTuple):
    """The work of one task: what the mapping says of one source partition to each group."""

    repartition: Repartition
    partition: int
    committed: Mapping[str, int]
    starts: Mapping[str, Mapping[int, int]]
    """By group, where it goes on; empty as long as that is asked for."""


def reach_of(item: MappingRead) -> dict[str, dict[int, Reach]]:
    placed = list(read_mapping(item.repartition, item.partition))
    return {group: reach(placed, offset) for group, offset in item.committed.items()}


def again_of(item: MappingRead) -> dict[str, dict[int, int]]:
    placed = list(read_mapping(item.repartition, item.partition))
    return {
        group: read_again(placed, offset, item.starts[group])
        for group, offset in item.committed.items()
    }


def read_mapping(job: Repartition, partition: int) -> Iterator[Placed]:
    """What is committed of the mapping of a source partition, in order of its offsets."""
    where = TopicPartition(job.mapping, partition % job.mapping_partitions)
    with Consumer(
        job.sink.bootstrap_servers,
        isolation_level="read_committed",
        client_id=job.sink.client_id,
        security=job.sink.security,
    ) as consumer:
        (last,) = consumer.end_offsets([where]).values()
        consumer.assign({where: EARLIEST})
        idle = 0
        while consumer.position(where) < last:
            polled = consumer.poll(POLL_MS).get(where, [])
            idle = 0 if polled else idle + POLL_MS
            if idle > job.sink.timing.call_timeout_ms:
                raise TimeoutError(f"{where} could not be read to its end in time")
            for record in polled:
                placed = Placed.decode(record.value or b"")
                if placed.source_partition == partition:
                    yield placed


def committed_offsets(
    reads: BrokerReads, job: Repartition, groups: Sequence[str] | None
) -> Committed:
    """What groups have read of the source; all that have read of it for None."""
    names = groups
    if names is None:
        names = [each.group_id for each in list_groups(reads.cluster)]
    count = len(reads.topics([job.source])[job.source].partitions)
    found: Committed = {}
    for name in names:
        if name == job.job:
            continue
        offsets = {
            partition.partition: each.offset
            for partition, each in reads.committed(name).items()
            if partition.topic == job.source
        }
        if offsets:
            found[name] = {index: offsets.get(index, 0) for index in range(count)}
        elif groups is not None:
            raise GroupIdNotFound(f"group {name} has no offsets of topic {job.source}")
    return found


def positions(
    job: Repartition,
    committed: Committed,
    run: Callable[
        [Sequence[MappingRead], Callable[[MappingRead], dict[str, dict[int, Reach]]]],
        Iterable[dict[str, dict[int, Reach]]],
    ],
    count: Callable[
        [Sequence[MappingRead], Callable[[MappingRead], dict[str, dict[int, int]]]],
        Iterable[dict[str, dict[int, int]]],
    ],
) -> list[GroupPosition]:
    """Of each group in each partition of the target; ``run`` and ``count`` spread the work."""
    if not committed:
        return []
    partitions = sorted(next(iter(committed.values())))
    items = [
        MappingRead(job, index, {group: each[index] for group, each in committed.items()}, {})
        for index in partitions
    ]
    reached = list(run(items, reach_of))
    starts = {
        group: cut_over((each[group] for each in reached), job.partitions) for group in committed
    }
    again: dict[str, dict[int, int]] = {group: {} for group in committed}
    for counted in count([item._replace(starts=starts) for item in items], again_of):
        for group, numbers in counted.items():
            for partition, number in numbers.items():
                again[group][partition] = again[group].get(partition, 0) + number
    return [
        GroupPosition(group, job.target, partition, offset, again[group].get(partition, 0))
        for group in sorted(starts)
        for partition, offset in sorted(starts[group].items())
    ]


def commit(reads: BrokerReads, group: str, found: Iterable[GroupPosition]) -> None:
    """Let a group go on in the target. InvalidRequest for one that has begun there already."""
    offsets = {
        TopicPartition(each.topic, each.partition): each.offset
        for each in found
        if each.group == group
    }
    begun = sorted(set(reads.committed(group)) & set(offsets))
    if begun:
        raise InvalidRequest(
            f"group {group} has offsets of {begun[0]} already and would read twice: "
            "reset them by hand if that is wanted"
        )
    reads.commit(group, offsets)
