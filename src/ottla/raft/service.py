"""What a node of the quorum answers to the requests of others, checked as Kafka checks them.

The checks of form, cluster and epoch are here; what a request means is decided by the core. A fetch
that finds nothing new waits until the log has grown, the high watermark has moved, this node leads
no longer, or its time is over.
"""

from typing import Final

from ottla.common.environment import Cancellable
from ottla.common.errors import BrokerNotAvailable, ErrorCode
from ottla.common.identifiers import METADATA_TOPIC_ID
from ottla.common.promise import Promise, fulfilled
from ottla.protocol.generated.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)
from ottla.protocol.generated.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchResponse
from ottla.protocol.generated.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
)
from ottla.protocol.generated.vote import VoteRequest, VoteResponse
from ottla.raft.divergence import compare
from ottla.raft.driver import RaftDriver
from ottla.raft.effects import AnswerEpoch, AnswerVote
from ottla.raft.events import EpochBegun, EpochEnded, ReplicaFetched, ReplicaSeen, VoteRequested
from ottla.raft.requests import PARTITION, TOPIC
from ottla.raft.responses import (
    Asker,
    begin_response,
    end_response,
    fetch_response,
    snapshot_response,
    vote_response,
)
from ottla.raft.roles import Leader
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId
from ottla.raft.voters import LeaderInfo, ReplicaKey, VoterEndpoint

FETCHES_WAITING_MAX: Final = 10_000
_KEYS_FROM: Final = 1
"""Vote and BeginQuorumEpoch name the voter they are meant for."""
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15


class _WaitingFetch:
    __slots__ = ("answer", "asker", "high_watermark", "offset", "partition", "timer")

    def __init__(
        self, asker: Asker, partition: FetchPartition, answer: Promise[FetchResponse]
    ) -> None:
        self.asker = asker
        self.partition = partition
        self.offset = partition.fetch_offset
        self.high_watermark = partition.high_watermark
        """What the replica knows already; larger than any for one that does not say."""
        self.answer = answer
        self.timer: Cancellable | None = None


