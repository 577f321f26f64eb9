"""AlterPartitionReassignments and ListPartitionReassignments.

While a partition moves, its replicas are the old and the new together: ``adding`` are to come into
the ISR, ``removing`` go once they have. Completing is no step of its own: the AlterPartition that
brings the last one in does it.
"""

from collections import Counter
from itertools import groupby

from ottla.common.errors import (
    ApiError,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    UnknownTopicOrPartition,
)
from ottla.controller.assignments import check_assignment
from ottla.controller.result import ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata.election import Election
from ottla.metadata.partition_change import PartitionTargets, partition_change
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import PartitionImage, TopicImage
from ottla.protocol.generated import alter_partition_reassignments as apr
from ottla.protocol.generated import list_partition_reassignments as lpr


class ReassignmentsManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    # AlterPartitionReassignments

    def alter_reassignments(
        self, request: apr.AlterPartitionReassignmentsRequest
    ) -> ControllerResult[apr.AlterPartitionReassignmentsResponse]:
        """Replicas to move to, or None to undo a move; nothing for what is named more than once.

        Each is decided by what the partition is now: two changes would be mixed up.
        """
        named = Counter(
            (topic.name, wanted.partition_index)
            for topic in request.topics
            for wanted in topic.partitions
        )
        response = apr.AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=request.allow_replication_factor_change,
            error_message=None if request.topics else "",
        )
        records: list[MetadataRecord] = []
        for topic in request.topics:
            answer = apr.ReassignableTopicResponse(name=topic.name)
            response.responses.append(answer)
            for wanted in topic.partitions:
                result = apr.ReassignablePartitionResponse(
                    partition_index=wanted.partition_index, error_message=None
                )
                answer.partitions.append(result)
                try:
                    _check_single(named, topic.name, wanted.partition_index)
                    record = self._alter(
                        topic.name,
                        wanted,
                        may_change_factor=request.allow_replication_factor_change,
                    )
                except ApiError as error:
                    result.error_code = error.code
                    result.error_message = error.message or None
                else:
                    if record is not None:
                        records.append(record)
        check_records(records)
        return ControllerResult(response, records)

    def _alter(
        self, name: str, wanted: apr.ReassignablePartition, *, may_change_factor: bool
    ) -> MetadataRecord | None:
        topic = self._state.image.topics.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"Unable to find a topic named {name}.")
        partition_id = wanted.partition_index
        partition = topic.partitions.get(partition_id)
        if partition is None:
            raise UnknownTopicOrPartition(f"Unable to find partition {name}:{partition_id}.")
        if wanted.replicas is None:
            targets = self._undone(topic, partition_id, partition)
            rules = self._state.rules(name, partition)
        else:
            check_assignment(self._state, wanted.replicas, None)
            if not may_change_factor:
                _check_factor(partition, wanted.replicas)
            targets = _moved(partition, wanted.replicas)
            rules = self._state.rules(name, partition, election=Election.ONLINE)
        return partition_change(topic.topic_id, partition_id, partition, targets, rules)

    def _undone(
        self, topic: TopicImage, partition_id: int, partition: PartitionImage
    ) -> PartitionTargets:
        if not partition.is_reassigning:
            raise NoReassignmentInProgress
        adding = partition.adding_replicas
        replicas = [replica for replica in partition.replicas if replica not in adding]
        isr = [replica for replica in partition.isr if replica not in adding]
        if not isr:
            if not replicas:
                raise InvalidReplicaAssignment(
                    "Invalid replica assignment: addingReplicas contains all replicas."
                )
            if not self._state.unclean_election_enabled(topic.name):
                raise InvalidReplicaAssignment(
                    f"Unable to revert partition assignment for {topic.name}:{partition_id} "
                    "because it would require an unclean leader election."
                )
            isr = replicas[:1]
        return PartitionTargets(
            isr=isr,
            replicas=replicas,
            removing_replicas=[],
            adding_replicas=[],
        )

    # ListPartitionReassignments

    def list_reassignments(
        self, request: lpr.ListPartitionReassignmentsRequest
    ) -> ControllerResult[lpr.ListPartitionReassignmentsResponse]:
        """All partitions that move, or those of the ones named that do."""
        topics = self._state.image.topics
        if request.topics is None:
            asked = [
                (topics.by_id[topic_id], [partition_id for _, partition_id in partitions])
                for topic_id, partitions in groupby(
                    self._state.index.reassigning, key=lambda found: found[0]
                )
            ]
        else:
            asked = [
                (topics.by_name[wanted.name], wanted.partition_indexes)
                for wanted in request.topics
                if wanted.name in topics.by_name
            ]
        response = lpr.ListPartitionReassignmentsResponse(error_message=None)
        for topic, partition_ids in asked:
            moving = [
                _ongoing(partition_id, partition)
                for partition_id in partition_ids
                if (partition := topic.partitions.get(partition_id)) is not None
                and partition.is_reassigning
            ]
            if moving:
                response.topics.append(
                    lpr.OngoingTopicReassignment(name=topic.name, partitions=moving)
                )
        return ControllerResult(response)


def _check_single(named: Counter[tuple[str, int]], topic: str, partition_id: int) -> None:
    if named[topic, partition_id] > 1:
        raise InvalidRequest(f"Duplicate partition {topic}-{partition_id}.")


def _check_factor(partition: PartitionImage, after: list[int]) -> None:
    before = len(set(partition.replicas) - set(partition.removing_replicas))
    if len(after) != before:
        raise InvalidReplicationFactor(
            f"The replication factor is changed from {before} to {len(after)}"
        )


def _moved(partition: PartitionImage, after: list[int]) -> PartitionTargets:
    """Before are all that there are, also those that an earlier reassignment is adding.

    What was to be added or removed and is so no longer is forgotten: otherwise a partition that
    is sent back to where it came from would be on its way for ever.
    """
    before = partition.replicas
    removing = sorted(set(before) - set(after))
    adding = sorted(set(after) - set(before))
    return PartitionTargets(
        replicas=[*after, *removing],
        removing_replicas=removing,
        adding_replicas=adding or [r for r in partition.adding_replicas if r in after],
    )


def _ongoing(partition_id: int, partition: PartitionImage) -> lpr.OngoingPartitionReassignment:
    return lpr.OngoingPartitionReassignment(
        partition_index=partition_id,
        replicas=list(partition.replicas),
        adding_replicas=list(partition.adding_replicas),
        removing_replicas=list(partition.removing_replicas),
    )
