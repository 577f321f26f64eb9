"""CreatePartitions: more partitions for topics that exist."""

from collections import Counter

from ottla.common.errors import (
    ApiError,
    InvalidPartitions,
    InvalidReplicaAssignment,
    InvalidRequest,
    PolicyViolation,
    UnknownTopicOrPartition,
)
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.controller.assignments import check_assignment, first_record, place
from ottla.controller.charges import Charging, free_of_charge
from ottla.controller.result import RECORDS_MAX, ControllerResult
from ottla.controller.state import ControllerState
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import TopicImage
from ottla.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class PartitionCountsManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charging = free_of_charge
    ) -> ControllerResult[CreatePartitionsResponse]:
        """New partitions go where as many replicas fit as the first partition of the topic has."""
        names = Counter(topic.name for topic in request.topics)
        results = [
            _refused(name, InvalidRequest("Duplicate topic name."))
            for name, times in names.items()
            if times > 1
        ]
        single = [wanted for wanted in request.topics if names[wanted.name] == 1]
        self._check_total(single)
        records: list[MetadataRecord] = []
        for wanted in single:
            try:
                records += self._create(wanted, charge)
            except ApiError as error:
                results.append(_refused(wanted.name, error))
            else:
                results.append(CreatePartitionsTopicResult(name=wanted.name))
        response = CreatePartitionsResponse(results=results)
        return ControllerResult(response, [] if request.validate_only else records)

    def _check_total(self, topics: list[CreatePartitionsTopic]) -> None:
        """Before anything is placed: the numbers came over the wire."""
        total = 0
        for wanted in topics:
            topic = self._state.image.topics.by_name.get(wanted.name)
            if topic is not None:
                additional = wanted.count - len(topic.partitions)
                # One that is too large alone is refused alone.
                total += additional if 0 < additional <= RECORDS_MAX else 0
        if total > RECORDS_MAX:
            raise PolicyViolation("Unable to perform excessively large batch operation.")

    def _create(self, wanted: CreatePartitionsTopic, charge: Charging) -> list[MetadataRecord]:
        topic = self._state.image.topics.by_name.get(wanted.name)
        if topic is None:
            raise UnknownTopicOrPartition
        if topic.name == REMOTE_LOG_METADATA:
            raise InvalidPartitions(
                f"Which partition of {REMOTE_LOG_METADATA} tells of a log depends on their number: "
                "with another one nobody would find what is in the remote store."
            )
        count = len(topic.partitions)
        if wanted.count == count:
            raise InvalidPartitions(f"Topic already has {count} partition(s).")
        if wanted.count < count:
            raise InvalidPartitions(
                f"The topic {topic.name} currently has {count} partition(s); "
                f"{wanted.count} would not be an increase."
            )
        if wanted.count - count > RECORDS_MAX:
            raise PolicyViolation("Excessively large number of partitions per request.")
        charge(wanted.count - count)
        replication_factor = len(topic.partitions[0].replicas)
        if wanted.assignments is None:
            placed = place(
                self._state,
                partitions=wanted.count - count,
                replication_factor=replication_factor,
            )
        else:
            placed = self._assigned(topic, wanted, replication_factor)
        return [
            first_record(self._state, topic.topic_id, count + index, replicas)
            for index, replicas in enumerate(placed)
        ]

    def _assigned(
        self, topic: TopicImage, wanted: CreatePartitionsTopic, replication_factor: int
    ) -> list[list[int]]:
        assignments = wanted.assignments or []
        additional = wanted.count - len(topic.partitions)
        if len(assignments) != additional:
            raise InvalidReplicaAssignment(
                f"Attempted to add {additional} additional partition(s), but only "
                f"{len(assignments)} assignment(s) were specified."
            )
        for assignment in assignments:
            check_assignment(self._state, assignment.broker_ids, replication_factor)
            if not any(self._state.is_active(broker_id) for broker_id in assignment.broker_ids):
                raise InvalidReplicaAssignment(
                    "All brokers specified in the manual partition assignment for partition "
                    f"{len(topic.partitions)} are fenced or in controlled shutdown."
                )
        return [assignment.broker_ids for assignment in assignments]


def _refused(name: str, error: ApiError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=error.code, error_message=error.message or None
    )
