"""Produce and Fetch with an authorizer: what is refused, and what is not asked twice."""

import pytest
from tests.handlers.broker import Broker, Peer, topic_id_of
from tests.handlers.secured import CLUSTER, DESCRIBE, READ, TOPIC, WRITE, Acls, alice, root
from tests.handlers.test_fetch import asked, at, read, start
from tests.handlers.transactions import ID, TransactionBroker
from tests.turns import in_turn

from ottla.common.authorization import CLUSTER_NAME, AclOperation, Permission, ResourceType
from ottla.common.errors import ErrorCode, ProtocolViolation
from ottla.common.promise import Promise
from ottla.handlers import produce
from ottla.protocol.generated.fetch import FetchRequest, FetchTopic
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.produce_request import ProduceView
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.requests import hot_access
from ottla.requests.hot_access import ProduceAccess

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
ID_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
VERSIONS = (3, 9, 12, 13)


@pytest.fixture
def broker() -> Broker:
    made = Broker()
    for name in ("a", "b"):
        made.add_topic(name)
    return made


def produced(
    broker: Broker,
    *names: str,
    peer: Peer,
    version: int = 13,
    acks: int = 1,
    transactional_id: str | None = None,
    transactional: bool = False,
) -> dict[str, ErrorCode]:
    """What became of one record for each topic."""
    number = 0 if transactional else -1
    batch = build_batch(
        [Record(timestamp=1, value=b"v")],
        transactional=transactional,
        producer_id=number,
        producer_epoch=number,
        base_sequence=number,
    )
    ids = {name: broker.metadata.image.topics.by_name.get(name) for name in names}
    data = []
    for name, topic in ids.items():
        each = TopicProduceData(
            partition_data=[PartitionProduceData(index=0, records=bytes(batch))]
        )
        if version >= 13:
            each.topic_id = b"?" * 16 if topic is None else topic.topic_id
        else:
            each.name = name
        data.append(each)
    request = ProduceRequest(acks=acks, transactional_id=transactional_id, topic_data=data)
    frame = memoryview(bytearray(to_bytes(request, version)))
    answer = in_turn(produce.answer, frame, 0, version, 5, broker.services, peer)
    assert isinstance(answer, bytes)
    response = from_bytes(ProduceResponse, answer[9 if version >= 9 else 8 :], version)
    return {
        next(
            name
            for name, topic in ids.items()
            if (each.topic_id == (b"?" * 16 if topic is None else topic.topic_id))
            or (version < 13 and each.name == name)
        ): ErrorCode(each.partition_responses[0].error_code)
        for each in response.responses
    }


def end_of(broker: Broker, topic: str) -> int:
    return broker.log_of(topic).log_end_offset


@pytest.mark.parametrize("version", VERSIONS)
def test_what_may_not_be_written_is_refused_beside_the_others(broker: Broker, version: int) -> None:
    Acls(broker).add(WRITE, TOPIC, "a")
    found = produced(broker, "a", "b", peer=alice(), version=version)
    assert found == {"a": ErrorCode.NONE, "b": DENIED}
    assert (end_of(broker, "a"), end_of(broker, "b")) == (1, 0)
    assert broker.replicas.produce_refused == 1


def test_to_read_or_describe_is_not_to_write(broker: Broker) -> None:
    acls = Acls(broker)
    for operation in (READ, DESCRIBE, AclOperation.ALTER):
        acls.add(operation, TOPIC, "a")
    assert produced(broker, "a", peer=alice()) == {"a": DENIED}


