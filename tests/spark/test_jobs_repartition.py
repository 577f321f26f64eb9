"""A topic into another partition count: what other clients find there, and where groups go on."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, TopicPartition
from tests.spark.kafka_reader import Read, read_committed, read_topic
from tests.spark.topics import Row, Topics
from tests.waiting import eventually

from ottla.cli.main import cli
from ottla.client.partitioner import partition_of_key
from ottla.spark.sink.writer import disconnect as end_writes
from ottla.spark.source.broker_reads import disconnect as end_reads

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 17


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    yield
    end_writes()
    end_reads()


def rows(start: int, end: int, partitions: int) -> list[Row]:
    """Numbered; a key is always in the partition of its hash, and some rows have none."""
    made = []
    for i in range(start, end):
        key = None if i % 10 == 0 else b"k%d" % (i % KEYS)
        partition = i % partitions if key is None else partition_of_key(key, partitions)
        headers = (("n", b"%d" % i), ("none", None)) if i % 3 == 0 else ()
        value = b"%d" % i if i % 7 else None
        made.append(Row(partition, key, value, 1_700_000_000_000 + i, headers))
    return made


def invoked(topics: Topics, *arguments: str) -> Result:
    fixed = ["-b", topics.address, "--master", "none", "--quiet"]
    return CliRunner().invoke(cli, ["jobs", "repartition", *arguments, *fixed])


def commit(topics: Topics, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": topics.address, "group.id": group})
    wanted = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
    consumer.commit(offsets=wanted, asynchronous=False)
    consumer.close()


def essence(read: Read) -> tuple[object, ...]:
    return read.key, read.value, read.timestamp, read.headers


def by_key(partitions: list[list[Read]]) -> dict[bytes | None, list[tuple[object, ...]]]:
    found = defaultdict(list)
    for records in partitions:
        for each in records:
            found[each.key].append(essence(each))
    found[None].sort(key=repr)  # in no order
    return dict(found)


@pytest.mark.parametrize(("before", "after"), [(2, 5), (4, 3)])
def test_all_records_are_there_in_the_order_of_their_keys(
    topics: Topics, before: int, after: int
) -> None:
    source = topics.make(before)
    target = f"{source}-again"
    topics.fill(source, rows(0, 500, before), codec="lz4")
    topics.transaction(source, [b"aborted"] * 5, commit=False)
    topics.transaction(source, [b"committed"] * 5, commit=True)
    topics.fill(source, rows(500, 900, before))
    arguments = [source, target, "--partitions", str(after), "--transaction-records", "100"]
    assert "would be copied" in invoked(topics, *arguments, "--dry-run").output
    assert target not in topics.admin.list_topics()
    done = invoked(topics, *arguments, "--json")
    assert done.exit_code == 0, done.output
    again = invoked(topics, *arguments, "--json")
    assert json.loads(again.stdout)["partitions"] == [], "nothing was left to do"
    original = read_topic(topics.address, source, before)
    copy = read_topic(topics.address, target, after)
    assert by_key(copy) == by_key(original)
    assert sum(each["records"] for each in json.loads(done.stdout)["partitions"]) == 905
    for partition, records in enumerate(copy):
        keys = {each.key for each in records if each.key is not None}
        assert {partition_of_key(key, after) for key in keys} == {partition}
    assert all(copy), "every partition got some"


def test_it_goes_on_with_what_came_since(topics: Topics) -> None:
    source = topics.make(2)
    target = f"{source}-again"
    for start in range(0, 300, 100):
        topics.fill(source, rows(start, start + 100, 2))
        assert invoked(topics, source, target, "--partitions", "3").exit_code == 0
    copied = read_topic(topics.address, target, 3)
    assert by_key(copied) == by_key(read_topic(topics.address, source, 2))


def test_groups_miss_nothing_and_read_again_what_is_told(topics: Topics) -> None:
    source = topics.make(3)
    target = f"{source}-again"
    topics.fill(source, rows(0, 600, 3))
    original = read_topic(topics.address, source, 3)
    groups = {
        "none-yet": {0: 0, 1: 0},
        "half": {index: len(original[index]) // 2 for index in range(3)},
        "uneven": {0: 5, 1: len(original[1]), 2: 77},
        "all": {index: len(original[index]) for index in range(3)},
    }
    names = {name: f"{source}-{name}" for name in groups}
    for name, offsets in groups.items():
        commit(topics, names[name], source, offsets)
    asked = ",".join(names.values())
    arguments = [source, target, "--partitions", "4", "--transaction-records", "50"]
    done = invoked(topics, *arguments, "--groups", asked, "--commit", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)["groups"]
    assert len(told) == 4 * len(groups)
    later = [Row(index, b"later", b"later-%d" % index) for index in range(4)]
    topics.fill(target, later)
    for name, offsets in groups.items():
        starts = {each["partition"]: each for each in told if each["group"] == names[name]}
        unread = {
            essence(each)
            for index, records in enumerate(original)
            for each in records
            if each.offset >= offsets.get(index, 0)
        }
        committed = topics.admin.group_offsets(names[name])
        again = 0
        for partition in range(4):
            start = starts[partition]["offset"]
            where = [item for item in committed if item == (target, partition)]
            assert [committed[item].offset for item in where] == [start]
            read = read_committed(topics.address, target, partition, start)
            found = {essence(each) for each in read}
            assert essence(read[-1])[1] == b"later-%d" % partition
            assert starts[partition]["again"] == len(found - unread) - 1
            again += starts[partition]["again"]
            unread -= found
        assert unread == set(), f"{name} would miss these"
        assert (again == 0) == (name in {"none-yet", "all"})


def test_a_group_that_has_begun_in_the_target_is_left_alone(topics: Topics) -> None:
    source = topics.make(1)
    target = f"{source}-again"
    topics.fill(source, rows(0, 50, 1))
    group = f"{source}-group"
    commit(topics, group, source, {0: 20})
    arguments = [source, target, "--partitions", "2", "--groups", group, "--commit"]
    assert invoked(topics, *arguments).exit_code == 0
    before = topics.admin.group_offsets(group)
    refused = invoked(topics, *arguments)
    assert refused.exit_code == 1
    assert "already" in refused.output
    assert topics.admin.group_offsets(group) == before
    unknown = invoked(topics, *arguments[:-2], f"{source}-nobody")
    assert unknown.exit_code == 1
    assert "has no offsets" in unknown.output


def test_a_target_that_was_made_anew_is_refused(topics: Topics) -> None:
    source = topics.make(1)
    target = topics.make(2)
    topics.fill(source, rows(0, 50, 1))
    assert invoked(topics, source, target).exit_code == 0
    topics.delete(target)
    eventually(lambda: target not in topics.admin.list_topics())
    topics.make(2, target)
    refused = invoked(topics, source, target)
    assert refused.exit_code == 1
    assert "made anew" in refused.output
    other = invoked(topics, source, target, "--job", f"{target}-second")
    assert other.exit_code == 0, other.output
    assert sum(map(len, read_topic(topics.address, target, 2))) == 50


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["no-such-topic", "t"], "does not exist"),
        (["SOURCE", "no-such-target"], "--partitions"),
        (["SOURCE", "SOURCE"], "must differ"),
        (["SOURCE", "TARGET", "--partitions", "9"], "has 2 partitions"),
        (["SOURCE", "STAMPED"], "timestamps"),
        (["SOURCE", "TARGET", "--commit"], "--groups"),
    ],
)
def test_what_cannot_be_right_is_refused(topics: Topics, arguments: list[str], reason: str) -> None:
    names = {"SOURCE": topics.make(1), "TARGET": topics.make(2)}
    names["STAMPED"] = topics.make(2, message_timestamp_type="LogAppendTime")
    done = invoked(topics, *(names.get(each, each) for each in arguments))
    assert done.exit_code in {1, 2}
    assert reason in done.output


@pytest.mark.slow
def test_partitions_are_copied_on_spark(
    spark: "SparkSession", topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = topics.make(2)
    target = f"{source}-again"
    topics.fill(source, rows(0, 300, 2))
    monkeypatch.setattr(spark, "stop", lambda: None)  # it is everybody's
    arguments = [source, target, "--partitions", "3", "-b", topics.address, "--quiet"]
    done = CliRunner().invoke(cli, ["jobs", "repartition", *arguments, "--master", "local[2]"])
    assert done.exit_code == 0, done.output
    copied = read_topic(topics.address, target, 3)
    assert by_key(copied) == by_key(read_topic(topics.address, source, 2))
