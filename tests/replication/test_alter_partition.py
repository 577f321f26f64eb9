"""Proposals on their way to the controller: gathered, answered, refused, asked for again."""

import pytest
from tests.replication.led import TOPIC_ID, Led, Registered
from tests.replication.states import state
from tests.turns import TURN, virtual_time

from ottla.common.errors import ApiError, ErrorCode, NotController
from ottla.common.promise import Promise
from ottla.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.replication.alter_partition import PARTITIONS_MAX, AlterPartitions
from ottla.replication.partition import Partition

DECIDED_BY_METADATA = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.NEW_LEADER_ELECTED,
]


class Controller:
    """Keeps what it is asked, until the test answers."""

    def __init__(self) -> None:
        self.mistakes = 0
        """So many of the next requests meet a mistake of ours."""
        self.asked: list[tuple[AlterPartitionRequest, Promise[AlterPartitionResponse]]] = []

    def submit(self, request: AlterPartitionRequest) -> Promise[AlterPartitionResponse]:
        if self.mistakes:
            self.mistakes -= 1
            raise KeyError("a mistake")
        answer: Promise[AlterPartitionResponse] = Promise(TURN)
        again = from_bytes(AlterPartitionRequest, to_bytes(request, 3), 3)
        self.asked.append((again, answer))
        return answer

    def answer(
        self, *, error: ErrorCode = ErrorCode.NONE, whole: ErrorCode = ErrorCode.NONE
    ) -> None:
        request, answer = self.asked.pop(0)
        response = AlterPartitionResponse(error_code=whole)
        for topic in request.topics if whole is ErrorCode.NONE else ():
            partitions = [
                AlterPartitionResponsePartitionData(
                    partition_index=asked.partition_index,
                    error_code=error,
                    leader_id=1,
                    leader_epoch=asked.leader_epoch,
                    isr=[member.broker_id for member in asked.new_isr_with_epochs],
                    partition_epoch=asked.partition_epoch + 1,
                )
                for asked in topic.partitions
            ]
            response.topics.append(
                AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions)
            )
        answer.fulfil(response)


class World:
    def __init__(self) -> None:
        self.led = Led(isr=(1,))
        self.scheduler = virtual_time(1)
        self.controller = Controller()
        self.manager = AlterPartitions(
            self.controller, self.scheduler, node_id=1, broker_epoch=lambda: 101
        )
        self.led.outside.propose = self.manager.propose
        self.led.append(1)

    def another(self, index: int) -> Partition:
        led = self.led
        made = Partition(1, "t", TOPIC_ID, index, led.log, led.outside)
        made.apply_state(state(1, 0, (1,), replicas=(1, 2, 3)))
        return made


