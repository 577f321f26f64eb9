"""CreateTopics and DeleteTopics.

Every topic of a request stands for itself: one that is refused says why and the others go on. The
records of all that are created go into one batch.
"""

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Final, TypeAlias

from ottla.common.errors import (
    ApiError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidTopicException,
    PolicyViolation,
    TopicAlreadyExists,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ottla.common.identifiers import METADATA_TOPIC, ZERO_UUID, random_uuid
from ottla.controller import topic_names
from ottla.controller.assignments import check_assignment, first_record, place
from ottla.controller.charges import Charging, free_of_charge
from ottla.controller.configs import ConfigsManager
from ottla.controller.result import RECORDS_MAX, ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ottla.protocol.generated.metadata_records import (
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)

Settings: TypeAlias = tuple[tuple[str, str], ...]

USE_DEFAULT: Final = -1


class TopicsManager:
    def __init__(self, state: ControllerState, configs: ConfigsManager) -> None:
        self._state = state
        self._configs = configs

    # CreateTopics

    def create_topics(
        self, request: CreateTopicsRequest, charge: Charging = free_of_charge
    ) -> ControllerResult[CreateTopicsResponse]:
        default = self._state.effective_config().num_partitions
        count = sum(_partition_count(topic, default) for topic in request.topics)
        if count > RECORDS_MAX:
            error = PolicyViolation("Excessively large number of partitions per request.")
            return _all_refused(request, error)
        records: list[MetadataRecord] = []
        results: list[CreatableTopicResult] = []
        names = Counter(topic.name for topic in request.topics)
        taken = self._metric_names(request)
        described = cache(self._described)  # most topics of a request have the same settings
        for topic in request.topics:
            if names[topic.name] > 1:
                continue
            try:
                result, made = self._create_topic(topic, taken, described, charge)
            except ApiError as error:
                results.append(_refused(topic.name, error))
            else:
                results.append(result)
                records += made
        duplicate = InvalidRequest("Duplicate topic name.")
        results += [_refused(name, duplicate) for name, times in names.items() if times > 1]
        try:
            check_records(records)
        except PolicyViolation as error:
            return _all_refused(request, error)
        return ControllerResult(
            CreateTopicsResponse(topics=results), [] if request.validate_only else records
        )

    def _metric_names(self, request: CreateTopicsRequest) -> dict[str, str]:
        """Names in metrics of the topics there are, when a new one may collide with one."""
        if not any(topic_names.has_collision_character(topic.name) for topic in request.topics):
            return {}
        return {topic_names.metric_name(name): name for name in self._state.image.topics.by_name}

    def _create_topic(
        self,
        topic: CreatableTopic,
        taken: dict[str, str],
        described: Callable[[Settings], list[CreatableTopicConfigs]],
        charge: Charging,
    ) -> tuple[CreatableTopicResult, list[MetadataRecord]]:
        self._check_name(topic.name, taken)
        configs = {config.name: config.value for config in topic.configs}
        config_records = self._configs.new_topic_records(topic.name, configs)
        topic_id = self._new_topic_id()
        partitions = self._new_partitions(topic, topic_id)
        charge(len(partitions))
        records: list[MetadataRecord] = [TopicRecord(name=topic.name, topic_id=topic_id)]
        records += config_records
        records += partitions
        result = CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
        )
        own = tuple((each.name, each.value) for each in config_records if each.value is not None)
        result.configs = described(own)
        return result, records

    def _check_name(self, name: str, taken: dict[str, str]) -> None:
        if name == METADATA_TOPIC:
            raise InvalidRequest(f"Creation of internal topic {name} is prohibited.")
        topic_names.check_topic_name(name)
        if name in self._state.image.topics.by_name:
            raise TopicAlreadyExists(f"Topic '{name}' already exists.")
        other = taken.get(topic_names.metric_name(name))
        if other is not None:
            raise InvalidTopicException(f"Topic '{name}' collides with existing topic: {other}")

    def _new_topic_id(self) -> bytes:
        while True:
            topic_id = random_uuid(self._state.chance)
            if topic_id not in self._state.image.topics.by_id:
                return topic_id

    def _new_partitions(self, topic: CreatableTopic, topic_id: bytes) -> list[PartitionRecord]:
        if topic.assignments:
            assignments = self._manual_assignments(topic)
        else:
            assignments = self._placed(topic)
        return [
            first_record(self._state, topic_id, partition_id, replicas)
            for partition_id, replicas in enumerate(assignments)
        ]

    def _manual_assignments(self, topic: CreatableTopic) -> list[list[int]]:
        if topic.replication_factor != USE_DEFAULT:
            raise InvalidRequest(
                "A manual partition assignment was specified, "
                "but replication factor was not set to -1."
            )
        if topic.num_partitions != USE_DEFAULT:
            raise InvalidRequest(
                "A manual partition assignment was specified, but numPartitions was not set to -1."
            )
        assignments: dict[int, list[int]] = {}
        replication_factor: int | None = None
        for assignment in topic.assignments:
            partition_id, replicas = assignment.partition_index, assignment.broker_ids
            if partition_id in assignments:
                raise InvalidReplicaAssignment(
                    f"Found multiple manual partition assignments for partition {partition_id}"
                )
            check_assignment(self._state, replicas, replication_factor)
            if not any(self._state.is_active(broker_id) for broker_id in replicas):
                raise InvalidReplicaAssignment(
                    "All brokers specified in the manual partition assignment for partition "
                    f"{partition_id} are fenced or in controlled shutdown."
                )
            replication_factor = len(replicas)
            assignments[partition_id] = replicas
        if sorted(assignments) != list(range(len(assignments))):
            raise InvalidReplicaAssignment(
                "partitions should be a consecutive 0-based integer sequence"
            )
        return [assignments[partition_id] for partition_id in range(len(assignments))]

    def _placed(self, topic: CreatableTopic) -> list[list[int]]:
        if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
            raise InvalidReplicationFactor(
                "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
            raise InvalidPartitions(
                "Number of partitions was set to an invalid non-positive value."
            )
        config = self._state.effective_config()
        count = topic.num_partitions
        replication_factor = topic.replication_factor
        return place(
            self._state,
            partitions=config.num_partitions if count == USE_DEFAULT else count,
            replication_factor=(
                config.default_replication_factor
                if replication_factor == USE_DEFAULT
                else replication_factor
            ),
        )

    def _described(self, settings: Settings) -> list[CreatableTopicConfigs]:
        own = dict(settings)
        return [
            CreatableTopicConfigs(
                name=entry.name,
                value=own.get(entry.name, entry.value),  # as it was given
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in self._configs.describe_topic(own)
        ]

    # DeleteTopics

    def delete_topics(
        self, request: DeleteTopicsRequest, charge: Charging = free_of_charge
    ) -> ControllerResult[DeleteTopicsResponse]:
        """Topics are named, by their names or their ids; never both for one."""
        if not self._state.config.delete_topic_enable:
            raise TopicDeletionDisabled("This cluster has disabled topic deletion.")
        asked = [DeleteTopicState(name=name) for name in request.topic_names]
        asked += request.topics
        records: list[MetadataRecord] = []
        results: list[DeletableTopicResult] = []
        duplicates = _duplicates(asked)
        found = [(wanted, self._find(wanted)) for wanted in asked if _key(wanted) not in duplicates]
        times = Counter(topic.topic_id for _, topic in found if isinstance(topic, TopicImage))
        for wanted, topic in found:
            if isinstance(topic, ApiError):
                results.append(_not_deleted(wanted, topic))
            elif times[topic.topic_id] == 1:
                results.append(self._delete(topic, records, charge))
            elif wanted.name is not None:
                # By its name and by its id: a request that is so unclear shall not delete it.
                both = DeleteTopicState(name=topic.name, topic_id=topic.topic_id)
                unclear = "The provided topic name maps to an ID that was already supplied."
                results.append(_not_deleted(both, InvalidRequest(unclear)))
        results += [_not_deleted(wanted, error) for wanted, error in duplicates.values()]
        check_records(records)
        return ControllerResult(DeleteTopicsResponse(responses=results), records)

    def _delete(
        self, topic: TopicImage, records: list[MetadataRecord], charge: Charging
    ) -> DeletableTopicResult:
        result = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
        try:
            charge(len(topic.partitions))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        else:
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        return result

    def _find(self, wanted: DeleteTopicState) -> TopicImage | ApiError:
        topics = self._state.image.topics
        if wanted.name is not None:
            if wanted.topic_id != ZERO_UUID:
                return InvalidRequest("You may not specify both topic name and topic id.")
            topic = topics.by_name.get(wanted.name)
            unknown: ApiError = UnknownTopicOrPartition(
                "This server does not host this topic-partition."
            )
        else:
            if wanted.topic_id == ZERO_UUID:
                return InvalidRequest("Neither topic name nor id were specified.")
            topic = topics.by_id.get(wanted.topic_id)
            unknown = UnknownTopicId("This server does not host this topic ID.")
        return unknown if topic is None else topic


def _partition_count(topic: CreatableTopic, default: int) -> int:
    if topic.assignments:
        return len(topic.assignments)
    return default if topic.num_partitions == USE_DEFAULT else max(topic.num_partitions, 1)


def _refused(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def _all_refused(
    request: CreateTopicsRequest, error: ApiError
) -> ControllerResult[CreateTopicsResponse]:
    return ControllerResult(
        CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])
    )


def _key(wanted: DeleteTopicState) -> str | bytes:
    return wanted.topic_id if wanted.name is None else wanted.name


def _duplicates(
    asked: list[DeleteTopicState],
) -> dict[str | bytes, tuple[DeleteTopicState, ApiError]]:
    found: dict[str | bytes, tuple[DeleteTopicState, ApiError]] = {}
    seen: set[str | bytes] = set()
    for wanted in asked:
        key = _key(wanted)
        if key in seen:
            what = "name" if wanted.name is not None else "id"
            found[key] = (wanted, InvalidRequest(f"Duplicate topic {what}."))
        seen.add(key)
    return found


def _not_deleted(wanted: DeleteTopicState, error: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=wanted.name,
        topic_id=wanted.topic_id,
        error_code=error.code,
        error_message=error.message,
    )
