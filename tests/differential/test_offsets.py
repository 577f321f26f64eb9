"""Offsets by time and by epoch, deleting records, producers and their ids."""

from typing import Any

from tests.differential.history import BASE_TIME, batch
from tests.differential.pair import Pair

Json = Any
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)


def at(
    timestamp: int, *, topic: str = "plain", partition: int = 0, **more: Json
) -> dict[str, Json]:
    asked = {"partition_index": partition, "timestamp": timestamp, **more}
    return {"name": topic, "partitions": [asked]}


def test_special_timestamps(pair: Pair) -> None:
    for timestamp in range(-1, -9, -1):
        for topic, partition in (("plain", 0), ("plain", 1), ("plain", 2), ("trimmed", 0)):
            pair.ask(
                "ListOffsets", f"timestamp {timestamp} of {topic}-{partition}", replica_id=-1,
                topics=[at(timestamp, topic=topic, partition=partition)],
            )  # fmt: skip


def test_offsets_by_time(pair: Pair) -> None:
    for delta in (-1, 0, 1, 3, 4, 50, 51, 100, 102, 103, 10_000_000):
        pair.ask("ListOffsets", f"by time {delta}", replica_id=-1,
                 topics=[at(BASE_TIME + delta)])  # fmt: skip
        pair.ask("ListOffsets", f"by time {delta} of what is trimmed", replica_id=-1,
                 topics=[at(BASE_TIME + delta, topic="trimmed")])  # fmt: skip
    for delta in (0, 1000, 1019, 2000, 3005, 4019, 4020):
        pair.ask("ListOffsets", f"by time {delta}, compressed", replica_id=-1,
                 topics=[at(BASE_TIME + delta, partition=1)])  # fmt: skip
    for timestamp in (0, 2**63 - 1, -100):
        pair.ask("ListOffsets", f"time {timestamp}", replica_id=-1, topics=[at(timestamp)])


def test_offsets_that_cannot_be_listed(pair: Pair) -> None:
    pair.ask("ListOffsets", "a partition too high", replica_id=-1, topics=[at(-1, partition=9)])
    pair.ask("ListOffsets", "a negative partition", replica_id=-1, topics=[at(-1, partition=-1)])
    pair.ask("ListOffsets", "an unknown topic", replica_id=-1, topics=[at(-1, topic="nowhere")])
    pair.ask("ListOffsets", "a partition twice", replica_id=-1, topics=[
        {"name": "plain", "partitions": at(-1)["partitions"] * 2}])  # fmt: skip
    pair.ask("ListOffsets", "no topics", replica_id=-1, topics=[])
    for epoch in (0, 1, 7):
        pair.ask("ListOffsets", f"leader epoch {epoch}", replica_id=-1, versions=range(4, 12),
                 topics=[at(-1, current_leader_epoch=epoch)])  # fmt: skip
    for level in (0, 1, 3):
        pair.ask("ListOffsets", f"isolation {level}", replica_id=-1, isolation_level=level,
                 topics=[at(-1)], versions=range(2, 12))  # fmt: skip
    for replica in (1, 2, -2):
        pair.ask("ListOffsets", f"replica {replica}", replica_id=replica, topics=[at(-1)])


def test_offset_for_leader_epoch(pair: Pair) -> None:
    for epoch in (-1, 0, 1, 5, 2**31 - 1, -5):
        for current in (-1, 0, 1):
            pair.ask(
                "OffsetForLeaderEpoch", f"epoch {epoch}, current {current}", replica_id=-1,
                topics=[{"topic": "plain", "partitions": [
                    {"partition": 0, "leader_epoch": epoch, "current_leader_epoch": current}]}],
                versions=range(3, 5),
            )  # fmt: skip
    for topic, partition in (("plain", 2), ("plain", 77), ("nowhere", 0), ("trimmed", 0)):
        pair.ask("OffsetForLeaderEpoch", f"{topic}-{partition}", topics=[
            {"topic": topic, "partitions": [{"partition": partition, "leader_epoch": 0}]}],
            versions=range(2, 3))  # fmt: skip
        pair.ask("OffsetForLeaderEpoch", f"{topic}-{partition}", replica_id=-1, topics=[
            {"topic": topic, "partitions": [{"partition": partition, "leader_epoch": 0}]}],
            versions=range(3, 5))  # fmt: skip


def test_delete_records(pair: Pair) -> None:
    for version in range(3):
        name = f"deleting-v{version}"
        pair.create(name)
        pair.produce(name, batch(10))

        def delete(what: str, offset: int, name: str = name, version: int = version) -> None:
            asked = [{"partition_index": 0, "offset": offset}]
            pair.ask("DeleteRecords", what, versions=[version], timeout_ms=5000,
                     topics=[{"name": name, "partitions": asked}])  # fmt: skip

        delete("up to 4", 4)
        delete("backwards", 2)
        delete("beyond the end", 11)
        delete("a negative offset", -2)
        delete("everything", -1)
        delete("nothing more", 10)
    for topic, partition in (("plain", 9), ("plain", -1), ("nowhere", 0)):
        asked = [{"partition_index": partition, "offset": 1}]
        pair.ask("DeleteRecords", f"{topic}-{partition}", timeout_ms=5000,
                 topics=[{"name": topic, "partitions": asked}])  # fmt: skip
    pair.ask("DeleteRecords", "of a compacted topic", timeout_ms=5000, topics=[
        {"name": "compacted", "partitions": [{"partition_index": 0, "offset": 0}]}])  # fmt: skip
    pair.ask("DeleteRecords", "of no topic", timeout_ms=5000, topics=[])


def test_init_producer_id(pair: Pair) -> None:
    pair.ask("InitProducerId", "an idempotent producer", transactional_id=None,
             transaction_timeout_ms=60_000)  # fmt: skip
    pair.ask("InitProducerId", "an odd timeout", transactional_id=None, transaction_timeout_ms=-1)
    pair.ask("InitProducerId", "an id of its own", transactional_id=None, producer_id=5,
             producer_epoch=3, transaction_timeout_ms=60_000, versions=range(3, 6))  # fmt: skip
    pair.ask("InitProducerId", "an empty transactional id", transactional_id="",
             transaction_timeout_ms=60_000)  # fmt: skip


def test_describe_producers(pair: Pair) -> None:
    pair.create("producers")
    for producer, count in ((8000, 3), (8001, 1)):
        data = batch(count, producer_id=producer, producer_epoch=2, base_sequence=0)
        pair.produce("producers", data)
    for topic, partition in (
        ("producers", 0), ("plain", 0), ("plain", 9), ("nowhere", 0), ("a/b", 0)
    ):  # fmt: skip
        pair.ask("DescribeProducers", f"{topic}-{partition}", topics=[
            {"name": topic, "partition_indexes": [partition]}])  # fmt: skip
