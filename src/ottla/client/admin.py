"""Looking after a cluster: topics, partitions, settings, offsets, groups, directories.

A method for several items does them all; if some are refused it raises SomeRefused, which holds the
refusals by item beside what was done.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from ottla.client import configs, groups, topics
from ottla.client.cluster import Cluster, Timing
from ottla.client.connection import Address
from ottla.client.descriptions import (
    ClusterDescription,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    CreatedTopic,
    DescribedBroker,
    LogDirDescription,
    NewTopic,
    ReplicaSize,
    TopicDescription,
)
from ottla.client.errors import SomeRefused, refusal
from ottla.client.leaders import ask_leaders, by_topic
from ottla.client.offsets import READ_UNCOMMITTED, ListedOffset, list_offsets
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.client.system_time import WaitingClock
from ottla.client.transactions import PartitionProducer, describe_producers
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)

_FENCED_FROM = 2


class Admin:
    """Not safe for several threads. Close it, or use it in a ``with`` block."""

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        client_id: str = "ottla-admin",
        timing: Timing | None = None,
        security: ClientSecurity = UNSECURED,
        clock: WaitingClock | None = None,
        of_controllers: bool = False,
    ) -> None:
        """``of_controllers``: the addresses are those of controllers, which know no topics."""
        self.cluster = Cluster(
            bootstrap_servers,
            client_id=client_id,
            timing=timing,
            security=security,
            clock=clock,
            of_controllers=of_controllers,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.cluster.close()

    def create_topics(
        self,
        wanted: Mapping[str, int] | Iterable[NewTopic],
        *,
        validate_only: bool = False,
    ) -> dict[str, CreatedTopic]:
        """Make topics, given in full or as names with their number of partitions."""
        if isinstance(wanted, Mapping):
            wanted = [NewTopic(name, partitions) for name, partitions in wanted.items()]
        return topics.create_topics(self.cluster, wanted, validate_only=validate_only)

    def delete_topics(self, names: Iterable[str]) -> None:
        topics.delete_topics(self.cluster, names)

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, without Kafka's own unless they are asked for."""
        known = self.cluster.refresh(None).topics.values()
        return sorted(topic.name for topic in known if internal or not topic.internal)

    def describe_topics(
        self, names: Iterable[str], *, page_partitions: int = 2000
    ) -> dict[str, TopicDescription]:
        """Topics with all their partitions, asked for in pages of so many partitions."""
        return topics.describe_topics(self.cluster, names, page_partitions=page_partitions)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Raise topics to a new number of partitions; ``assignments`` are of the added ones."""
        topics.create_partitions(
            self.cluster, counts, assignments=assignments, validate_only=validate_only
        )

    def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        keys: Sequence[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
    ) -> dict[ConfigResource, list[ConfigEntry]]:
        """All settings of each resource, or those that ``keys`` names."""
        return configs.describe_configs(
            self.cluster, resources, keys=keys, synonyms=synonyms, documentation=documentation
        )

    def alter_configs(
        self,
        changes: Mapping[ConfigResource, Sequence[ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change the settings that are named and leave the others (incrementally)."""
        configs.alter_configs(self.cluster, changes, validate_only=validate_only)

    def list_config_resources(self, resource_types: Iterable[int] = ()) -> list[ConfigResource]:
        """The resources with settings of their own, of the given types or of all."""
        return configs.list_config_resources(self.cluster, resource_types)

    def list_offsets(
        self,
        wanted: Mapping[TopicPartition, int],
        *,
        isolation_level: int = READ_UNCOMMITTED,
    ) -> dict[TopicPartition, ListedOffset]:
        """The offset at a timestamp, or a special one such as EARLIEST, of each partition."""
        listed, refused = list_offsets(self.cluster, wanted, isolation_level=isolation_level)
        if refused:
            raise SomeRefused(refused, listed)
        return listed

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete what lies before an offset, -1 for everything; where each partition begins now."""
        deadline = self.cluster.deadline()

        def request(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(
                                partition_index=index, offset=before[TopicPartition(topic, index)]
                            )
                            for index in indexes
                        ],
                    )
                    for topic, indexes in by_topic(partitions).items()
                ],
                timeout_ms=min(self.cluster.timing.request_timeout_ms, deadline.milliseconds),
            )

        done, refused = ask_leaders(
            self.cluster, before, request, DeleteRecordsResponse, _deleted, deadline=deadline
        )
        if refused:
            raise SomeRefused(refused, done)
        return done

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> list[groups.GroupListing]:
        return groups.list_groups(self.cluster, states=states, types=types)

    def describe_group(self, group_id: str) -> groups.GroupDescription:
        return groups.describe_group(self.cluster, group_id)

    def group_offsets(self, group_id: str) -> dict[TopicPartition, groups.CommittedOffset]:
        """Every offset that the group has committed."""
        return groups.group_offsets(self.cluster, group_id)

    def alter_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets for a group that has no members."""
        groups.alter_group_offsets(self.cluster, group_id, offsets)

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members, and their offsets."""
        groups.delete_groups(self.cluster, group_ids)

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        """The brokers that serve; with ``fenced`` those too that are known and do not."""

        def request(version: int) -> DescribeClusterRequest:
            return DescribeClusterRequest(include_fenced_brokers=fenced and version >= _FENCED_FROM)

        response = self.cluster.ask_again(
            request,
            DescribeClusterResponse,
            failed=lambda answer: (
                refusal(answer.error_code, answer.error_message) if answer.error_code else None
            ),
        )
        brokers = [
            DescribedBroker(
                broker.broker_id,
                Address(broker.host, broker.port),
                broker.rack,
                broker.is_fenced,
            )
            for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
        ]
        return ClusterDescription(response.cluster_id, response.controller_id, brokers)

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[PartitionProducer]]:
        """Who writes to each partition, by idempotence or transaction."""
        done, refused = describe_producers(self.cluster, partitions)
        if refused:
            raise SomeRefused(refused, done)
        return done

    def describe_log_dirs(
        self,
        node_ids: Iterable[int] | None = None,
        *,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[int, list[LogDirDescription]]:
        """The directories of each broker with the replicas in them, or those that are named."""
        asked = None if partitions is None else by_topic(partitions)
        request = DescribeLogDirsRequest(
            topics=None
            if asked is None
            else [
                DescribableLogDirTopic(topic=topic, partitions=indexes)
                for topic, indexes in asked.items()
            ]
        )
        done: dict[int, list[LogDirDescription]] = {}
        refused: dict[int, ApiError] = {}
        if node_ids is None:
            node_ids = sorted(self.cluster.refresh().brokers)
        for node_id in node_ids:
            if node_id not in self.cluster.metadata.brokers:
                self.cluster.node(node_id)
            response = self.cluster.ask_again(request, DescribeLogDirsResponse, node_id=node_id)
            if response.error_code:
                refused[node_id] = refusal(response.error_code)
            else:
                done[node_id] = [_log_dir(result) for result in response.results]
        if refused:
            raise SomeRefused(refused, done)
        return done


def _deleted(response: DeleteRecordsResponse) -> Iterable[tuple[TopicPartition, int, int]]:
    for topic in response.topics:
        for item in topic.partitions:
            partition = TopicPartition(topic.name, item.partition_index)
            yield partition, item.error_code, item.low_watermark


def _log_dir(result: DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        result.log_dir,
        result.error_code,
        [
            ReplicaSize(
                topic.name,
                item.partition_index,
                item.partition_size,
                item.offset_lag,
                item.is_future_key,
            )
            for topic in result.topics
            for item in topic.partitions
        ],
        result.total_bytes,
        result.usable_bytes,
    )
