"""Logs of a running cluster: what it tells of them, and their files if they lie on this machine.

A directory is taken for a broker's own when it bears its cluster's and its node's id. Of several
replicas the leader's is looked at if it is here. Remote segments are those of the metadata topic,
and the store is the one that the broker names, as far as this machine can reach it.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.clients import open_admin
from ottla.cli.log_places import Found, Where
from ottla.cli.output import Output
from ottla.cli.remote_metadata import read_remote_metadata
from ottla.cli.sizes import Replica, Replicas, describe_replicas, one_size
from ottla.client.descriptions import ConfigResource, ResourceType
from ottla.client.errors import SomeRefused
from ottla.client.offsets import EARLIEST, EARLIEST_LOCAL, LATEST
from ottla.common.errors import ApiError, InvalidConfig
from ottla.common.topic_partition import TopicPartition
from ottla.inspection.log_place import Checkpoints, Place, place_of
from ottla.inspection.read_only import FILES
from ottla.inspection.remote_tier import RemoteTier, open_tier
from ottla.storage.checkpoints import META_PROPERTIES, CorruptCheckpoint, MetaProperties
from ottla.tiered.segments import RemoteLogSegment, TopicIdPartition
from ottla.tiered.store import RemoteStoreError

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.descriptions import PartitionDescription, TopicDescription

_URL: Final = "ottla.remote.store.url"
_STORE: Final = "ottla.remote.store."
_TOPIC_KEYS: Final = ("cleanup.policy", "remote.storage.enable")


def find_in_cluster(
    names: Sequence[tuple[str, int | None, str]], where: Where, output: Output
) -> Found:
    """Each name as a topic, a partition of it if one may be meant, and as it was given."""
    with open_admin(where.client) as admin:
        wanted = _wanted(admin, names, output)
        topics = list(admin.describe_topics(sorted(wanted)).values()) if wanted else []
        if not topics:
            return Found([], None)
        configs = _configs(admin, [(ResourceType.TOPIC, topic.name) for topic in topics])
        replicas = describe_replicas(admin, topics, output)
        chosen = [
            (topic, each)
            for topic in topics
            for each in topic.partitions
            if wanted[topic.name] is None or each.partition in (wanted[topic.name] or ())
        ]
        places = _places(admin, chosen, replicas, configs)
        tiered = [
            place
            for place in places
            if configs[ResourceType.TOPIC, place.topic].get("remote.storage.enable") == "true"
        ]
        if not tiered or not where.remote:
            return Found(places, None)
        url, settings = _store_of(admin, chosen, where, here=any(p.directory for p in places))
    return Found(places, _tier(tiered, where, url, settings, output))


def _wanted(
    admin: "Admin", names: Sequence[tuple[str, int | None, str]], output: Output
) -> dict[str, set[int] | None]:
    """The topics that are meant, and which partitions of them; None for all."""
    candidates = sorted({topic for topic, _, _ in names} | {whole for _, _, whole in names})
    known = admin.cluster.refresh(candidates).topics
    wanted: dict[str, set[int] | None] = {}
    for topic, partition, whole in names:
        if whole in known and known[whole].exists:
            wanted[whole] = None
        elif topic in known and known[topic].exists and partition in known[topic].partitions:
            chosen = wanted.setdefault(topic, set())
            if chosen is not None and partition is not None:
                chosen.add(partition)
        else:
            output.error("UNKNOWN_TOPIC_OR_PARTITION", "no such topic or partition", topic=whole)
    return wanted


Configs = Mapping[tuple[int, str], Mapping[str, str]]


def _configs(
    admin: "Admin", resources: Iterable[tuple[int, str]], keys: Sequence[str] | None = _TOPIC_KEYS
) -> Configs:
    """The settings of resources that have a value."""
    asked = [ConfigResource(*resource) for resource in resources]
    return {
        (resource.resource_type, resource.name): {
            entry.name: entry.value for entry in entries if entry.value is not None
        }
        for resource, entries in admin.describe_configs(asked, keys=keys).items()
    }


def _places(
    admin: "Admin",
    chosen: Sequence[tuple["TopicDescription", "PartitionDescription"]],
    replicas: Replicas,
    configs: Configs,
) -> list[Place]:
    partitions = [TopicPartition(topic.name, each.partition) for topic, each in chosen]
    starts = _listed(admin, partitions, EARLIEST)
    local_starts = _listed(admin, partitions, EARLIEST_LOCAL)
    ends = _listed(admin, partitions, LATEST)
    places = []
    checkpoints = Checkpoints()
    for (topic, each), partition in zip(chosen, partitions, strict=True):
        directory = _directory_here(admin, partition, replicas[partition], each.leader)
        place = Place(topic.name, each.partition)
        if directory is not None:
            place = place_of(directory, checkpoints)
        policy = configs[ResourceType.TOPIC, topic.name].get("cleanup.policy", "")
        places.append(
            place._replace(
                topic_id=topic.topic_id,
                start_offset=starts.get(partition, place.start_offset),
                local_start_offset=local_starts.get(partition),
                end_offset=ends.get(partition),
                compacted="compact" in policy,
                local_size=one_size(replicas[partition], each.leader),
                live=True,
            )
        )
    return places


def _listed(
    admin: "Admin", partitions: Sequence[TopicPartition], kind: int
) -> dict[TopicPartition, int]:
    """Offsets of a kind, of the partitions that have a leader that knows it."""
    try:
        listed = admin.list_offsets(dict.fromkeys(partitions, kind))
    except SomeRefused as some:
        listed = some.done
    except ApiError:
        return {}  # older brokers know fewer kinds
    return {partition: each.offset for partition, each in listed.items() if each.offset >= 0}


def _directory_here(
    admin: "Admin", partition: TopicPartition, replicas: Mapping[int, Replica], leader: int
) -> str | None:
    """The directory of a replica on this machine."""
    for node_id in sorted(replicas, key=lambda node_id: (node_id != leader, node_id)):
        log_dir = replicas[node_id].log_dir
        path = f"{log_dir}/{partition}"
        try:
            meta = MetaProperties.decode(FILES.read(f"{log_dir}/{META_PROPERTIES}"))
        except (OSError, CorruptCheckpoint):
            continue
        owner = (meta.cluster_id, meta.node_id)
        if owner == (admin.cluster.metadata.cluster_id, node_id) and os.access(path, os.R_OK):
            return path
    return None


def _store_of(
    admin: "Admin",
    chosen: Sequence[tuple["TopicDescription", "PartitionDescription"]],
    where: Where,
    *,
    here: bool,
) -> tuple[str | None, dict[str, str]]:
    """Which store the brokers use; None when it is nobody's, or a directory elsewhere."""
    from ottla.config.broker import BrokerConfig
    from ottla.server.defaults import development_properties
    from ottla.tiered.driver.stores import store_url

    leaders = sorted({each.leader for _, each in chosen if each.leader >= 0})
    if where.remote_store is not None or not leaders:
        return where.remote_store, {}
    resource = ConfigResource(ResourceType.BROKER, str(leaders[0]))
    entries = {entry.name: entry.value for entry in admin.describe_configs([resource])[resource]}
    if _URL not in entries:
        return None, {}
    settings = {
        name: value
        for name, value in entries.items()
        if value is not None and (name.startswith(_STORE) or name == "log.dirs")
    }
    directory = settings.get("log.dirs", "/")
    try:
        config = BrokerConfig.from_properties({**development_properties(directory), **settings})
        url = store_url(config)
    except InvalidConfig:
        return None, {}
    return (url if here or not url.startswith("file:") else None), settings


def _tier(
    places: Sequence[Place],
    where: Where,
    url: str | None,
    settings: Mapping[str, str],
    output: Output,
) -> RemoteTier:
    wanted = [each for each in (place.id_partition for place in places) if each is not None]
    replayed = read_remote_metadata(where.client, wanted, quiet=where.quiet)
    known: dict[TopicIdPartition, list[RemoteLogSegment]] = {
        partition: list(remote.segments) for partition, remote in replayed.items()
    }
    if url is None:
        return RemoteTier(None, None, known)
    try:
        return open_tier(url, settings, known)
    except (RemoteStoreError, InvalidConfig) as error:
        output.talk(f"the remote store cannot be read: {error}")
        return RemoteTier(url, None, known)
