"""Fetch on the hot path: what is read, what waits, what is refused, what a session leaves out."""

import pytest
from tests.handlers.broker import Broker, Peer
from tests.replication.states import lead
from tests.turns import in_turn

from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import fetch
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.protocol.message import from_bytes, to_bytes

ALL = range(4, 19)


def asked(
    broker: Broker,
    *partitions: FetchPartition,
    version: int = 18,
    topic: str = "t",
    session: tuple[int, int] = (0, -1),
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> tuple[FetchRequest, int]:
    topics = []
    if partitions:
        data = FetchTopic(partitions=list(partitions))
        if version >= 13:
            found = broker.metadata.image.topics.by_name.get(topic)
            data.topic_id = b"?" * 16 if found is None else found.topic_id
        else:
            data.topic = topic
        topics = [data]
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
    )
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    return request, version


def at(
    offset: int, index: int = 0, *, max_bytes: int = 1 << 20, epoch: int = -1, last: int = -1
) -> FetchPartition:
    return FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=last,
    )


def read(answer: Answer, version: int) -> FetchResponse:
    data = answer
    if not isinstance(answer, bytes):
        data = b"".join(
            part if isinstance(part, bytes) else part.file.read_at(part.position, part.size)
            for part in answer
        )
    assert isinstance(data, bytes)
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return from_bytes(FetchResponse, data[9 if version >= 12 else 8 :], version)


def start(
    broker: Broker, request: tuple[FetchRequest, int], peer: Peer | None = None
) -> "Answer | Promise[Answer]":
    message, version = request
    frame = memoryview(bytearray(to_bytes(message, version)))
    return in_turn(fetch.answer, frame, 0, version, 77, broker.services, peer)


def waits(
    broker: Broker, request: tuple[FetchRequest, int], peer: Peer | None = None
) -> Promise[Answer]:
    answer = start(broker, request, peer)
    assert isinstance(answer, Promise)
    assert not answer.done
    return answer


def fetched(broker: Broker, request: tuple[FetchRequest, int]) -> FetchResponse:
    answer = start(broker, request)
    assert not isinstance(answer, Promise)
    return read(answer, request[1])


def only(response: FetchResponse) -> PartitionData:
    ((partition,),) = [topic.partitions for topic in response.responses]
    return partition


def size(partition: PartitionData) -> int:
    return len(partition.records or b"")


@pytest.fixture
def broker() -> Broker:
    made = Broker()
    made.add_topic("t", 2, leader_epoch=3)
    made.produce("t", 0, (1, 2, 3))
    return made


@pytest.mark.parametrize("version", ALL)
def test_records_are_read_in_every_version(broker: Broker, version: int) -> None:
    found = only(fetched(broker, asked(broker, at(1), version=version)))
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 3, 3)
    assert found.aborted_transactions is None
    assert size(found) == broker.log_of("t").size() * 2 // 3


def test_what_is_there_is_answered_at_once_and_what_is_not_is_waited_for(broker: Broker) -> None:
    waiting = start(broker, asked(broker, at(3), wait_ms=500))
    assert isinstance(waiting, Promise)
    broker.scheduler.run_for(0.3)
    assert not waiting.done
    broker.produce("t")
    assert size(only(read(waiting.result(), 18))) > 0


def test_who_has_waited_long_enough_gets_nothing_and_no_error(broker: Broker) -> None:
    waiting = start(broker, asked(broker, at(3), wait_ms=500))
    assert isinstance(waiting, Promise)
    broker.scheduler.run_for(0.6)
    found = only(read(waiting.result(), 18))
    assert (found.error_code, size(found), found.high_watermark) == (0, 0, 3)


@pytest.mark.parametrize(("wait_ms", "min_bytes"), [(0, 1), (-5, 1), (500, 0)])
def test_who_need_not_wait_does_not(broker: Broker, wait_ms: int, min_bytes: int) -> None:
    answer = start(broker, asked(broker, at(3), wait_ms=wait_ms, min_bytes=min_bytes))
    assert not isinstance(answer, Promise)