def test_who_may_not_write_is_not_told_what_there_is(broker: Broker) -> None:
    Acls(broker)
    assert produced(broker, "gone", peer=alice(), version=12) == {"gone": DENIED}
    assert produced(broker, "gone", peer=alice()) == {"gone": ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_producer_that_wants_no_answer_loses_its_connection(broker: Broker) -> None:
    Acls(broker)
    with pytest.raises(ProtocolViolation, match="TOPIC_AUTHORIZATION_FAILED"):
        produced(broker, "a", peer=alice(), acks=0)
    assert end_of(broker, "a") == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transactional_id", [None, "tx"])
def test_transactional_batches_need_their_id_whatever_the_request_says(
    broker: Broker, version: int, transactional_id: str | None
) -> None:
    """CVE-2018-17196: the batches are looked at."""
    acls = Acls(broker)
    for topic in ("a", "b"):
        acls.add(WRITE, TOPIC, topic)
    acls.add(WRITE, ResourceType.TRANSACTIONAL_ID, "other")
    found = produced(
        broker,
        "a",
        "b",
        peer=alice(),
        version=version,
        transactional_id=transactional_id,
        transactional=True,
    )
    assert found == {"a": ID_DENIED, "b": ID_DENIED}


def test_an_id_alone_needs_nothing(broker: Broker) -> None:
    Acls(broker).add(WRITE, TOPIC, "a")
    found = produced(broker, "a", peer=alice(), version=12, transactional_id="tx")
    assert found == {"a": ErrorCode.NONE}


def test_what_is_denied_does_not_become_part_of_the_transaction() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    acls = Acls(broker)
    acls.add(WRITE, ResourceType.TRANSACTIONAL_ID, ID)
    broker.peer.principal = alice().principal
    assert broker.read_produce(broker.start_produce(producer, b"v")) == DENIED
    assert not broker.transactions.describe(ID).partitions
    acls.add(WRITE, TOPIC, "t")
    assert broker.read_produce(broker.start_produce(producer, b"v")) == ErrorCode.NONE
    assert broker.transactions.describe(ID).partitions


def test_a_topic_that_comes_while_a_transaction_is_verified_is_not_written_to_unasked() -> None:
    broker = TransactionBroker()
    producer = broker.producer()
    acls = Acls(broker)
    acls.add(WRITE, ResourceType.TRANSACTIONAL_ID, ID)
    acls.add(WRITE, TOPIC, "t")
    batches = {
        broker.topic_id: build_batch(
            [Record(timestamp=1, value=b"v")],
            transactional=True,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
        ),
        topic_id_of("late"): build_batch([Record(timestamp=1, value=b"v")]),
    }
    data = [
        TopicProduceData(
            topic_id=topic_id,
            partition_data=[PartitionProduceData(index=0, records=bytes(batch))],
        )
        for topic_id, batch in batches.items()
    ]
    request = ProduceRequest(acks=1, transactional_id=ID, topic_data=data)
    frame = memoryview(bytearray(to_bytes(request, 13)))
    answer = in_turn(produce.answer, frame, 0, 13, 5, broker.services, alice())
    assert isinstance(answer, Promise)
    broker.add_topic("late")
    broker.scheduler.run_for(1)
    body = answer.result()
    assert isinstance(body, bytes)
    response = from_bytes(ProduceResponse, body[9:], 13)
    codes = {each.topic_id: each.partition_responses[0].error_code for each in response.responses}
    assert codes == {
        broker.topic_id: ErrorCode.NONE,
        topic_id_of("late"): ErrorCode.UNKNOWN_TOPIC_ID,
    }
    assert end_of(broker, "late") == 0


class CountedName(str):
    """Counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        CountedName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_what_is_denied_costs_as_much_as_there_is_of_it(broker: Broker) -> None:
    Acls(broker)
    topics: list[tuple[str | bytes, list[tuple[int, int, int]]]] = [
        (CountedName(f"t{number}"), [(0, -1, -1)]) for number in range(300)
    ]
    view = ProduceView(None, 1, 1000, topics)
    CountedName.compared = 0
    refused = ProduceAccess(broker.services, alice()).take_denied(view, memoryview(b""))
    assert refused is not None
    assert len(refused) == 300
    assert not view.topics
    assert CountedName.compared <= 300


# What is remembered


def test_what_was_allowed_is_not_asked_again_until_an_acl_changes(broker: Broker) -> None:
    acls, peer = Acls(broker), alice()
    allowed = acls.add(WRITE, TOPIC, "a")
    for _ in range(3):
        assert produced(broker, "a", peer=peer) == {"a": ErrorCode.NONE}
    assert acls.audit.allowed.value == 1
    other = acls.add(READ, TOPIC, "other")
    produced(broker, "a", peer=peer)
    assert acls.audit.allowed.value == 2
    acls.remove(other)
    acls.remove(allowed)
    assert produced(broker, "a", peer=peer) == {"a": DENIED}
    acls.add(WRITE, TOPIC, "a")
    assert produced(broker, "a", peer=peer) == {"a": ErrorCode.NONE}
    acls.add(WRITE, TOPIC, "a", Permission.DENY)
    assert produced(broker, "a", peer=peer) == {"a": DENIED}


def test_each_refusal_is_told(broker: Broker) -> None:
    acls, peer = Acls(broker), alice()
    for _ in range(3):
        produced(broker, "a", peer=peer)
    assert acls.audit.denied.value == 3


def test_what_one_connection_may_is_not_another_ones(broker: Broker) -> None:
    Acls(broker).add(WRITE, TOPIC, "a")
    assert produced(broker, "a", peer=alice()) == {"a": ErrorCode.NONE}
    assert produced(broker, "a", peer=Peer()) == {"a": DENIED}
    assert produced(broker, "b", peer=root()) == {"b": ErrorCode.NONE}


def test_what_a_connection_remembers_is_bounded(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hot_access, "GRANTS_MAX", 2)
    peer = root()
    Acls(broker)
    for number in range(5):
        produced(broker, f"t{number}", peer=peer, version=12)
        assert len(peer.granted) <= 2


def test_a_name_that_is_no_topics_is_not_remembered(broker: Broker) -> None:
    peer = root()
    Acls(broker)
    for size in (249, 250, 30_000):
        produced(broker, "x" * size, peer=peer, version=12)
    assert [len(name) for _, _, name in peer.granted] == [249]


# Fetch


def fetched(
    broker: Broker, request: tuple[FetchRequest, int], peer: Peer
) -> dict[str | bytes, ErrorCode]:
    answer = start(broker, request, peer)
    assert not isinstance(answer, Promise)
    return {
        topic.topic or topic.topic_id: ErrorCode(topic.partitions[0].error_code)
        for topic in read(answer, request[1]).responses
    }


def both(broker: Broker, version: int, *, wait_ms: int = 0) -> tuple[FetchRequest, int]:
    """A fetch of ``a`` and ``b``."""
    request, _ = asked(broker, at(0), version=version, topic="a", wait_ms=wait_ms)
    other = FetchTopic(partitions=[at(0)])
    if version >= 13:
        other.topic_id = broker.metadata.image.topics.by_name["b"].topic_id
    else:
        other.topic = "b"
    request.topics.append(other)
    return request, version


@pytest.mark.parametrize("version", [4, 12, 13, 18])
def test_what_may_not_be_read_is_refused_beside_the_others(broker: Broker, version: int) -> None:
    Acls(broker).add(READ, TOPIC, "a")
    for topic in ("a", "b"):
        broker.produce(topic)
    found = fetched(broker, both(broker, version), alice())
    assert list(found.values()) == [ErrorCode.NONE, DENIED]
    assert list(fetched(broker, both(broker, version), root()).values()) == [ErrorCode.NONE] * 2


def test_a_denied_topic_does_not_end_the_wait_for_another(broker: Broker) -> None:
    Acls(broker).add(READ, TOPIC, "a")
    waiting = start(broker, both(broker, 12, wait_ms=500), alice())
    assert isinstance(waiting, Promise)
    broker.produce("b")
    assert not waiting.done
    broker.produce("a")
    answer = read(waiting.result(), 12)
    assert [topic.partitions[0].error_code for topic in answer.responses] == [0, DENIED]


def test_a_fetch_of_denied_topics_alone_is_answered_at_once(broker: Broker) -> None:
    Acls(broker)
    assert list(fetched(broker, both(broker, 12, wait_ms=500), alice()).values()) == [DENIED] * 2


def test_a_fetch_that_waits_is_judged_by_the_acls_of_its_end(broker: Broker) -> None:
    acls = Acls(broker)
    allowed = acls.add(READ, TOPIC, "a")
    waiting = start(broker, asked(broker, at(0), topic="a", wait_ms=500), alice())
    assert isinstance(waiting, Promise)
    acls.remove(allowed)
    broker.produce("a")
    partition = read(waiting.result(), 18).responses[0].partitions[0]
    assert (partition.error_code, partition.records) == (DENIED, b"")


def test_who_may_not_read_is_not_told_what_there_is(broker: Broker) -> None:
    Acls(broker)
    gone = asked(broker, at(0), version=12, topic="gone")
    assert fetched(broker, gone, alice()) == {"gone": DENIED}
    by_id = asked(broker, at(0), version=13, topic="gone")
    assert fetched(broker, by_id, alice()) == {b"?" * 16: ErrorCode.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize("version", [4, 12, 18])
def test_only_brokers_fetch_as_followers_do(broker: Broker, version: int) -> None:
    """CVE-2018-1288: to read a topic is not enough; nor is there a session for it."""
    acls = Acls(broker)
    acls.add(READ, TOPIC, "a")
    broker.add_topic("a", replicas=(1, 2))
    request = asked(
        broker,
        at(0),
        version=version,
        topic="a",
        replica_id=2,
        session=(0, 0 if version > 6 else -1),
    )
    assert list(fetched(broker, request, alice()).values()) == [DENIED]
    assert len(broker.replicas.fetch_sessions) == 0
    acls.add(AclOperation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert DENIED not in fetched(broker, request, alice()).values()
