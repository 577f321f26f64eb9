"""What is wrong with a cluster: partitions, brokers, directories, and the quorum.

Each finding is a :class:`Problem`; none means that every record has all its copies and every node
does its part.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from ottla.client.admin import Admin
from ottla.client.descriptions import (
    ClusterDescription,
    ConfigResource,
    LogDirDescription,
    PartitionDescription,
    ResourceType,
    TopicDescription,
)
from ottla.client.errors import BrokerUnavailable, SomeRefused, refusal
from ottla.client.quorum import QuorumDescription, describe_quorum
from ottla.common.errors import ApiError

LAG_MS_MAX: Final = 10_000
"""A voter that had not all for longer than this is behind."""
_MIN_ISR: Final = "min.insync.replicas"


class Problem(NamedTuple):
    """``kind`` is a word for programs, ``message`` is for people."""

    kind: str
    subject: str
    message: str


class Health(NamedTuple):
    problems: list[Problem]
    brokers: int
    topics: int
    partitions: int

    @property
    def is_well(self) -> bool:
        return not self.problems


def cluster_health(admin: Admin, *, lag_ms_max: int = LAG_MS_MAX) -> Health:
    """Ask for everything, and say what is not as it should be."""
    described = admin.describe_cluster(fenced=True)
    names = admin.list_topics(internal=True)
    topics = _described_topics(admin, names)
    problems = [
        *partition_problems(topics, _min_isrs(admin, topics)),
        *_broker_problems(admin, described),
        *_quorum_problems(admin, lag_ms_max, {each.node_id for each in described.brokers}),
    ]
    partitions = sum(len(topic.partitions) for topic in topics.values())
    return Health(problems, len(described.brokers), len(topics), partitions)


def _described_topics(admin: Admin, names: Iterable[str]) -> dict[str, TopicDescription]:
    """All that are still there: one may be deleted while we look."""
    try:
        return admin.describe_topics(names)
    except SomeRefused as some:
        return dict(some.done)


def _min_isrs(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    if not resources:
        return {}
    try:
        found = admin.describe_configs(resources, keys=[_MIN_ISR])
    except SomeRefused as some:
        found = some.done
    return {
        resource.name: int(entry.value)
        for resource, entries in found.items()
        for entry in entries
        if entry.name == _MIN_ISR and entry.value is not None
    }


def partition_problems(
    topics: Mapping[str, TopicDescription], min_isrs: Mapping[str, int]
) -> Iterator[Problem]:
    """The worst that is to be said of each partition."""
    for name, topic in sorted(topics.items()):
        for each in topic.partitions:
            subject = f"{name}-{each.partition}"
            missing = [broker for broker in each.replicas if broker not in each.isr]
            without = f"without {', '.join(map(str, missing))}" if missing else ""
            least = min_isrs.get(name, 1)
            if each.leader < 0:
                yield Problem("offline-partition", subject, "nobody leads it")
            elif len(each.isr) < least:
                yield Problem(
                    "under-min-isr",
                    subject,
                    f"{_counted(each, without)}; acks=all needs {least}",
                )
            elif missing:
                yield Problem(
                    "under-replicated",
                    subject,
                    _counted(each, without),
                )


def _counted(partition: PartitionDescription, without: str) -> str:
    count = f"{len(partition.isr)} of {len(partition.replicas)} in sync"
    return f"{count}, {without}" if without else count


def _broker_problems(admin: Admin, described: ClusterDescription) -> Iterator[Problem]:
    for broker in described.brokers:
        subject = f"broker {broker.node_id}"
        if broker.fenced:
            yield Problem("fenced-broker", subject, f"fenced, at {broker.address}")
            continue
        try:
            directories = admin.describe_log_dirs([broker.node_id], partitions=[])
        except BrokerUnavailable as error:
            yield Problem("unreachable-broker", subject, str(error))
        except ApiError as error:
            yield Problem("refusing-broker", subject, str(error))
        else:
            yield from _directory_problems(subject, directories.get(broker.node_id, []))


def _directory_problems(
    subject: str, directories: Iterable[LogDirDescription]
) -> Iterator[Problem]:
    for directory in directories:
        if directory.error_code:
            why = refusal(directory.error_code).code.name
            yield Problem("offline-directory", subject, f"{directory.path}: {why}")


def _quorum_problems(admin: Admin, lag_ms_max: int, brokers: set[int]) -> Iterator[Problem]:
    try:
        quorum = describe_quorum(admin.cluster)
    except (ApiError, BrokerUnavailable) as error:
        yield Problem("no-controller", "quorum", str(error))
        return
    yield from quorum_problems(quorum, lag_ms_max)
    yield from stranger_problems(quorum, lag_ms_max, brokers)


def stranger_problems(
    quorum: QuorumDescription, lag_ms_max: int, brokers: Collection[int]
) -> Iterator[Problem]:
    """Nodes that live and belong to nothing: brokers that were unregistered while they ran."""
    now_ms = max(each.last_fetch_ms for each in [*quorum.voters, *quorum.observers])
    for observer in quorum.observers:
        is_live = now_ms - observer.last_fetch_ms <= lag_ms_max
        if is_live and observer.node_id not in brokers:
            yield Problem(
                "unregistered-node",
                f"node {observer.node_id}",
                "follows the metadata and is neither broker nor voter: a broker that was "
                "unregistered must be started anew, a controller be added to the quorum",
            )


def quorum_problems(quorum: QuorumDescription, lag_ms_max: int) -> Iterator[Problem]:
    """Copies of the metadata log that are behind."""
    voters = {voter.node_id for voter in quorum.voters}
    for replica in [*quorum.voters, *quorum.observers]:
        lag, lag_ms = quorum.lag(replica), quorum.lag_ms(replica)
        if lag > 0 and (lag_ms < 0 or lag_ms > lag_ms_max):
            kind = "voter" if replica.node_id in voters else "observer"
            since = f", for {lag_ms / 1000:.1f} s" if lag_ms >= 0 else ""
            yield Problem(
                f"lagging-{kind}", f"{kind} {replica.node_id}", f"{lag} records behind{since}"
            )
        elif lag < 0 or lag_ms > lag_ms_max:
            kind = "voter" if replica.node_id in voters else "observer"
            yield Problem(f"lagging-{kind}", f"{kind} {replica.node_id}", "not heard of lately")
