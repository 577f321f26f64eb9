"""Markers on partitions: those that this broker leads, and by way of their leaders all others.

What ends on a partition of ``__consumer_offsets`` ends in the group coordinator, which then lets
the offsets of the transaction count. A marker is written when it is committed, here as there.
"""

from ottla.common.environment import Scheduler
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownTopicOrPartition,
)
from ottla.common.promise import Promise, failed, fulfilled
from ottla.common.topic_partition import TopicPartition
from ottla.common.turn import Turn
from ottla.coordinator.group.service import GROUP_METADATA_TOPIC, GroupService
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes, MarkerSender
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.records.control import transaction_marker_batch
from ottla.replication.replicas import Replicas
from ottla.requests.context import MetadataSource
from ottla.server.broker_batches import BrokerBatches, Channel

_NOT_READY = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a group coordinator says, and the writer of markers does not expect."""


class LedMarkers:
    """Markers on the partitions that this broker leads.

    One that is not committed in time is asked for again: it is in the log, and not written twice.
    """

    def __init__(
        self,
        replicas: Replicas,
        metadata: MetadataSource,
        groups: GroupService,
        scheduler: Scheduler,
        *,
        timeout_ms: int,
    ) -> None:
        self._replicas = replicas
        self._metadata = metadata
        self._groups = groups
        self._scheduler = scheduler
        self._timeout_ms = timeout_ms
        self._uncommitted: dict[
            tuple[TopicPartition, EndTransactionMarker], list[Promise[None]]
        ] = {}
        """Those that are in the log, and the promises of them."""

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        answer = _Answer(self._scheduler.turn, partitions)
        for each in partitions:
            self._write(marker, each).when_done(
                lambda done, each=each: answer.note(each, _code(done))  # type: ignore[misc]
            )
        return answer.promise

    def _write(self, marker: EndTransactionMarker, each: TopicPartition) -> Promise[None]:
        if leader_of(self._metadata.image, each) is None:
            return failed(self._scheduler.turn, UnknownTopicOrPartition())
        if each.topic == GROUP_METADATA_TOPIC:
            return self._groups.complete_transaction(each.partition, marker)
        partition = self._replicas.partition(each.topic, each.partition)
        if partition is None or not partition.is_leader:
            return failed(self._scheduler.turn, NotLeaderOrFollower())
        waiting = self._uncommitted.get((each, marker))
        if waiting is not None:
            return self._in_time(waiting)
        now_ms = self._scheduler.wall_ms()
        batch = transaction_marker_batch(
            commit=marker.committed,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=now_ms,
        )
        try:
            offset = partition.append_marker(bytes(batch), now_ms, marker.transaction_version)
        except ApiError as error:
            return failed(self._scheduler.turn, error)
        committed = partition.when_committed(offset)
        waiting = self._uncommitted[each, marker] = []
        written = self._in_time(waiting)
        committed.when_done(lambda done: self._settle((each, marker), done))
        return written

    def _in_time(self, waiting: list[Promise[None]]) -> Promise[None]:
        written: Promise[None] = Promise(self._scheduler.turn)

        def late() -> None:
            if written in waiting:
                waiting.remove(written)
                written.fail(RequestTimedOut())

        waiting.append(written)
        timer = self._scheduler.call_later(self._timeout_ms / 1000, late)
        written.when_done(lambda _: timer.cancel())
        return written

    def _settle(
        self, what: tuple[TopicPartition, EndTransactionMarker], done: Promise[None]
    ) -> None:
        for written in self._uncommitted.pop(what):
            _pass_on(done, written)


class _Sent:
    """A marker on its way to a broker, for those partitions that it leads."""

    __slots__ = ("answer", "marker", "node_id", "partitions")

    def __init__(
        self,
        marker: EndTransactionMarker,
        node_id: int,
        partitions: list[TopicPartition],
        answer: "_Answer",
    ) -> None:
        self.marker = marker
        self.node_id = node_id
        self.partitions = partitions
        self.answer = answer

    def request(self) -> WritableTxnMarker:
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for topic, index in self.partitions:
            named = topics.setdefault(topic, WritableTxnMarkerTopic(name=topic))
            named.partition_indexes.append(index)
        return WritableTxnMarker(
            producer_id=self.marker.producer_id,
            producer_epoch=self.marker.producer_epoch,
            transaction_result=self.marker.committed,
            topics=list(topics.values()),
            coordinator_epoch=self.marker.coordinator_epoch,
            transaction_version=self.marker.transaction_version,
        )


class ClusterMarkers:
    """Markers on any partition, sent to its leader of now.

    It tries once: what fails is asked for again by the coordinator, and goes to the leader of then.
    Where a leader is replaced, its answer is not waited for any longer.
    """

    def __init__(
        self,
        led: MarkerSender,
        metadata: MetadataSource,
        channel: Channel,
        scheduler: Scheduler,
        *,
        node_id: int,
    ) -> None:
        self._led = led
        self._turn = scheduler.turn
        self._metadata = metadata
        self._node_id = node_id
        self._sent: dict[_Sent, None] = {}
        self._batches = BrokerBatches[_Sent, WriteTxnMarkersResponse](
            channel,
            scheduler,
            key=lambda sent: sent.marker.producer_id,
            make=lambda all_sent: WriteTxnMarkersRequest(
                markers=[sent.request() for sent in all_sent]
            ),
            answered=self._answered,
        )

    def send(
        self, marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        image = self._metadata.image
        by_leader: dict[int, list[TopicPartition]] = {}
        answer = _Answer(self._turn, partitions)
        for each in partitions:
            leader = leader_of(image, each)
            if leader is None:
                answer.note(each, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif leader < 0:
                answer.note(each, ErrorCode.LEADER_NOT_AVAILABLE)
            else:
                by_leader.setdefault(leader, []).append(each)
        own = by_leader.pop(self._node_id, [])
        for leader, led in by_leader.items():
            sent = _Sent(marker, leader, led, answer)
            self._sent[sent] = None
            self._batches.ask(leader, sent)
        if own:
            self._led.send(marker, tuple(own)).when_done(lambda done: answer.take(done.result()))
        return answer.promise

    def changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """The metadata log has moved on: a broker that leads no longer need not answer."""
        if not delta.topics:
            return
        for sent in list(self._sent):
            moved = [each for each in sent.partitions if leader_of(image, each) != sent.node_id]
            for each in moved:
                sent.answer.note(each, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _answered(self, asked: list[_Sent], response: WriteTxnMarkersResponse | None) -> None:
        found: dict[int, dict[TopicPartition, ErrorCode]] = {}
        if response is not None:
            for marker in response.markers:
                codes = found.setdefault(marker.producer_id, {})
                for topic in marker.topics:
                    for each in topic.partitions:
                        name = TopicPartition(topic.name, each.partition_index)
                        codes[name] = ErrorCode(each.error_code)
        for sent in asked:
            self._sent.pop(sent, None)
            codes = found.get(sent.marker.producer_id, {})
            for partition in sent.partitions:
                code = codes.get(partition, ErrorCode.NETWORK_EXCEPTION)
                if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    # A broker that is behind does not know it yet; whether it is gone, we know.
                    code = ErrorCode.NOT_LEADER_OR_FOLLOWER
                sent.answer.note(partition, code)


class _Answer:
    """How it went on each partition; whole when something is known of all of them."""

    __slots__ = ("_codes", "_partitions", "promise")

    def __init__(self, turn: Turn, partitions: tuple[TopicPartition, ...]) -> None:
        self._partitions = partitions
        self._codes: dict[TopicPartition, ErrorCode] = {}
        self.promise: Promise[Codes] = Promise(turn) if partitions else fulfilled(turn, {})

    def note(self, partition: TopicPartition, code: ErrorCode) -> None:
        """The first word counts."""
        self._codes.setdefault(partition, code)
        if len(self._codes) == len(self._partitions) and not self.promise.done:
            self.promise.fulfil(self._codes)

    def take(self, codes: Codes) -> None:
        for partition, code in codes.items():
            self.note(partition, code)


def leader_of(image: MetadataImage, each: TopicPartition) -> int | None:
    """Who leads a partition, -1 if nobody; None when there is no such partition."""
    topic = image.topics.by_name.get(each.topic)
    state = None if topic is None else topic.partitions.get(each.partition)
    return None if state is None else state.leader


def _code(done: Promise[None]) -> ErrorCode:
    try:
        done.result()
    except ApiError as error:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if error.code in _NOT_READY else error.code
    return ErrorCode.NONE


def _pass_on(done: Promise[None], to: Promise[None]) -> None:
    try:
        to.fulfil(done.result())
    except ApiError as error:
        to.fail(error)
