"""Changes of partitions: AlterPartition, ElectLeaders, AssignReplicasToDirs, and what follows when
a broker comes or goes.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.common.errors import (
    ApiError,
    ElectionNotNeeded,
    EligibleLeadersNotAvailable,
    ErrorCode,
    InvalidRequest,
    PreferredLeaderNotAvailable,
    StaleBrokerEpoch,
    UnknownTopicOrPartition,
    UnsupportedVersion,
)
from ottla.controller.isr_checks import check_alter_partition
from ottla.controller.partition_index import PartitionKey
from ottla.controller.result import ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.election import Election
from ottla.metadata.partition_change import PartitionTargets, partition_change
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER, PartitionImage, TopicImage, changed_partition
from ottla.protocol.generated import alter_partition as ap
from ottla.protocol.generated import assign_replicas_to_dirs as ard
from ottla.protocol.generated import elect_leaders as el

PREFERRED: Final = 0
UNCLEAN: Final = 1
_ELECTIONS: Final = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}


class PartitionsManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    # When brokers come and go

    def leader_changes(
        self,
        partitions: Iterable[PartitionKey],
        *,
        removed: frozenset[int] = frozenset(),
        added: frozenset[int] = frozenset(),
        unclean_shutdown: frozenset[int] = frozenset(),
    ) -> list[MetadataRecord]:
        """New ISRs and leaders of ``partitions``, without and with these brokers."""
        records: list[MetadataRecord] = []
        away = removed | unclean_shutdown
        for topic, partition_id, partition in self._found(partitions):
            record = partition_change(
                topic.topic_id,
                partition_id,
                partition,
                PartitionTargets(
                    isr=[replica for replica in partition.isr if replica not in away],
                    unclean_shutdown=unclean_shutdown,
                ),
                self._state.rules(topic.name, partition, removed=away, added=added),
            )
            if record is not None:
                records.append(record)
        return records

    def broker_leaves(self, broker_id: int) -> list[MetadataRecord]:
        """Take a broker out of every ISR."""
        return self.leader_changes(
            self._state.index.in_isr(broker_id), removed=frozenset({broker_id})
        )

    def _found(
        self, keys: Iterable[PartitionKey]
    ) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        topics = self._state.image.topics.by_id
        for topic_id, partition_id in keys:
            topic = topics[topic_id]
            yield topic, partition_id, topic.partitions[partition_id]

    def unclean_elections(self, limit: int) -> list[MetadataRecord]:
        """Leaders for partitions without one whose topics allow unclean elections."""
        return self._elections(
            (
                found
                for found in self._found(self._state.index.leaderless)
                if self._state.unclean_election_enabled(found[0].name)
            ),
            Election.UNCLEAN,
            limit,
        )

    def preferred_elections(self, limit: int) -> list[MetadataRecord]:
        """Move leadership to preferred replicas, at most ``limit`` partitions at once."""
        imbalanced = self._found(self._state.index.imbalanced)
        return self._elections(imbalanced, Election.PREFERRED, limit)

    def _elections(
        self,
        partitions: Iterable[tuple[TopicImage, int, PartitionImage]],
        election: Election,
        limit: int,
    ) -> list[MetadataRecord]:
        records: list[MetadataRecord] = []
        for topic, partition_id, partition in partitions:
            record = self._elected(topic, partition_id, partition, election)
            if record is not None:
                records.append(record)
            if len(records) >= limit:
                break
        return records

    def _elected(
        self, topic: TopicImage, partition_id: int, partition: PartitionImage, election: Election
    ) -> MetadataRecord | None:
        rules = self._state.rules(topic.name, partition, election=election)
        return partition_change(topic.topic_id, partition_id, partition, PartitionTargets(), rules)

    # ElectLeaders

    def elect_leaders(
        self, request: el.ElectLeadersRequest
    ) -> ControllerResult[el.ElectLeadersResponse]:
        """Without partitions all are meant, and those that need no election are not listed."""
        if request.election_type not in _ELECTIONS:
            raise InvalidRequest(f"Unknown election type {request.election_type}")
        response = el.ElectLeadersResponse()
        records: list[MetadataRecord] = []
        everything = request.topic_partitions is None
        for name, partition_ids in self._asked(request):
            results: list[el.PartitionResult] = []
            for partition_id in partition_ids:
                result = el.PartitionResult(partition_id=partition_id, error_message=None)
                try:
                    records.append(self._elect(name, partition_id, request.election_type))
                except ApiError as error:
                    if everything and isinstance(error, ElectionNotNeeded):
                        continue
                    result.error_code, result.error_message = error.code, error.message
                results.append(result)
            response.replica_election_results.append(
                el.ReplicaElectionResult(topic=name, partition_result=results)
            )
        check_records(records)
        return ControllerResult(response, records, atomic=False)

    def _asked(self, request: el.ElectLeadersRequest) -> Iterable[tuple[str, Iterable[int]]]:
        if request.topic_partitions is None:
            return [(topic.name, sorted(topic.partitions)) for topic in self._state.image.topics]
        return [(wanted.topic, wanted.partitions) for wanted in request.topic_partitions]

    def _elect(self, name: str, partition_id: int, election_type: int) -> MetadataRecord:
        topic = self._state.image.topics.by_name.get(name)
        if topic is None:
            raise UnknownTopicOrPartition(f"No such topic as {name}")
        partition = topic.partitions.get(partition_id)
        if partition is None:
            raise UnknownTopicOrPartition(f"No such partition as {name}-{partition_id}")
        if election_type == PREFERRED:
            needed = partition.leader != partition.preferred_replica
        else:
            needed = partition.leader == NO_LEADER
        if not needed:
            raise ElectionNotNeeded("Leader election not needed for topic partition.")
        record = self._elected(topic, partition_id, partition, _ELECTIONS[election_type])
        if record is None:
            if election_type == PREFERRED:
                raise PreferredLeaderNotAvailable("The preferred leader was not available.")
            raise EligibleLeadersNotAvailable("Eligible topic partition leaders are not available.")
        return record

    # AlterPartition

    def alter_partition(
        self, request: ap.AlterPartitionRequest
    ) -> ControllerResult[ap.AlterPartitionResponse]:
        """A leader proposes an ISR; refused when it knows less than the log says."""
        self.check_broker_epoch(request.broker_id, request.broker_epoch)
        response = ap.AlterPartitionResponse()
        records: list[MetadataRecord] = []
        for wanted in request.topics:
            answer = ap.AlterPartitionResponseTopicData(topic_id=wanted.topic_id)
            response.topics.append(answer)
            topic = self._state.image.topics.by_id.get(wanted.topic_id)
            for proposal in wanted.partitions:
                if topic is None:
                    result = ap.AlterPartitionResponsePartitionData(
                        partition_index=proposal.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_ID,
                    )
                else:
                    result = self._alter_partition(request.broker_id, topic, proposal, records)
                answer.partitions.append(result)
        return ControllerResult(response, records, atomic=False)

    def _alter_partition(
        self,
        broker_id: int,
        topic: TopicImage,
        proposal: ap.AlterPartitionRequestPartitionData,
        records: list[MetadataRecord],
    ) -> ap.AlterPartitionResponsePartitionData:
        result = ap.AlterPartitionResponsePartitionData(partition_index=proposal.partition_index)
        partition = topic.partitions.get(proposal.partition_index)
        error = check_alter_partition(self._state.image, broker_id, partition, proposal)
        if error is not ErrorCode.NONE:
            result.error_code = error
            return result
        assert partition is not None
        record = partition_change(
            topic.topic_id,
            proposal.partition_index,
            partition,
            PartitionTargets(
                isr=proposed_isr(proposal), leader_recovery_state=proposal.leader_recovery_state
            ),
            self._state.rules(topic.name, partition),
        )
        if record is not None:
            records.append(record)
            partition = changed_partition(partition, record)
            if partition.leader != broker_id:
                # A reassignment is complete and took the leader away.
                result.error_code = ErrorCode.NEW_LEADER_ELECTED
                return result
        result.leader_id = partition.leader
        result.leader_epoch = partition.leader_epoch
        result.isr = list(partition.isr)
        result.leader_recovery_state = partition.leader_recovery_state
        result.partition_epoch = partition.partition_epoch
        return result

    def check_broker_epoch(self, broker_id: int, epoch: int) -> None:
        """Refuse a broker of another incarnation."""
        broker = self._state.image.brokers.get(broker_id)
        if broker is None:
            raise StaleBrokerEpoch(f"No broker registration found for broker id {broker_id}")
        if broker.epoch != epoch:
            raise StaleBrokerEpoch(
                f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
            )

    # AssignReplicasToDirs

    def assign_replicas_to_dirs(
        self, request: ard.AssignReplicasToDirsRequest
    ) -> ControllerResult[ard.AssignReplicasToDirsResponse]:
        """A broker with several directories tells where it put its replicas."""
        if not versions.directory_assignment_supported(self._state.metadata_version):
            raise UnsupportedVersion("Directory assignment is not supported yet.")
        self.check_broker_epoch(request.broker_id, request.broker_epoch)
        response = ard.AssignReplicasToDirsResponse()
        records: list[MetadataRecord] = []
        for directory in request.directories:
            answer = ard.AssignReplicasToDirsResponseDirectoryData(id=directory.id)
            response.directories.append(answer)
            for topic in directory.topics:
                topic_answer = ard.AssignReplicasToDirsResponseTopicData(topic_id=topic.topic_id)
                answer.topics.append(topic_answer)
                for wanted in topic.partitions:
                    error, record = self._assign(
                        request.broker_id, topic.topic_id, wanted.partition_index, directory.id
                    )
                    if record is not None:
                        records.append(record)
                    topic_answer.partitions.append(
                        ard.AssignReplicasToDirsResponsePartitionData(
                            partition_index=wanted.partition_index, error_code=error
                        )
                    )
        return ControllerResult(response, records, atomic=False)

    def _assign(
        self, broker_id: int, topic_id: bytes, partition_id: int, directory: bytes
    ) -> tuple[ErrorCode, MetadataRecord | None]:
        topic = self._state.image.topics.by_id.get(topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID, None
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None
        if broker_id not in partition.replicas:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER, None
        broker = self._state.image.brokers[broker_id]
        offline = not broker.has_online_directory(directory)
        isr = [r for r in partition.isr if r != broker_id] if offline else partition.isr
        record = partition_change(
            topic_id,
            partition_id,
            partition,
            PartitionTargets(isr=isr, directories={broker_id: directory}),
            self._state.rules(
                topic.name, partition, removed=frozenset({broker_id} if offline else ())
            ),
        )
        return ErrorCode.NONE, record


def proposed_isr(proposal: ap.AlterPartitionRequestPartitionData) -> list[int]:
    """The ISR as versions from 3 on name it, or else as those before."""
    if proposal.new_isr_with_epochs:
        return [member.broker_id for member in proposal.new_isr_with_epochs]
    return list(proposal.new_isr)
