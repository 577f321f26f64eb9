"""Markers find the leaders of their partitions, wherever these are, and however they move."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.server.brokers_asked import Asked, BrokersAsked, Metadata
from tests.turns import TURN, virtual_time

from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise, fulfilled
from ottla.common.topic_partition import TopicPartition
from ottla.coordinator.outside import EndTransactionMarker
from ottla.coordinator.transaction.markers import Codes
from ottla.metadata.delta import MetadataDelta
from ottla.protocol.generated.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.server.transaction_markers import ClusterMarkers

NODE_ID = 1
MARKER = EndTransactionMarker(
    producer_id=9, producer_epoch=4, coordinator_epoch=6, committed=True, transaction_version=2
)
ALL = tuple(TopicPartition("t", index) for index in range(3))


class Led:
    """The markers of this broker itself."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []

    def send(
        self, _marker: EndTransactionMarker, partitions: tuple[TopicPartition, ...]
    ) -> Promise[Codes]:
        self.written += partitions
        return fulfilled(TURN, dict.fromkeys(partitions, ErrorCode.NONE))


class World:
    def __init__(self) -> None:
        self.scheduler = virtual_time(3)
        self.channel = BrokersAsked()
        self.metadata = Metadata()
        self.metadata.put("t", 1, 2, 3)
        self.led = Led()
        self.markers = ClusterMarkers(
            self.led, self.metadata, self.channel, self.scheduler, node_id=NODE_ID
        )

    def send(
        self, *partitions: TopicPartition, marker: EndTransactionMarker = MARKER
    ) -> Promise[Codes]:
        promise = self.markers.send(marker, partitions or ALL)
        self.scheduler.run_for(0)
        return promise

    def answer(self, node_id: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """Let a broker answer the same of all that it was asked."""
        asked = self.channel.take(node_id)
        asked.answer.fulfil(
            WriteTxnMarkersResponse(
                markers=[
                    WritableTxnMarkerResult(
                        producer_id=marker.producer_id,
                        topics=[
                            WritableTxnMarkerTopicResult(
                                name=topic.name,
                                partitions=[
                                    WritableTxnMarkerPartitionResult(
                                        partition_index=index, error_code=code
                                    )
                                    for index in topic.partition_indexes
                                ],
                            )
                            for topic in marker.topics
                        ],
                    )
                    for marker in request_of(asked).markers
                ]
            )
        )

    def change(self, *leaders: int) -> None:
        """The partitions of the topic have other leaders now."""
        delta = MetadataDelta(self.metadata.image)
        self.metadata.put("t", *leaders)
        topic = self.metadata.image.topics.by_name["t"]
        changed = delta.topics._delta(topic.topic_id)
        changed.changed.update(topic.partitions)
        self.markers.changed(self.metadata.image, delta)


def request_of(asked: Asked) -> WriteTxnMarkersRequest:
    assert isinstance(asked.request, WriteTxnMarkersRequest)
    return asked.request


def test_each_leader_is_told_of_its_own_partitions() -> None:
    world = World()
    answer = world.send()
    assert world.led.written == [TopicPartition("t", 0)]
    told = {
        asked.node_id: request_of(asked).markers[0].topics[0].partition_indexes
        for asked in world.channel.asked
    }
    assert told == {2: [1], 3: [2]}
    world.answer(2)
    assert not answer.done
    world.answer(3)
    assert answer.result() == dict.fromkeys(ALL, ErrorCode.NONE)


def test_the_marker_arrives_as_it_is() -> None:
    world = World()
    world.send(TopicPartition("t", 1))
    (marker,) = request_of(world.channel.take(2)).markers
    assert (marker.producer_id, marker.producer_epoch) == (9, 4)
    assert (marker.coordinator_epoch, marker.transaction_version) == (6, 2)
    assert marker.transaction_result


def test_markers_of_several_transactions_share_a_request() -> None:
    world = World()
    for producer_id in (9, 10):
        world.markers.send(MARKER._replace(producer_id=producer_id), (TopicPartition("t", 1),))
    world.scheduler.run_for(0)
    (asked,) = world.channel.asked
    assert [marker.producer_id for marker in request_of(asked).markers] == [9, 10]


def test_a_partition_that_is_gone_need_not_be_told() -> None:
    world = World()
    gone = TopicPartition("gone", 0)
    assert world.send(gone).result() == {gone: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_leader_that_does_not_know_the_partition_yet_is_asked_again() -> None:
    world = World()
    answer = world.send(TopicPartition("t", 1))
    world.answer(2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert answer.result() == {TopicPartition("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_partition_without_leader_waits_for_one() -> None:
    world = World()
    world.metadata.put("t", 1, -1, 3)
    answer = world.send(TopicPartition("t", 1))
    assert answer.result() == {TopicPartition("t", 1): ErrorCode.LEADER_NOT_AVAILABLE}


def test_a_broker_that_is_away_costs_only_its_own_partitions() -> None:
    world = World()
    answer = world.send()
    world.answer(3)
    world.channel.cut(2)
    codes = answer.result()
    assert codes[TopicPartition("t", 1)] is ErrorCode.NETWORK_EXCEPTION
    assert codes[TopicPartition("t", 2)] is ErrorCode.NONE


def test_a_leader_that_is_replaced_is_not_waited_for() -> None:
    world = World()
    answer = world.send(TopicPartition("t", 1), TopicPartition("t", 2))
    world.answer(3)
    world.change(1, 3, 3)
    assert answer.result() == {
        TopicPartition("t", 1): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        TopicPartition("t", 2): ErrorCode.NONE,
    }
    again = world.send(TopicPartition("t", 1))
    world.answer(2)  # late, and of no consequence
    world.answer(3)
    assert again.result() == {TopicPartition("t", 1): ErrorCode.NONE}


PARTITIONS = [TopicPartition("t", index) for index in range(3)]
CODES = (ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.REQUEST_TIMED_OUT)


class Moving(RuleBasedStateMachine):
    """Leaders move, answer or are cut off: every marker is answered, and NONE is never made up."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.leaders = [1, 2, 3]
        self.answers: list[tuple[tuple[TopicPartition, ...], Promise[Codes]]] = []
        self.written: set[tuple[int, TopicPartition]] = set()
        """By producer id."""

    @rule(partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def send(self, partitions: set[TopicPartition]) -> None:
        marker = MARKER._replace(producer_id=len(self.answers))
        asked = tuple(sorted(partitions))
        for each in asked:
            if self.leaders[each.partition] == NODE_ID:
                self.written.add((marker.producer_id, each))
        self.answers.append((asked, self.world.markers.send(marker, asked)))

    @rule()
    def turn(self) -> None:
        self.world.scheduler.run_for(0)

    @rule(index=st.integers(0, 2), leader=st.sampled_from([-1, 1, 2, 3]))
    def move(self, index: int, leader: int) -> None:
        self.leaders[index] = leader
        self.world.change(*self.leaders)

    @precondition(lambda self: self.world.channel.asked)
    @rule(data=st.data(), code=st.sampled_from(CODES))
    def answer(self, data: st.DataObject, code: ErrorCode) -> None:
        asked = data.draw(st.sampled_from(self.world.channel.asked))
        if code is ErrorCode.NONE:
            for marker in request_of(asked).markers:
                for topic in marker.topics:
                    for index in topic.partition_indexes:
                        self.written.add((marker.producer_id, TopicPartition("t", index)))
        self.world.answer(asked.node_id, code)

    @precondition(lambda self: self.world.channel.asked)
    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        self.world.channel.cut(data.draw(st.sampled_from(self.world.channel.asked)).node_id)

    @invariant()
    def what_is_said_to_be_written_is(self) -> None:
        for producer_id, (asked, answer) in enumerate(self.answers):
            if answer.done:
                codes = answer.result()
                assert set(codes) == set(asked)
                done = {each for each, code in codes.items() if code is ErrorCode.NONE}
                assert all((producer_id, each) in self.written for each in done)

    def teardown(self) -> None:
        for _ in range(2 * len(self.answers) + 1):
            self.turn()
            while self.world.channel.asked:
                self.world.channel.cut(self.world.channel.asked[0].node_id)
        assert all(answer.done for _, answer in self.answers)


TestMoving = Moving.TestCase
TestMoving.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
