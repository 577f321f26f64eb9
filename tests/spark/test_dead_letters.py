"""Bad records, put aside with their reasons, on a real broker."""

import pytest
from tests.spark.topics import Row, Topics

from ottla.client.consumer import Consumer
from ottla.common.topic_partition import TopicPartition
from ottla.records.record import Record
from ottla.spark.codec.schema import Columns
from ottla.spark.dead_letters import BadRecord, TooManyDeadLetters
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch, read_range


def options(topics: Topics, topic: str, **more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": topics.address, "subscribe": topic}
    return SourceOptions.parse({**given, "valueFormat": "json", "valueSchema": "id bigint", **more})


def rows(asked: SourceOptions, *names: str) -> list[tuple[object, ...]]:
    found: list[tuple[object, ...]] = []
    for each in plan_batch(asked):
        for table in read_range(each, asked, Columns(names)):
            assert table.schema.names == list(names)
            found += [tuple(row.values()) for row in table.to_pylist()]
    return found


def letters(topics: Topics, topic: str, count: int) -> list[Record]:
    found: list[Record] = []
    with Consumer(topics.address) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        while len(found) < count:
            polled = consumer.poll(timeout_ms=10_000)
            assert polled, f"{len(found)} letters, not {count}"
            found += [record for records in polled.values() for record in records]
    return found


BAD = Row(0, b"k", b"bad", 1_600_000_000_123, (("own", b"x"), ("none", None)))


def test_a_bad_record_goes_to_the_dead_letters_and_the_others_on(topics: Topics) -> None:
    topic, dead = topics.make(), topics.make()
    good = [Row(0, b"k", b'{"id": %d}' % i) for i in range(3)]
    topics.fill(topic, [good[0], BAD, good[1], Row(0, b"t", None), good[2]])
    asked = options(topics, topic, deadLetterTopic=dead)
    assert rows(asked, "offset", "value") == [
        (0, {"id": 0}),
        (2, {"id": 1}),
        (3, None),
        (4, {"id": 2}),
    ]
    (letter,) = letters(topics, dead, 1)
    assert (letter.key, letter.value) == (b"k", b"bad")
    assert [(_text(name), content) for name, content in letter.headers] == [
        ("own", b"x"),
        ("none", None),
        ("ottla.error.reason", b"value: the value is no JSON object"),
        ("ottla.error.class", b"BadJson"),
        ("ottla.source.topic", topic.encode()),
        ("ottla.source.partition", b"0"),
        ("ottla.source.offset", b"1"),
        ("ottla.source.timestamp", b"1600000000123"),
    ]


def test_without_a_topic_for_them_the_query_says_where_the_bad_record_is(topics: Topics) -> None:
    topic = topics.make()
    topics.fill(topic, [BAD])
    with pytest.raises(BadRecord, match=f"{topic}-0 at offset 0: value: .*deadLetterTopic"):
        rows(options(topics, topic), "value")


def test_more_than_were_expected_fail_the_query(topics: Topics) -> None:
    topic, dead = topics.make(), topics.make()
    topics.fill(topic, [BAD] * 4)
    asked = options(topics, topic, deadLetterTopic=dead, deadLetterMax="3")
    with pytest.raises(TooManyDeadLetters, match="4 bad records in one task"):
        rows(asked, "value")
    asked = options(topics, topic, deadLetterTopic=dead, deadLetterMax="4")
    assert rows(asked, "value") == []
    assert len(letters(topics, dead, 4)) == 4


def test_a_value_that_the_topic_does_not_take_is_told_by_its_size(topics: Topics) -> None:
    topic, dead = topics.make(max_message_bytes="2000000"), topics.make(max_message_bytes="90000")
    topics.fill(topic, [Row(0, b"k", b"x" * 100_000), Row(0, b"k", b"x" * 80_000), BAD])
    assert rows(options(topics, topic, deadLetterTopic=dead), "value") == []
    large, fits, small = letters(topics, dead, 3)
    headers = {_text(name): content for name, content in large.headers}
    assert large.value is None
    assert int(headers["ottla.error.omitted"] or b"") >= 100_000
    assert headers["ottla.source.offset"] == b"0"
    assert (len(fits.value or b""), small.value) == (80_000, b"bad")


def test_a_record_of_a_time_that_python_does_not_know_is_a_letter_too(topics: Topics) -> None:
    any_time = {"message_timestamp_after_max_ms": str(2**63 - 1)}
    topic, dead = topics.make(1, **any_time), topics.make()
    topics.fill(topic, [Row(0, None, b"bad", 9_000_000_000_000_000)])
    assert rows(options(topics, topic, deadLetterTopic=dead), "value") == []
    (letter,) = letters(topics, dead, 1)
    headers = {_text(name): content for name, content in letter.headers}
    assert headers["ottla.source.timestamp"] == b"9000000000000000"


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode()
