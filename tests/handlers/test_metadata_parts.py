"""What of Metadata's answers is encoded when, for how many clients, and how long it is kept."""

import pytest
from tests.handlers.broker import NODE_ID, Broker, Peer, registered, topic_id_of
from tests.handlers.test_metadata_properties import of_names
from tests.handlers.test_needs import Rules

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import metadata
from ottla.metadata.delta import MetadataDelta
from ottla.protocol.generated import metadata_records as r
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.primitives import Writer
from ottla.requests import metadata_parts
from ottla.requests.context import RequestContext
from ottla.requests.metadata_parts import PARTITIONS_AT_ONCE

VERSION = 12
TOPICS = 2 * PARTITIONS_AT_ONCE + 1
ALL = MetadataRequest(topics=None, allow_auto_topic_creation=False)


class Cluster(Broker):
    """A broker that has many topics of one partition each, by records."""

    def __init__(self, topics: int = TOPICS) -> None:
        super().__init__()
        names = [f"t{number:05}" for number in range(topics)]
        self.replay(
            *(r.TopicRecord(name=name, topic_id=topic_id_of(name)) for name in names),
            *(self.partition_record(name) for name in names),
        )

    def replay(self, *records: object) -> None:
        image = self.metadata.image
        delta = MetadataDelta(image)
        for record in records:
            delta.replay(record)  # type: ignore[arg-type]
        self.metadata.image = delta.apply(image.offset + 1, 1)
        self.services.metadata_parts.applied(self.metadata.image, delta)

    def partition_record(self, name: str, index: int = 0) -> r.PartitionRecord:
        return r.PartitionRecord(
            partition_id=index,
            topic_id=topic_id_of(name),
            replicas=[NODE_ID],
            isr=[NODE_ID],
            leader=NODE_ID,
        )

    def lead(self, name: str, leader: int) -> None:
        self.replay(
            r.PartitionChangeRecord(partition_id=0, topic_id=topic_id_of(name), leader=leader)
        )

    def send(
        self,
        request: MetadataRequest = ALL,
        version: int = VERSION,
        peer: Peer | None = None,
    ) -> "Answer | Promise[Answer]":
        frame = memoryview(to_bytes(request, version))
        context = RequestContext(version=version, peer=peer or Peer())
        return metadata.HANDLER.answer(frame, 0, context, self.services)

    def ask_all(self) -> MetadataResponse:
        answer = self.send()
        if isinstance(answer, Promise):
            self.scheduler.run_for(1)
        return read(answer)


