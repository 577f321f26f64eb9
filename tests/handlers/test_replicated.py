"""Requests to a broker that leads or follows with others: who waits for whom, who is sent where."""

from typing import Any, cast

import pytest
from tests.handlers.broker import Broker, Peer, registered
from tests.handlers.test_fetch import asked, at, only, read, size, start
from tests.handlers.test_produce_answers import batch
from tests.replication.alone import AloneBrokers, FollowedNoted
from tests.replication.states import lead
from tests.turns import in_turn

from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import delete_records, fetch, list_offsets, offset_for_leader_epoch, produce
from ottla.metadata.brokers import BrokerImage
from ottla.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.protocol.generated.fetch import FetchRequest, FetchResponse, PartitionData
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.produce_request import ProduceView
from ottla.replication.leader_throttle import LeaderThrottle
from ottla.replication.quota import ReplicationQuota
from ottla.requests.acknowledged_produce import Unacknowledged, finish_when_acknowledged
from ottla.requests.replica_selection import RACK_AWARE

OTHER = 7


@pytest.fixture
def broker() -> Broker:
    """Topic t: two partitions that this broker leads and broker 7 follows, in sync."""
    made = Broker({"replica.selector.class": RACK_AWARE})
    made.set_image(
        brokers={1: registered(1, rack="a"), OTHER: registered(OTHER, host="seven", rack="b")}
    )

    def registration(broker_id: int) -> BrokerImage | None:
        return made.metadata.image.brokers.get(broker_id)

    made.replicas.outside.brokers = AloneBrokers(registration)
    made.add_topic("t", 2, replicas=(1, OTHER))
    return made


def fetch_from(broker: Broker, *partitions: object, wait_ms: int = 0) -> PartitionData:
    answer = start(broker, asked(broker, *partitions, replica_id=OTHER, wait_ms=wait_ms))  # type: ignore[arg-type]
    assert not isinstance(answer, Promise)
    return only(read(answer, 18))


class Produced:
    """A produce request, and what became of it."""

    def __init__(
        self, broker: Broker, *indexes: int, acks: int = -1, transactional_id: str | None = None
    ) -> None:
        data = TopicProduceData(
            topic_id=broker.metadata.image.topics.by_name["t"].topic_id,
            partition_data=[
                PartitionProduceData(index=index, records=batch(b"v")) for index in indexes
            ],
        )
        request = ProduceRequest(
            acks=acks, timeout_ms=1000, topic_data=[data], transactional_id=transactional_id
        )
        frame = memoryview(bytearray(to_bytes(request, 13)))
        self._answer = produce.answer(frame, 0, 13, 77, broker.services, Peer())

    @property
    def waits(self) -> bool:
        return isinstance(self._answer, Promise) and not self._answer.done

    @property
    def response(self) -> ProduceResponse:
        answer = self._answer.result() if isinstance(self._answer, Promise) else self._answer
        assert isinstance(answer, bytes)
        return from_bytes(ProduceResponse, answer[9:], 13)

    @property
    def outcomes(self) -> list[PartitionProduceResponse]:
        return self.response.responses[0].partition_responses

    @property
    def codes(self) -> list[int]:
        return [outcome.error_code for outcome in self.outcomes]


# acks=all


def test_acks_all_is_answered_when_the_follower_has_it(broker: Broker) -> None:
    produced = Produced(broker, 0)
    assert produced.waits
    fetch_from(broker, at(0))
    assert produced.waits
    fetch_from(broker, at(1))
    assert (produced.codes, produced.outcomes[0].base_offset) == ([0], 0)


def test_acks_one_does_not_wait(broker: Broker) -> None:
    assert Produced(broker, 0, acks=1).codes == [0]


def test_a_request_waits_for_all_its_partitions(broker: Broker) -> None:
    produced = Produced(broker, 0, 1)
    fetch_from(broker, at(1, 0))
    assert produced.waits
    fetch_from(broker, at(1, 1))
    assert produced.codes == [0, 0]


def test_what_is_not_acknowledged_in_time_is_told_with_its_offset(broker: Broker) -> None:
    produced = Produced(broker, 0, 1)
    fetch_from(broker, at(1, 1))
    broker.scheduler.run_for(0.9)
    assert produced.waits
    broker.scheduler.run_for(0.2)
    assert produced.codes == [ErrorCode.REQUEST_TIMED_OUT, 0]
    assert [outcome.base_offset for outcome in produced.outcomes] == [0, 0]
    fetch_from(broker, at(1, 0))  # too late, and nobody is answered twice
    assert broker.log_of("t").high_watermark == 1


