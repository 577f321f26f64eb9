"""What ``ottla topics describe`` shows: a topic with its settings, partitions, and their sizes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.cli.clients import open_admin
from ottla.cli.names import expand, has_pattern
from ottla.cli.output import Column, Output, Row
from ottla.cli.refusals import report_refusals
from ottla.cli.settings import ClientSettings
from ottla.cli.sizes import Replica, Replicas, describe_replicas, one_size
from ottla.client.descriptions import ConfigResource, ConfigSource, ResourceType
from ottla.common.errors import ApiError
from ottla.common.identifiers import uuid_text
from ottla.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.descriptions import ConfigEntry, PartitionDescription, TopicDescription

_REMOTE: Final = "remote.storage.enable"


class Described(NamedTuple):
    """A topic, its own settings, and the sizes of its partitions."""

    topic: "TopicDescription"
    configs: Mapping[str, str | None]
    replicas: Mapping[int, Mapping[int, Replica]]
    """By partition and broker."""
    remote_sizes: Mapping[int, int] | None
    """By partition; None for a topic without remote storage."""

    def partition_fields(self, partition: "PartitionDescription") -> dict[str, Any]:
        replicas = self.replicas[partition.partition]
        remote = self.remote_sizes
        return {
            **partition._asdict(),
            "local_size": one_size(replicas, partition.leader),
            "remote_size": None if remote is None else remote.get(partition.partition),
            "replica_sizes": {str(node_id): each.size for node_id, each in replicas.items()},
        }

    def totals(self) -> dict[str, int | None]:
        """Of one replica of each partition; None where nothing is known of any."""
        rows = [self.partition_fields(partition) for partition in self.topic.partitions]
        return {
            name: sum(known)
            if (known := [row[name] for row in rows if row[name] is not None])
            else None
            for name in ("local_size", "remote_size")
        }


def describe_topics(
    names: Sequence[str], client: ClientSettings, output: Output, *, quiet: bool
) -> list[Described]:
    with open_admin(client) as admin:
        known = admin.list_topics(internal=True) if not names or has_pattern(names) else []
        wanted = expand(names, known, "topic", output) if names else known
        found = report_refusals(output, "topic", lambda: admin.describe_topics(wanted))
        topics = [found[name] for name in sorted(found)]
        resources = [ConfigResource(ResourceType.TOPIC, topic.name) for topic in topics]
        configs = admin.describe_configs(resources) if resources else {}
        replicas = describe_replicas(admin, topics, output) if topics else {}
    by_name = {resource.name: entries for resource, entries in configs.items()}
    tiered = [topic for topic in topics if _has_remote_storage(by_name.get(topic.name, ()))]
    remote = _remote_sizes(tiered, client, output, quiet=quiet)
    return [
        Described(
            topic,
            _own(by_name.get(topic.name, ())),
            _of_topic(topic, replicas),
            remote.get(topic.name),
        )
        for topic in topics
    ]


def _own(entries: Iterable["ConfigEntry"]) -> dict[str, str | None]:
    return {
        entry.name: entry.value
        for entry in entries
        if entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG
    }


def _has_remote_storage(entries: Iterable["ConfigEntry"]) -> bool:
    return any(entry.name == _REMOTE and entry.value == "true" for entry in entries)


def _of_topic(topic: "TopicDescription", replicas: Replicas) -> dict[int, Mapping[int, Replica]]:
    return {
        each.partition: replicas.get(TopicPartition(topic.name, each.partition), {})
        for each in topic.partitions
    }


def _remote_sizes(
    topics: Sequence["TopicDescription"], client: ClientSettings, output: Output, *, quiet: bool
) -> dict[str, dict[int, int]]:
    """By topic and partition; empty where the metadata topic cannot be read, which is said."""
    if not topics:
        return {}
    from ottla.cli.remote_metadata import read_remote_metadata
    from ottla.tiered.segments import TopicIdPartition

    wanted = [
        TopicIdPartition(topic.topic_id, topic.name, each.partition)
        for topic in topics
        for each in topic.partitions
    ]
    sizes: dict[str, dict[int, int]] = {topic.name: {} for topic in topics}
    try:
        for partition, remote in read_remote_metadata(client, wanted, quiet=quiet).items():
            sizes[partition.topic][partition.partition] = remote.size()
    except (ApiError, OSError) as error:
        output.talk(f"remote sizes are not known: {error}")
    return sizes


# Showing


def show_topics(output: Output, described: Sequence[Described]) -> None:
    if output.is_document:
        output.document({"topics": [_document(each) for each in described]})
        return
    if output.form != "tsv":
        for each in described:
            output.line(_heading(each))
    names = ["topic", "partition", "leader", "replicas", "isr", "local_size"]
    if any(each.remote_sizes is not None for each in described):
        names.append("remote_size")
    wide = ("leader_epoch", "offline_replicas", "eligible_leader_replicas", "last_known_elr")
    columns = [*map(Column, names), *(Column(name, wide=True) for name in wide)]
    output.rows("partitions", columns, _rows(described))


def _document(described: Described) -> dict[str, Any]:
    topic = described.topic
    return {
        "name": topic.name,
        "topic_id": uuid_text(topic.topic_id),
        "internal": topic.internal,
        "configs": described.configs,
        **described.totals(),
        "partitions": [described.partition_fields(each) for each in topic.partitions],
    }


def _heading(described: Described) -> str:
    topic = described.topic
    settings = " ".join(f"{key}={value}" for key, value in described.configs.items())
    sizes = [
        f"{name.replace('_', ' ')} {size}"
        for name, size in described.totals().items()
        if size is not None
    ]
    words = (topic.name, uuid_text(topic.topic_id), ", ".join(sizes), settings)
    return "  ".join(word for word in words if word)


def _rows(described: Sequence[Described]) -> list[Row]:
    return [
        {"topic": each.topic.name, **each.partition_fields(partition)}
        for each in described
        for partition in each.topic.partitions
    ]