def test_an_error_is_told_at_once(broker: Broker) -> None:
    answer = fetched(broker, asked(broker, at(3), at(99, 1), wait_ms=500))
    codes = [partition.error_code for partition in answer.responses[0].partitions]
    assert codes == [0, ErrorCode.OFFSET_OUT_OF_RANGE]


def test_a_topic_that_is_deleted_answers_who_waits_for_it(broker: Broker) -> None:
    topic_id = broker.partition("t").topic_id
    waiting = start(broker, asked(broker, at(3), wait_ms=500))
    assert isinstance(waiting, Promise)
    broker.set_image(topics=TopicsImage())
    broker.replicas.remove(topic_id)
    broker.scheduler.run_for(0.0)
    assert only(read(waiting.result(), 18)).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_limits_of_a_partition_and_of_all_hold_but_one_batch_always_comes(
    broker: Broker,
) -> None:
    broker.produce("t", 1, (1, 2, 3))
    one = broker.log_of("t").size() // 3
    both = fetched(broker, asked(broker, at(0, max_bytes=1), at(0, 1, max_bytes=1)))
    assert [size(p) for p in both.responses[0].partitions] == [one, 0]
    shared = fetched(broker, asked(broker, at(0), at(0, 1), max_bytes=4 * one))
    assert [size(p) for p in shared.responses[0].partitions] == [3 * one, one]


