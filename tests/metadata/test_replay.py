"""Metadata transactions: whole or not at all."""

import pytest
from tests.metadata.samples import TOPIC_ID, full_image, one_of_each

from ottla.metadata.image import EMPTY_IMAGE
from ottla.metadata.records import MetadataRecord
from ottla.metadata.replay import MetadataReplay
from ottla.protocol.generated import metadata_records as r

BEGIN = r.BeginTransactionRecord(name="some")
END = r.EndTransactionRecord()
ABORT = r.AbortTransactionRecord(reason="some")


def topic(name: str) -> r.TopicRecord:
    return r.TopicRecord(name=name, topic_id=name.encode().ljust(16, b"."))


def replay(*batches: list[MetadataRecord]) -> tuple[MetadataReplay, list[set[str]]]:
    """Replay batches, and see the topics after each."""
    replaying = MetadataReplay(EMPTY_IMAGE)
    offset = 0
    seen = []
    for batch in batches:
        replaying.replay_batch(batch, base_offset=offset, epoch=3, timestamp_ms=offset * 10)
        offset += len(batch)
        replaying.take()
        seen.append(set(replaying.image.topics.by_name))
    return replaying, seen


def test_all_records_in_one_transaction_make_the_same_image_as_without() -> None:
    replaying, _ = replay(one_of_each())
    image = replaying.image
    assert (image.offset, image.epoch) == (len(one_of_each()) - 1, 3)
    assert image.topics == full_image().topics
    assert image.brokers == full_image().brokers


def test_nothing_of_a_transaction_is_shown_before_its_end() -> None:
    replaying, seen = replay([topic("a")], [BEGIN, topic("b")], [topic("c")], [END, topic("d")])
    assert seen == [{"a"}, {"a"}, {"a"}, {"a", "b", "c", "d"}]
    assert replaying.image.offset == 5


def test_an_abort_takes_back_the_transaction_and_nothing_else() -> None:
    _, seen = replay([topic("a"), BEGIN, topic("b")], [topic("c"), ABORT, topic("d")])
    assert seen == [{"a"}, {"a", "d"}]


def test_a_transaction_within_one_batch() -> None:
    _, seen = replay([topic("a"), BEGIN, topic("b"), ABORT, BEGIN, topic("c"), END, topic("d")])
    assert seen == [{"a", "c", "d"}]


def test_the_writer_of_a_transaction_sees_its_own_records() -> None:
    replaying, _ = replay([topic("a")], [BEGIN, topic("b")])
    assert set(replaying.latest.topics.by_name) == {"a", "b"}
    assert set(replaying.image.topics.by_name) == {"a"}
    assert replaying.transaction_offset == 1


def test_many_batches_can_be_shown_as_one_image() -> None:
    replaying = MetadataReplay(EMPTY_IMAGE)
    for offset, name in enumerate("abc"):
        replaying.replay_batch([topic(name)], base_offset=offset, epoch=1, timestamp_ms=offset)
    (published,) = replaying.take()
    assert set(published.image.topics.by_name) == {"a", "b", "c"}
    assert (published.image.offset, published.image.timestamp_ms) == (2, 2)
    assert len(published.delta.topics.changed) == 3
    assert replaying.take() == []


def test_a_batch_without_records_moves_the_offset() -> None:
    replaying, _ = replay([topic("a")])
    replaying.replay_batch([], base_offset=9, epoch=4, timestamp_ms=1)
    (published,) = replaying.take()
    assert (published.image.offset, published.image.epoch) == (8, 4)
    assert not published.delta.topics


@pytest.mark.parametrize("records", [[END], [ABORT], [BEGIN, BEGIN], [BEGIN, END, END]])
def test_transactions_that_do_not_match_are_refused(records: list[MetadataRecord]) -> None:
    with pytest.raises(ValueError, match="transaction"):
        replay(records)


def test_a_transaction_over_several_batches_can_change_what_was_there() -> None:
    change = r.PartitionRecord(partition_id=0, topic_id=TOPIC_ID, replicas=[1])
    created = r.TopicRecord(name="t", topic_id=TOPIC_ID)
    removed = r.RemoveTopicRecord(topic_id=TOPIC_ID)
    _, seen = replay([created, change], [BEGIN, removed], [topic("t"), END])
    assert seen == [{"t"}, {"t"}, {"t"}]