class RaftService:
    """Serves the requests of other nodes to one node of the quorum."""

    def __init__(self, driver: RaftDriver) -> None:
        self._driver = driver
        self._cluster_id = driver.settings.cluster_id
        self._waiting: list[_WaitingFetch] = []
        driver.on_progress.append(self._progressed)

    @property
    def _leader(self) -> LeaderInfo:
        return self._driver.node.leader

    def is_of_this_cluster(self, cluster_id: str | None) -> bool:
        return cluster_id is None or cluster_id == self._cluster_id

    def leader_only_error(self, epoch: int) -> ErrorCode:
        """Why a request for the leader of ``epoch`` is not for us."""
        node = self._driver.node
        if epoch < node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > node.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not node.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def _check_up(self) -> None:
        if self._driver.is_down:
            raise BrokerNotAvailable("The node is shutting down.")

    # Elections

    def vote(self, request: VoteRequest, asker: Asker) -> VoteResponse:
        self._check_up()
        if not self.is_of_this_cluster(request.cluster_id):
            return VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        if [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics] != [
            (TOPIC, [PARTITION])
        ]:
            return VoteResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked = request.topics[0].partitions[0]
        node = self._driver.node
        epoch, last_epoch = asked.replica_epoch, asked.last_offset_epoch
        limit = epoch if asked.pre_vote else epoch - 1
        if asked.last_offset < 0 or not 0 <= last_epoch <= limit or asked.replica_id < 0:
            answer = AnswerVote(node.epoch, node.leader_id, False, ErrorCode.INVALID_REQUEST)
        else:
            voter = None
            if asker.version >= _KEYS_FROM and request.voter_id >= 0:
                voter = ReplicaKey(request.voter_id, asked.voter_directory_id)
            answer = self._answer_vote(
                VoteRequested(
                    self._driver.now,
                    ReplicaKey(asked.replica_id, asked.replica_directory_id),
                    epoch,
                    asked.last_offset,
                    last_epoch,
                    asked.pre_vote,
                    voter,
                )
            )
        return vote_response(answer, self._leader, asker)

    def _answer_vote(self, event: VoteRequested) -> AnswerVote:
        for effect in self._driver.step(event):
            if isinstance(effect, AnswerVote):
                return effect
        raise BrokerNotAvailable("The vote could not be saved.")

    def begin_quorum_epoch(
        self, request: BeginQuorumEpochRequest, asker: Asker
    ) -> BeginQuorumEpochResponse:
        self._check_up()
        if not self.is_of_this_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            return BeginQuorumEpochResponse(error_code=error)
        if [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics] != [
            (TOPIC, [PARTITION])
        ]:
            error = ErrorCode.INVALID_REQUEST
            return BeginQuorumEpochResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        endpoints = tuple(VoterEndpoint(e.name, e.host, e.port) for e in request.leader_endpoints)
        voter = None
        if asker.version >= _KEYS_FROM and request.voter_id >= 0:
            voter = ReplicaKey(request.voter_id, asked.voter_directory_id)
        leader = LeaderInfo(asked.leader_epoch, asked.leader_id, endpoints)
        answer = self._answer_epoch(EpochBegun(self._driver.now, leader, voter))
        return begin_response(answer, self._leader, asker)

    def end_quorum_epoch(
        self, request: EndQuorumEpochRequest, asker: Asker
    ) -> EndQuorumEpochResponse:
        self._check_up()
        if not self.is_of_this_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            return EndQuorumEpochResponse(error_code=error)
        if [(t.topic_name, [p.partition_index for p in t.partitions]) for t in request.topics] != [
            (TOPIC, [PARTITION])
        ]:
            error = ErrorCode.INVALID_REQUEST
            return EndQuorumEpochResponse(error_code=error)
        asked = request.topics[0].partitions[0]
        endpoints = tuple(VoterEndpoint(e.name, e.host, e.port) for e in request.leader_endpoints)
        if asked.preferred_candidates:
            preferred = [
                ReplicaKey(each.candidate_id, each.candidate_directory_id)
                for each in asked.preferred_candidates
            ]
        else:
            preferred = [ReplicaKey(node_id) for node_id in asked.preferred_successors]
        leader = LeaderInfo(asked.leader_epoch, asked.leader_id, endpoints)
        answer = self._answer_epoch(EpochEnded(self._driver.now, leader, tuple(preferred)))
        return end_response(answer, self._leader, asker)

    def _answer_epoch(self, event: EpochBegun | EpochEnded) -> AnswerEpoch:
        if event.leader.leader_id < 0:
            node = self._driver.node
            return AnswerEpoch(node.epoch, node.leader_id, ErrorCode.INVALID_REQUEST)
        for effect in self._driver.step(event):
            if isinstance(effect, AnswerEpoch):
                return effect
        raise BrokerNotAvailable("The epoch could not be saved.")

    # Fetching the log

    def fetch(self, request: FetchRequest, asker: Asker) -> Promise[FetchResponse]:
        self._check_up()
        if not self.is_of_this_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            return fulfilled(self._driver.scheduler.turn, FetchResponse(error_code=error))
        if not self._is_for_metadata(request, asker.version):
            return fulfilled(
                self._driver.scheduler.turn, FetchResponse(error_code=ErrorCode.INVALID_REQUEST)
            )
        asked = request.topics[0].partitions[0]
        if (
            request.max_wait_ms < 0
            or asked.fetch_offset < 0
            or not 0 <= asked.last_fetched_epoch <= asked.current_leader_epoch
        ):
            error = ErrorCode.INVALID_REQUEST
            return fulfilled(
                self._driver.scheduler.turn, fetch_response(self._leader, asker, error=error)
            )
        replica_id = request.replica_id
        if asker.version >= _REPLICA_STATE_FROM:
            replica_id = request.replica_state.replica_id
        key = ReplicaKey(replica_id, asked.replica_directory_id)
        refusal = self._fetched(key, asked, asker)
        if refusal is not None:
            return fulfilled(self._driver.scheduler.turn, refusal)
        if request.max_wait_ms == 0 or self._has_news(asked):
            return fulfilled(self._driver.scheduler.turn, self._read(asked, asker))
        return self._wait(asker, asked, request.max_wait_ms)

    def _is_for_metadata(self, request: FetchRequest, version: int) -> bool:
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return False
        topic = request.topics[0]
        if version >= _TOPIC_IDS_FROM:
            is_topic = topic.topic_id == METADATA_TOPIC_ID
        else:
            is_topic = topic.topic == TOPIC
        return is_topic and topic.partitions[0].partition == PARTITION

    def _fetched(
        self, key: ReplicaKey, asked: FetchPartition, asker: Asker
    ) -> FetchResponse | None:
        """Count what a fetch says of the replica; or the answer to one that is not of our log."""
        driver = self._driver
        error = self.leader_only_error(asked.current_leader_epoch)
        if error == ErrorCode.NONE and key.node_id == driver.key.node_id:
            error = ErrorCode.INVALID_REQUEST
        if error != ErrorCode.NONE:
            return fetch_response(self._leader, asker, error=error)
        agreement = compare(
            driver.log, driver.snapshots.ids(), asked.fetch_offset, asked.last_fetched_epoch
        )
        if agreement.diverging is None and agreement.snapshot_id is None:
            driver.step(ReplicaFetched(driver.now, key, asked.fetch_offset))
            return None
        return fetch_response(
            self._leader, asker, agreement=agreement, high_watermark=self._high_watermark
        )

    def _read(self, asked: FetchPartition, asker: Asker) -> FetchResponse:
        driver = self._driver
        error = self.leader_only_error(asked.current_leader_epoch)
        if driver.is_down or error != ErrorCode.NONE:
            return fetch_response(
                self._leader, asker, error=error or ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
        has_more = asked.fetch_offset < driver.log.end_offset
        records = driver.read(asked.fetch_offset) if has_more else b""
        if records is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return fetch_response(self._leader, asker, error=error)
        return fetch_response(
            self._leader,
            asker,
            records=records,
            high_watermark=self._high_watermark,
            log_start_offset=driver.log.start_offset,
        )

    @property
    def _high_watermark(self) -> int:
        role = self._driver.node.role
        if not isinstance(role, Leader) or role.high_watermark is None:
            return -1
        return role.high_watermark

    def _has_news(self, asked: FetchPartition) -> bool:
        """Whether there is something to answer that the replica does not know."""
        driver = self._driver
        return (
            driver.is_down
            or self.leader_only_error(asked.current_leader_epoch) != ErrorCode.NONE
            or asked.fetch_offset < driver.log.end_offset
            or self._high_watermark > asked.high_watermark
        )

    # Waiting

    def _wait(
        self, asker: Asker, asked: FetchPartition, max_wait_ms: int
    ) -> Promise[FetchResponse]:
        answer: Promise[FetchResponse] = Promise(self._driver.scheduler.turn)
        waiting = _WaitingFetch(asker, asked, answer)
        self._waiting.append(waiting)
        waiting.timer = self._driver.scheduler.call_later(max_wait_ms / 1000, self._finish, waiting)
        if len(self._waiting) > FETCHES_WAITING_MAX:
            self._finish(self._waiting[0])
        return answer

    def _progressed(self) -> None:
        driver = self._driver
        is_leader = driver.node.is_leader and not driver.is_down
        for waiting in list(self._waiting):
            if (
                not is_leader
                or driver.log.end_offset > waiting.offset
                or self._high_watermark > waiting.high_watermark
            ):
                self._finish(waiting)

    def _finish(self, waiting: _WaitingFetch) -> None:
        if waiting not in self._waiting:
            return
        self._waiting.remove(waiting)
        if waiting.timer is not None:
            waiting.timer.cancel()
        waiting.answer.fulfil(self._read(waiting.partition, waiting.asker))

    # Snapshots

    def fetch_snapshot(self, request: FetchSnapshotRequest, asker: Asker) -> FetchSnapshotResponse:
        self._check_up()
        if not self.is_of_this_cluster(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
            return FetchSnapshotResponse(error_code=error)
        if len(request.topics) != 1 or len(request.topics[0].partitions) != 1:
            return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
        topic = request.topics[0]
        asked = topic.partitions[0]
        if (topic.name, asked.partition) != (TOPIC, PARTITION):
            return snapshot_response(
                LeaderInfo(0, 0),
                asker,
                error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                topic_name=topic.name,
                partition_index=asked.partition,
            )
        error = self.leader_only_error(asked.current_leader_epoch)
        if error != ErrorCode.NONE:
            return snapshot_response(self._leader, asker, error=error)
        return self._snapshot_chunk(request, asked, asker)

    def _snapshot_chunk(
        self,
        request: FetchSnapshotRequest,
        asked: FetchSnapshotRequestPartitionSnapshot,
        asker: Asker,
    ) -> FetchSnapshotResponse:
        driver = self._driver
        snapshot_id = SnapshotId(asked.snapshot_id.end_offset, asked.snapshot_id.epoch)
        if snapshot_id == BOOTSTRAP_SNAPSHOT or snapshot_id not in driver.snapshots.ids():
            error = ErrorCode.SNAPSHOT_NOT_FOUND
            return snapshot_response(self._leader, asker, error=error)
        size = driver.snapshots.size(snapshot_id)
        if not 0 <= asked.position < size:
            error = ErrorCode.POSITION_OUT_OF_RANGE
            return snapshot_response(self._leader, asker, error=error)
        count = max(0, min(request.max_bytes, driver.settings.snapshot_bytes_max))
        data = driver.read_snapshot(snapshot_id, asked.position, count)
        if data is None:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            return snapshot_response(self._leader, asker, error=error)
        key = ReplicaKey(request.replica_id, asked.replica_directory_id)
        driver.step(ReplicaSeen(driver.now, key))
        return snapshot_response(
            self._leader,
            asker,
            snapshot_id=snapshot_id,
            size=size,
            position=asked.position,
            data=data,
        )