def test_a_leadership_that_ends_is_told_with_who_leads_now(broker: Broker) -> None:
    produced = Produced(broker, 0)
    lead(broker.partition("t"), OTHER, 4, (1, OTHER))
    assert produced.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    leader = produced.outcomes[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (OTHER, 4)
    (endpoint,) = produced.response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.rack) == (OTHER, "seven", "b")


def test_a_topic_that_goes_answers_who_waits_for_it(broker: Broker) -> None:
    produced = Produced(broker, 0)
    broker.replicas.remove(broker.partition("t").topic_id)
    assert produced.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_replica_that_is_moved_away_answers_who_waits_and_leaves_no_log(broker: Broker) -> None:
    produced = Produced(broker, 0)
    followed = broker.replicas._followed
    assert isinstance(followed, FollowedNoted)
    broker.replicas.stop(broker.partition("t").topic_id, 0)
    assert produced.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert broker.replicas.partition("t", 0) is None
    assert ("t", 0) not in broker.logs.logs
    assert followed.unfollowed == []
    lead(broker.partition("t", 1), OTHER, 4, (1, OTHER))
    broker.replicas.stop(broker.partition("t", 1).topic_id, 1)
    assert followed.unfollowed == [1]


def test_thousands_that_wait_are_answered_in_the_order_of_their_offsets(broker: Broker) -> None:
    produced = [Produced(broker, 0) for _ in range(1000)]
    fetch_from(broker, at(500))
    assert [each.waits for each in produced] == [False] * 500 + [True] * 500


# Fetch


def test_a_follower_waits_for_the_end_of_the_log_and_a_consumer_for_the_high_watermark(
    broker: Broker,
) -> None:
    follower = start(broker, asked(broker, at(0), replica_id=OTHER, wait_ms=500))
    consumer = start(broker, asked(broker, at(0), wait_ms=500))
    assert isinstance(follower, Promise)
    assert isinstance(consumer, Promise)
    broker.produce("t")
    assert (follower.done, consumer.done) == (True, False)
    found = only(read(follower.result(), 18))
    assert (found.high_watermark, size(found) > 0) == (0, True)
    fetch_from(broker, at(1))
    assert size(only(read(consumer.result(), 18))) > 0