def test_a_proposal_is_told_as_the_controller_reads_it() -> None:
    world = World()
    world.led.fetch(2, 1)
    ((request, _),) = world.controller.asked
    assert (request.broker_id, request.broker_epoch) == (1, 101)
    (topic,) = request.topics
    (asked,) = topic.partitions
    assert topic.topic_id == TOPIC_ID
    assert (asked.partition_index, asked.leader_epoch, asked.partition_epoch) == (0, 0, 1)
    members = [(member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs]
    assert members == [(1, 101), (2, 102)]
    world.controller.answer()
    assert world.led.partition.isr == (1, 2)
    assert len(world.manager) == 0


def test_what_is_proposed_while_a_request_is_under_way_goes_together_with_the_next() -> None:
    world = World()
    others = [world.another(index) for index in (1, 2)]
    world.led.fetch(2, 1)
    for partition in others:
        partition.fetch_as_follower(2, 102, 1, 100, 0, at_least_one=True, log_start_offset=0)
    assert len(world.controller.asked) == 1
    world.controller.answer()
    ((request, _),) = world.controller.asked
    assert [asked.partition_index for asked in request.topics[0].partitions] == [1, 2]
    world.controller.answer()
    assert [partition.isr for partition in others] == [(1, 2), (1, 2)]


def test_very_many_proposals_go_in_several_requests_and_those_refused_go_last() -> None:
    """All went in one: too large to be read, it would be sent again for ever."""
    world = World()
    others = [world.another(index) for index in range(1, 2 * PARTITIONS_MAX + 1)]
    world.led.fetch(2, 1)
    for partition in others:
        partition.fetch_as_follower(2, 102, 1, 100, 0, at_least_one=True, log_start_offset=0)
    world.controller.answer()
    world.controller.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    world.scheduler.run_for(0.1)
    for _ in range(2):
        ((request, _),) = world.controller.asked
        assert len(request.topics[0].partitions) == PARTITIONS_MAX
        world.controller.answer()
        settled = sum(partition.isr == (1, 2) for partition in others)
        assert settled % PARTITIONS_MAX == 0
        assert others[-1].isr == (1, 2), "those that were not refused go first"
    assert {partition.isr for partition in others} == {(1, 2)}


def test_a_mistake_in_one_request_does_not_end_them() -> None:
    """The request counted as under way, and no ISR changed any more."""
    world = World()
    world.controller.mistakes = 1
    with pytest.raises(KeyError):
        world.led.fetch(2, 1)
    world.scheduler.run_for(0.1)
    world.controller.answer()
    assert world.led.partition.isr == (1, 2)


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_request_that_fails_as_a_whole_is_sent_again(is_whole: bool) -> None:
    world = World()
    world.led.fetch(2, 1)
    if is_whole:
        world.controller.answer(whole=ErrorCode.STALE_BROKER_EPOCH)
    else:
        world.controller.asked.pop()[1].fail(NotController())
    assert world.controller.asked == []
    world.scheduler.run_for(0.1)
    world.controller.answer()
    assert world.led.partition.isr == (1, 2)


@pytest.mark.parametrize("error", [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])
def test_a_refusal_that_changed_nothing_lets_the_partition_ask_anew(error: ErrorCode) -> None:
    world = World()
    world.led.fetch(2, 1)
    world.controller.answer(error=error)
    assert world.led.partition.leadership.in_sync.maximal == (1,)
    world.led.fetch(3, 1)
    assert len(world.controller.asked) == 1


@pytest.mark.parametrize("error", DECIDED_BY_METADATA)
def test_after_other_refusals_the_metadata_log_decides(error: ErrorCode) -> None:
    world = World()
    world.led.fetch(2, 1)
    world.controller.answer(error=error)
    world.led.fetch(3, 1)
    world.scheduler.run_for(1.0)
    assert world.controller.asked == []
    assert world.led.partition.leadership.in_sync.maximal == (1, 2)
    world.led.lead((1,))
    world.led.fetch(3, 1)
    assert len(world.controller.asked) == 1


def test_an_error_that_says_nothing_is_asked_again() -> None:
    world = World()
    world.led.fetch(2, 1)
    world.controller.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    world.scheduler.run_for(0.1)
    world.controller.answer()
    assert world.led.partition.isr == (1, 2)


def test_a_proposal_that_new_metadata_has_made_void_is_not_sent_again() -> None:
    world = World()
    world.led.fetch(2, 1)
    world.controller.asked.pop()[1].fail(NotController())
    world.led.lead((1,))
    world.led.brokers[2] = Registered(102, fenced=True)
    world.scheduler.run_for(1.0)
    assert world.controller.asked == []
    assert len(world.manager) == 0


def test_a_second_proposal_of_a_partition_waits_for_the_answer_to_the_first() -> None:
    world = World()
    world.led.fetch(2, 1)
    world.led.lead((1,))
    world.led.fetch(3, 1)
    assert len(world.controller.asked) == 1
    assert world.led.partition.leadership.in_sync.proposed is None
    world.controller.answer(error=ErrorCode.INVALID_UPDATE_VERSION)
    world.led.fetch(3, 1)
    assert len(world.controller.asked) == 1


def test_a_broker_that_stops_asks_for_nothing() -> None:
    world = World()
    world.manager.stop()
    world.led.fetch(2, 1)
    assert world.controller.asked == []


def test_a_failure_of_another_kind_is_not_swallowed() -> None:
    world = World()
    world.led.fetch(2, 1)
    _, answer = world.controller.asked[0]
    with pytest.raises(ZeroDivisionError):
        answer.fail(ZeroDivisionError())
    assert issubclass(NotController, ApiError)