def read(answer: "Answer | Promise[Answer]") -> MetadataResponse:
    whole = answer.result() if isinstance(answer, Promise) else answer
    if not isinstance(whole, bytes):
        whole = b"".join(part for part in whole if isinstance(part, bytes))
    return from_bytes(MetadataResponse, whole[9:], VERSION)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of topics that were encoded, in order."""
    names: list[str] = []
    encode = MetadataResponseTopic.encode_array

    def noting(items: list[MetadataResponseTopic], out: Writer, version: int) -> None:
        names.extend(str(item.name) for item in items)
        encode(items, out, version)

    monkeypatch.setattr(MetadataResponseTopic, "encode_array", staticmethod(noting))
    return names


def test_a_topic_is_encoded_once_for_all_that_ask_for_it(encoded: list[str]) -> None:
    cluster = Cluster(3)
    request = MetadataRequest(topics=of_names("t00001"))
    for _ in range(3):
        assert read(cluster.send(request)).topics[0].name == "t00001"
    assert encoded == ["t00001"]
    cluster.send(request, version=11)
    assert encoded == ["t00001"] * 2


def test_all_topics_are_encoded_some_in_a_turn_and_once_for_all_that_wait(
    encoded: list[str],
) -> None:
    cluster = Cluster()
    answers = [cluster.send() for _ in range(5)]
    assert len(encoded) == PARTITIONS_AT_ONCE
    assert all(isinstance(answer, Promise) and not answer.done for answer in answers)
    cluster.scheduler.run_for(1)
    assert len(encoded) == TOPICS
    first, *others = [
        answer.result() if isinstance(answer, Promise) else answer for answer in answers
    ]
    body = max(first, key=len)  # type: ignore[arg-type]
    assert all(any(part is body for part in other) for other in others), "they share the bytes"
    assert len(read(answers[0]).topics) == TOPICS
    assert not isinstance(cluster.send(), Promise), "the next is answered at once"
    assert len(encoded) == TOPICS


def test_of_many_topics_only_the_changed_is_encoded_anew(encoded: list[str]) -> None:
    cluster = Cluster()
    cluster.ask_all()
    encoded.clear()
    cluster.lead("t00007", -1)
    answer = cluster.ask_all()
    assert encoded == ["t00007"]
    assert [t.name for t in answer.topics if t.partitions[0].leader_id == -1] == ["t00007"]
    cluster.replay(r.NoOpRecord())
    cluster.ask_all()
    assert encoded == ["t00007"]


def test_topics_that_come_and_go_are_in_their_places() -> None:
    cluster = Cluster(5)
    assert [t.name for t in cluster.ask_all().topics] == [f"t{n:05}" for n in range(5)]
    cluster.replay(
        r.RemoveTopicRecord(topic_id=topic_id_of("t00001")),
        *(
            record
            for name in ("t00002b", "a")
            for record in (
                r.TopicRecord(name=name, topic_id=topic_id_of(name)),
                cluster.partition_record(name),
            )
        ),
    )
    names = ["a", "t00000", "t00002", "t00002b", "t00003", "t00004"]
    assert [t.name for t in cluster.ask_all().topics] == names


def test_another_address_of_a_broker_is_told_and_no_topic_encoded(encoded: list[str]) -> None:
    cluster = Cluster(3)
    cluster.ask_all()
    cluster.set_image(brokers={NODE_ID: registered(NODE_ID, host="elsewhere", rack="r")})
    assert [(b.host, b.rack) for b in cluster.ask_all().brokers] == [("elsewhere", "r")]
    assert len(encoded) == 3


def test_each_client_is_told_the_address_that_it_dialled_itself() -> None:
    cluster = Cluster(3)
    for host in ("10.0.0.1", "10.0.0.2", "10.0.0.1"):
        answer = read(cluster.send(peer=Peer(local_host=host)))
        assert [broker.host for broker in answer.brokers] == [host]


def test_a_topic_made_again_under_its_name_is_another() -> None:
    cluster = Cluster(3)
    request = MetadataRequest(topics=of_names("t00001"))
    cluster.send(request)
    cluster.replay(
        r.RemoveTopicRecord(topic_id=topic_id_of("t00001")),
        r.TopicRecord(name="t00001", topic_id=topic_id_of("again")),
        cluster.partition_record("again"),
        cluster.partition_record("again", 1),
    )
    (topic,) = read(cluster.send(request)).topics
    assert (topic.topic_id, len(topic.partitions)) == (topic_id_of("again"), 2)


def test_a_partition_that_is_added_or_changes_is_shown() -> None:
    cluster = Cluster(3)
    request = MetadataRequest(topics=of_names("t00001"))
    cluster.send(request)
    image = cluster.metadata.image
    cluster.replay(cluster.partition_record("t00001", 1))
    assert len(read(cluster.send(request)).topics[0].partitions) == 2
    cluster.metadata.image = image  # also where nobody has told of the image
    assert len(read(cluster.send(request)).topics[0].partitions) == 1


def test_a_replica_on_a_disk_that_is_gone_is_offline() -> None:
    cluster = Cluster(0)
    here, gone = b"D" * 16, b"E" * 16
    record = cluster.partition_record("t")
    record.directories = [gone]
    cluster.set_image(brokers={NODE_ID: registered(NODE_ID, log_dirs=(here, gone))})
    cluster.replay(r.TopicRecord(name="t", topic_id=topic_id_of("t")), record)
    for log_dirs, offline in (((here, gone), []), ((here,), [NODE_ID]), ((here, gone), [])):
        cluster.set_image(brokers={NODE_ID: registered(NODE_ID, log_dirs=log_dirs)})
        (topic,) = cluster.ask_all().topics
        assert topic.partitions[0].offline_replicas == offline


def test_a_client_never_gets_what_is_older_than_its_request(encoded: list[str]) -> None:
    """While all topics of an image are made, the next image comes, and another client."""
    cluster = Cluster()
    before = cluster.send()
    cluster.lead("t00000", -1)
    after = cluster.send()
    assert len(encoded) == PARTITIONS_AT_ONCE, "one is made after the other"
    cluster.scheduler.run_for(1)
    assert read(before).topics[0].partitions[0].leader_id == NODE_ID
    assert read(after).topics[0].partitions[0].leader_id == -1
    assert len(read(after).topics) == TOPICS


def test_brokers_and_topics_of_an_answer_are_of_one_image() -> None:
    cluster = Cluster()
    before = cluster.send()
    cluster.replay(r.FenceBrokerRecord(id=NODE_ID, epoch=10 + NODE_ID))
    after = cluster.send()
    cluster.scheduler.run_for(1)
    assert [b.node_id for b in read(before).brokers] == [NODE_ID]
    assert {t.partitions[0].leader_id for t in read(before).topics} == {NODE_ID}
    assert read(after).brokers == []
    assert {t.partitions[0].leader_id for t in read(after).topics} == {-1}


def test_a_mistake_is_the_answer_of_those_that_waited_and_not_of_later_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster()
    answers = [cluster.send(), cluster.send()]
    with monkeypatch.context() as broken:
        broken.setattr(metadata_parts, "encode_topic", None)
        cluster.scheduler.run_for(1)
    assert all(isinstance(answer, Promise) and answer.done for answer in answers)
    assert cluster.mistakes.told == ["a request failed"] * 2
    assert len(cluster.ask_all().topics) == TOPICS


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_parts, "BYTES_MAX", 20_000)
    cluster = Cluster(50)
    whole = cluster.ask_all()
    for version in range(4, 14):
        cluster.send(version=version)
        assert 0 < cluster.services.metadata_parts.size <= 20_000
    assert cluster.ask_all() == whole
    monkeypatch.setattr(metadata_parts, "BYTES_MAX", 1)
    assert cluster.ask_all() == whole
    cluster.lead("t00001", -1)
    cluster.ask_all()
    assert cluster.services.metadata_parts.size == 0


def test_what_is_not_in_the_image_is_not_kept() -> None:
    cluster = Cluster(3)
    parts = cluster.services.metadata_parts
    cluster.send(MetadataRequest(topics=of_names("t00000", "t00001")))
    two = parts.size
    cluster.replay(r.RemoveTopicRecord(topic_id=topic_id_of("t00000")))
    assert 0 < parts.size < two
    cluster.lead("t00001", -1)
    assert parts.size == 0
    cluster.ask_all()
    assert parts.size > 0
    cluster.replay(r.FenceBrokerRecord(id=NODE_ID, epoch=10 + NODE_ID))
    assert parts.size == 0


def test_what_others_may_see_is_not_shown_to_one_that_may_not() -> None:
    cluster = Cluster(3)
    assert len(cluster.ask_all().topics) == 3
    denied = (AclOperation.DESCRIBE, ResourceType.TOPIC, "t00001")
    cluster.services.authorizer = Rules(denied)
    assert [t.name for t in cluster.ask_all().topics] == ["t00000", "t00002"]
    named = read(cluster.send(MetadataRequest(topics=of_names("t00000", "t00001")))).topics
    assert [(t.name, t.error_code, len(t.partitions)) for t in named] == [
        ("t00000", ErrorCode.NONE, 1),
        ("t00001", ErrorCode.TOPIC_AUTHORIZATION_FAILED, 0),
    ]


def test_many_named_topics_are_shown_in_turns_too(
    encoded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "NAMES_AT_ONCE", 2 * TOPICS)  # they are found in one
    cluster = Cluster()
    request = MetadataRequest(topics=of_names(*cluster.metadata.image.topics.by_name, "nope"))
    answer = cluster.send(request)
    assert isinstance(answer, Promise)
    assert len(encoded) == PARTITIONS_AT_ONCE
    cluster.scheduler.run_for(1)
    assert len(read(answer).topics) == TOPICS + 1


def test_what_is_kept_of_addresses_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine may have as many addresses as it likes, and a client may come by each."""
    monkeypatch.setattr(metadata_parts, "_HEADS_MAX", 3)
    cluster = Cluster(1)
    for number in range(8):
        asked = MetadataRequest(topics=of_names("t00000"))
        cluster.send(asked, peer=Peer(local_host=f"10.0.0.{number}"))
        assert len(cluster.services.metadata_parts._around) <= 3