@pytest.mark.parametrize("which", ["partition", "request"])
def test_a_negative_limit_is_refused(broker: Broker, which: str) -> None:
    if which == "partition":
        request = asked(broker, at(0, max_bytes=-1))
    else:
        request = asked(broker, at(0), max_bytes=-1)
    assert only(fetched(broker, request)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize("version", ALL)
def test_partitions_that_are_not_there_are_told_apart_from_topics(
    broker: Broker, version: int
) -> None:
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = only(fetched(broker, asked(broker, at(0), topic="nope", version=version)))
    partition = only(fetched(broker, asked(broker, at(0, 9), version=version)))
    assert topic.error_code == unknown
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert topic.aborted_transactions == partition.aborted_transactions == []


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (3, ErrorCode.NONE),
        (-2, ErrorCode.NONE),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_readers_of_another_epoch_are_told(broker: Broker, epoch: int, code: ErrorCode) -> None:
    assert only(fetched(broker, asked(broker, at(0, epoch=epoch)))).error_code == code


@pytest.mark.parametrize("version", [12, 13, 16, 18])
def test_from_version_16_on_a_reader_is_told_who_leads(broker: Broker, version: int) -> None:
    broker.add_topic("elsewhere", replicas=(7,), leader=7, leader_epoch=4)
    found = only(fetched(broker, asked(broker, at(0), topic="elsewhere", version=version)))
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader = found.current_leader
    expected = (7, 4) if version >= 16 else (-1, -1)
    assert (leader.leader_id, leader.leader_epoch) == expected


def test_a_reader_whose_log_departs_from_ours_is_told_where(broker: Broker) -> None:
    lead(broker.partition("t"), 1, 6, (1,))
    broker.produce("t")
    departed = only(fetched(broker, asked(broker, at(4, last=5), wait_ms=500)))
    end = departed.diverging_epoch
    assert (end.epoch, end.end_offset) == (3, 3)
    assert (departed.error_code, size(departed)) == (0, 0)
    assert size(only(fetched(broker, asked(broker, at(3, last=3))))) > 0
    unknown = only(fetched(broker, asked(broker, at(3, last=7))))
    assert unknown.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("version", ALL)
def test_who_claims_to_be_a_replica_gets_no_records(broker: Broker, version: int) -> None:
    for replica_id in (1, 2):
        request = asked(broker, at(0), version=version, replica_id=replica_id)
        found = only(fetched(broker, request))
        assert (found.error_code, size(found)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 0)


@pytest.mark.parametrize("isolation_level", [-1, 2])
@pytest.mark.parametrize("version", ALL)
def test_an_isolation_level_that_does_not_exist_is_refused(
    broker: Broker, version: int, isolation_level: int
) -> None:
    request = asked(broker, at(0), version=version, isolation_level=isolation_level)
    answer = fetched(broker, request)
    assert answer.error_code == (ErrorCode.UNKNOWN_SERVER_ERROR if version >= 7 else 0)
    if version < 13:
        assert only(answer).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert answer.responses == []


def test_a_follower_need_not_wait_for_what_its_own_fetch_has_brought_about(
    broker: Broker,
) -> None:
    """As the markers of a transaction whose end its fetch of another partition has committed."""
    for index in (0, 1):
        lead(broker.partition("t", index), 1, 6, (1, 2))
    broker.produce("t", 1)
    ends = [broker.log_of("t", index).log_end_offset for index in (0, 1)]
    broker.partition("t", 1).acknowledge(ends[1] - 1, lambda _: broker.produce("t", 0))
    request = asked(broker, at(ends[0]), at(ends[1], 1), wait_ms=500, replica_id=2)
    answer = start(broker, request)
    assert isinstance(answer, Promise)
    assert size(read(answer.result(), 18).responses[0].partitions[0]) > 0


# Sessions


def test_a_session_speaks_only_of_what_is_new(broker: Broker) -> None:
    first = fetched(broker, asked(broker, at(3), at(0, 1), session=(0, 0)))
    session_id = first.session_id
    assert session_id > 0
    assert [p.partition_index for p in first.responses[0].partitions] == [0, 1]
    assert fetched(broker, asked(broker, session=(session_id, 1))).responses == []
    broker.produce("t", 1)
    third = fetched(broker, asked(broker, session=(session_id, 2)))
    assert third.session_id == session_id
    assert [p.partition_index for p in third.responses[0].partitions] == [1]


@pytest.mark.parametrize(
    ("session", "code"),
    [
        ((12345, 1), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        ((0, 5), ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
    ],
)
def test_a_session_that_is_not_known_is_refused(
    broker: Broker, session: tuple[int, int], code: ErrorCode
) -> None:
    answer = fetched(broker, asked(broker, at(0), session=session))
    assert (answer.error_code, answer.session_id, answer.responses) == (code, 0, [])


def test_requests_of_a_session_on_one_connection_are_answered_one_after_the_other(
    broker: Broker,
) -> None:
    """As in Kafka, which reads no further before it has answered: each has its own offsets."""
    peer = Peer()
    session_id = fetched(broker, asked(broker, at(3), session=(0, 0))).session_id
    first = waits(broker, asked(broker, session=(session_id, 1), wait_ms=500), peer)
    second = waits(broker, asked(broker, at(4), session=(session_id, 2), wait_ms=500), peer)
    third = waits(broker, asked(broker, session=(session_id, 3), wait_ms=500), peer)
    broker.produce("t")
    found = only(read(first.result(), 18))
    assert (found.error_code, found.high_watermark, size(found) > 0) == (0, 4, True)
    broker.scheduler.run_for(0.3)
    assert not second.done, "its time begins when the first is answered"
    broker.produce("t")
    found = only(read(second.result(), 18))
    assert (found.error_code, found.high_watermark, size(found) > 0) == (0, 5, True)
    assert size(only(read(third.result(), 18))) > 0
    session = broker.replicas.fetch_sessions.get(session_id)
    assert session is not None
    assert session.unanswered is None, "answers are not kept"


def test_a_request_that_another_connection_overtakes_is_refused(broker: Broker) -> None:
    session_id = fetched(broker, asked(broker, at(3), session=(0, 0))).session_id
    first = waits(broker, asked(broker, session=(session_id, 1), wait_ms=500), Peer())
    second = start(broker, asked(broker, at(2), session=(session_id, 2), wait_ms=500), Peer())
    assert not isinstance(second, Promise)
    assert size(only(read(second, 18))) > 0
    broker.produce("t")
    refused = read(first.result(), 18)
    assert refused.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert (refused.session_id, refused.responses) == (session_id, [])


def test_a_session_that_lost_count_is_refused(broker: Broker) -> None:
    session_id = fetched(broker, asked(broker, at(0), session=(0, 0))).session_id
    answer = fetched(broker, asked(broker, session=(session_id, 7)))
    assert answer.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