def test_a_broker_that_is_no_replica_of_the_partition_reads_nothing(broker: Broker) -> None:
    broker.produce("t")
    for epoch, code in (
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (0, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        answer = start(broker, asked(broker, at(0, epoch=epoch), replica_id=9))
        assert not isinstance(answer, Promise)
        found = only(read(answer, 18))
        assert (found.error_code, size(found)) == (code, 0)
    assert broker.log_of("t").high_watermark == 0


def test_a_throttled_follower_waits_unless_it_is_in_sync(broker: Broker) -> None:
    """KIP-73."""
    quota = ReplicationQuota(window_count=11, window_seconds=1.0)
    quota.bytes_per_second = 1
    broker.replicas.leader_throttle = LeaderThrottle(
        quota, lambda partition: partition.index == 0, broker.scheduler
    )
    for index in (0, 1):
        broker.produce("t", index)
        lead(broker.partition("t", index), 1, 1, (1,), replicas=(1, OTHER))
    broker.scheduler.run_for(1.0)
    assert size(fetch_from(broker, at(0))) > 0
    assert size(fetch_from(broker, at(0))) == 0, "the quota is used up"
    assert size(fetch_from(broker, at(0, 1))) > 0, "this partition is not throttled"
    lead(broker.partition("t"), 1, 2, (1, OTHER))
    assert size(fetch_from(broker, at(0))) > 0
    lead(broker.partition("t"), 1, 3, (1,), replicas=(1, OTHER))
    broker.scheduler.run_for(200.0)
    assert size(fetch_from(broker, at(0))) > 0


def consume(
    broker: Broker, *, rack: str = "", version: int = 18, offset: int = 0
) -> tuple[FetchResponse, PartitionData]:
    request, _ = asked(broker, at(offset), version=version)
    request.rack_id = rack
    return _consume(broker, request, version)


def _consume(
    broker: Broker, request: FetchRequest, version: int
) -> tuple[FetchResponse, PartitionData]:
    frame = memoryview(bytearray(to_bytes(request, version)))
    answer: Answer | Promise[Answer] = fetch.answer(frame, 0, version, 77, broker.services, Peer())
    assert not isinstance(answer, Promise)
    response = read(answer, version)
    return response, only(response)


def test_a_consumer_is_sent_to_the_follower_in_its_rack(broker: Broker) -> None:
    """KIP-392."""
    broker.produce("t")
    fetch_from(broker, at(1))
    _, found = consume(broker, rack="b")
    assert (found.preferred_read_replica, size(found)) == (OTHER, 0)
    assert (found.error_code, found.high_watermark) == (0, 1)
    for rack in ("", "a", "c"):
        _, found = consume(broker, rack=rack)
        assert (found.preferred_read_replica, size(found) > 0) == (-1, True)


def test_a_follower_that_has_not_the_offset_or_is_not_in_sync_is_not_named(broker: Broker) -> None:
    broker.produce("t", 0, (1, 2))
    fetch_from(broker, at(1))
    _, found = consume(broker, rack="b", offset=2)
    assert found.preferred_read_replica == -1
    lead(broker.partition("t"), 1, 1, (1,), replicas=(1, OTHER))
    _, found = consume(broker, rack="b")
    assert found.preferred_read_replica == -1


def test_a_follower_that_is_fenced_is_not_named(broker: Broker) -> None:
    broker.produce("t")
    fetch_from(broker, at(1))
    brokers = dict(broker.metadata.image.brokers)
    brokers[OTHER] = registered(OTHER, rack="b", fenced=True)
    broker.set_image(brokers=brokers)
    assert consume(broker, rack="b")[1].preferred_read_replica == -1


def test_without_the_setting_nobody_is_sent_elsewhere(broker: Broker) -> None:
    plain = Broker()
    plain.set_image(brokers=broker.metadata.image.brokers)
    plain.add_topic("t", replicas=(1, OTHER))
    start(plain, asked(plain, at(0), replica_id=OTHER))
    assert consume(plain, rack="b")[1].preferred_read_replica == -1


@pytest.mark.parametrize(("version", "served"), [(10, False), (11, True), (18, True)])
def test_a_follower_serves_consumers_that_know_of_it(
    broker: Broker, version: int, served: bool
) -> None:
    broker.produce("t", 0, (1, 2))
    fetch_from(broker, at(1))
    lead(broker.partition("t"), OTHER, 1, (1, OTHER))
    _, found = consume(broker, version=version)
    code = 0 if served else ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (found.error_code, size(found) > 0) == (code, served)
    if served:
        _, beyond = consume(broker, version=version, offset=1)
        assert (beyond.error_code, size(beyond)) == (0, 0), "not committed as far as it knows"


def test_a_consumer_is_told_who_leads_and_where(broker: Broker) -> None:
    """KIP-951."""
    lead(broker.partition("t"), OTHER, 4, (1, OTHER))
    request, version = asked(broker, at(0, epoch=3))
    response, found = _consume(broker, request, version)
    assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (OTHER, 4)
    assert [endpoint.node_id for endpoint in response.node_endpoints] == [OTHER]


# Offsets


def latest(broker: Broker, version: int = 11, *, replica_id: int = -1, timestamp: int = -1) -> int:
    """The offset, or the error's number below zero."""
    request = ListOffsetsRequest(
        replica_id=replica_id,
        topics=[
            ListOffsetsTopic(
                name="t",
                partitions=[
                    ListOffsetsPartition(
                        partition_index=0, current_leader_epoch=-1, timestamp=timestamp
                    )
                ],
            )
        ],
    )
    promise = broker.start(list_offsets, request, version)
    if not promise.done:  # a search by time, which does not run on the loop
        broker.scheduler.run_for(1)
    answer = broker.answer(list_offsets, request, promise, version, ListOffsetsResponse)
    (found,) = answer.topics[0].partitions
    return -found.error_code if found.error_code else found.offset


def test_a_new_leader_does_not_say_where_the_end_is_before_it_knows(broker: Broker) -> None:
    broker.produce("t", 0, (1, 2))
    assert latest(broker) == 0
    lead(broker.partition("t"), 1, 1, (1, OTHER))
    assert latest(broker) == -ErrorCode.OFFSET_NOT_AVAILABLE
    assert latest(broker, 4) == -ErrorCode.LEADER_NOT_AVAILABLE
    assert latest(broker, timestamp=1) == -ErrorCode.OFFSET_NOT_AVAILABLE
    assert latest(broker, timestamp=9) == -1
    assert latest(broker, replica_id=OTHER) == 2
    fetch_from(broker, at(2))
    assert latest(broker) == 2


def test_an_epoch_is_told_before_the_leadership(broker: Broker) -> None:
    lead(broker.partition("t"), OTHER, 4, (1, OTHER))
    for epoch, code in (
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        asked_for = OffsetForLeaderPartition(
            partition=0, current_leader_epoch=epoch, leader_epoch=0
        )
        topic = OffsetForLeaderTopic(topic="t", partitions=[asked_for])
        request = OffsetForLeaderEpochRequest(replica_id=OTHER, topics=[topic])
        answer = broker.ask(offset_for_leader_epoch, request, 4, OffsetForLeaderEpochResponse)
        assert answer.topics[0].partitions[0].error_code == code


def test_records_are_deleted_when_the_follower_has_deleted_them(broker: Broker) -> None:
    broker.produce("t", 0, (1, 2))
    fetch_from(broker, at(2))
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    waits = [broker.start(delete_records, request, 2) for _ in range(2)]
    assert [each.done for each in waits] == [False, False]
    answer = start(broker, asked(broker, at(2), replica_id=OTHER))
    assert not isinstance(answer, Promise)
    assert not waits[0].done
    told = at(2)
    told.log_start_offset = 1
    fetch_from(broker, told)
    response = waits[0].result()
    assert isinstance(response, DeleteRecordsResponse)
    (result,) = response.topics[0].partitions
    assert (result.error_code, result.low_watermark) == (0, 1)


def test_records_that_the_follower_keeps_too_long_are_told(broker: Broker) -> None:
    broker.produce("t")
    fetch_from(broker, at(1))
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    waits = broker.start(delete_records, request, 2)
    broker.scheduler.run_for(1.1)
    response = waits.result()
    assert isinstance(response, DeleteRecordsResponse)
    (result,) = response.topics[0].partitions
    assert result.error_code == ErrorCode.REQUEST_TIMED_OUT


def test_an_answer_that_cannot_be_made_is_told_to_the_connection(broker: Broker) -> None:
    """Or the request, and all behind it on its connection, would wait for ever."""

    def fails(*_arguments: object, **_more: object) -> Answer:
        raise KeyError("a mistake of ours")

    broker.produce("t")
    pending = Unacknowledged(broker.partition("t"), 0, [(0, 0, 0, 0)], 0)
    request = ProduceView(None, -1, 1_000, [])
    produced = finish_when_acknowledged(
        [pending], [], fails, broker.services, request, refused=False
    )
    fetched = start(broker, asked(broker, at(0), wait_ms=500))
    assert isinstance(fetched, Promise)
    broker.services.config = cast("Any", None)  # of which a fetch asks how much it may take
    follow = broker.partition("t").fetch_as_follower
    epoch = registered(OTHER).epoch
    in_turn(follow, OTHER, epoch, 1, 1, 0, at_least_one=True, log_start_offset=0)
    with pytest.raises(KeyError):
        produced.result()
    with pytest.raises(AttributeError):
        fetched.result()


def test_who_has_timed_out_is_not_kept_until_the_high_watermark_moves(broker: Broker) -> None:
    """It may stand still for hours, while producers send and give up."""
    waiting = broker.partition("t")._acknowledgements
    for _ in range(3):
        produced = [Produced(broker, 0) for _ in range(100)]
        broker.scheduler.run_for(0.5)
        later = [Produced(broker, 0) for _ in range(10)]
        broker.scheduler.run_for(0.6)
        assert [each.codes for each in produced] == [[ErrorCode.REQUEST_TIMED_OUT]] * 100
        assert len(waiting) <= 20, "no more are kept for nothing than wait"
        broker.scheduler.run_for(1)
        assert [each.codes for each in later] == [[ErrorCode.REQUEST_TIMED_OUT]] * 10
        assert len(waiting) == 0
    last = Produced(broker, 0)
    fetch_from(broker, at(331))
    assert last.codes == [0]
    assert len(waiting) == 0


def test_who_waits_for_a_deletion_in_vain_is_not_kept(broker: Broker) -> None:
    broker.produce("t")
    fetch_from(broker, at(1))
    waiting = broker.partition("t")._deletions
    partition = DeleteRecordsPartition(partition_index=0, offset=1)
    topic = DeleteRecordsTopic(name="t", partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    for _ in range(50):
        broker.start(delete_records, request, 2)
    assert len(waiting) == 50
    broker.scheduler.run_for(1.1)
    assert len(waiting) == 0
