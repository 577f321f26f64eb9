"""Topics made, grown and deleted, and all the ways in which that is refused."""

from typing import Any

from tests.differential.pair import Id, Pair

Json = Any
NOBODY = "zzzzzzzzzzzzzzzzzzzzzA"


def topic(name: str, partitions: int = 1, replicas: int = 1, **more: Json) -> dict[str, Json]:
    return {
        "name": name, "num_partitions": partitions, "replication_factor": replicas, **more,
    }  # fmt: skip


def assigned(*replicas: tuple[int, list[int]]) -> list[dict[str, Json]]:
    return [{"partition_index": index, "broker_ids": ids} for index, ids in replicas]


def configured(**config: str | None) -> list[dict[str, Json]]:
    return [{"name": key.replace("_", "."), "value": value} for key, value in config.items()]


def create(pair: Pair, what: str, *topics: dict[str, Json], **more: Json) -> None:
    pair.ask("CreateTopics", what, topics=list(topics), timeout_ms=10_000, **more)


def test_topics_are_created(pair: Pair) -> None:
    create(pair, "one partition", topic("made-v{v}"))
    create(pair, "again", topic("made-v{v}"))
    create(pair, "several", topic("a-v{v}", 2), topic("b-v{v}", 3))
    config = configured(
        retention_ms="1000", cleanup_policy="compact,delete", segment_bytes="2000000"
    )
    create(pair, "with configs", topic("c-v{v}", configs=config))
    create(pair, "by assignment", topic("d-v{v}", -1, -1, assignments=assigned((0, [1]), (1, [1]))))
    create(pair, "only to see", topic("e-v{v}"), validate_only=True)
    pair.ask("CreateTopics", "defaults", topics=[topic("f-v{v}", -1, -1)], timeout_ms=10_000,
             versions=range(4, 8))  # fmt: skip
    create(pair, "nothing")


def test_topics_with_bad_names(pair: Pair) -> None:
    for name in ("", ".", "..", "a/b", "a b", "ž", "x" * 249, "x" * 250, "__consumer_offsets",
                 "__transaction_state", "__cluster_metadata"):  # fmt: skip
        create(pair, f"the name {name[:20]!r} of {len(name)}", topic(name), validate_only=True)
    create(pair, "the same name twice", topic("twice"), topic("twice"))
    create(pair, "the same name twice among others", topic("twice"), topic("twice"),
           topic("not-twice-v{v}"))  # fmt: skip
    create(pair, "a period", topic("col.lide-v{v}"))
    create(pair, "an underscore that collides", topic("col_lide-v{v}"))


def test_topics_with_bad_numbers(pair: Pair) -> None:
    for partitions in (0, -1, -2, 2**31 - 1):
        pair.ask("CreateTopics", f"{partitions} partitions", topics=[topic("n", partitions)],
                 timeout_ms=10_000, validate_only=True)  # fmt: skip
    for replicas in (0, -1, -2, 2, 3, 32767):
        create(pair, f"{replicas} replicas", topic("n", 1, replicas), validate_only=True)
    create(pair, "numbers and an assignment", topic("n", 1, 1, assignments=assigned((0, [1]))))


def test_topics_with_bad_assignments(pair: Pair) -> None:
    cases = {
        "an unknown broker": assigned((0, [7])),
        "a broker twice": assigned((0, [1, 1])),
        "no replicas": assigned((0, [])),
        "a gap": assigned((0, [1]), (2, [1])),
        "not from zero": assigned((1, [1])),
        "a partition twice": assigned((0, [1]), (0, [1])),
        "unequal replicas": assigned((0, [1]), (1, [1, 2])),
        "a negative broker": assigned((0, [-1])),
    }
    for what, assignments in cases.items():
        create(pair, what, topic("n", -1, -1, assignments=assignments), validate_only=True)


def test_topics_with_bad_configs(pair: Pair) -> None:
    cases: dict[str, dict[str, str | None]] = {
        "unknown": {"no_such_config": "1"},
        "no number": {"retention_ms": "soon"},
        "out of range": {"retention_ms": "-2"},
        "too small": {"segment_bytes": "13"},
        "a small segment": {"segment_bytes": "1000"},
        "an empty number": {"segment_bytes": ""},
        "a null value": {"segment_bytes": None},
        "an unknown policy": {"cleanup_policy": "burn"},
        "a list of policies": {"cleanup_policy": "delete, compact"},
        "an empty policy": {"cleanup_policy": ""},
        "an unknown codec": {"compression_type": "brotli"},
        "a boolean": {"unclean_leader_election_enable": "perhaps"},
        "a ratio": {"min_cleanable_dirty_ratio": "1.5"},
        "too many replicas in sync": {"min_insync_replicas": "0"},
        "a level": {"compression_zstd_level": "100"},
        "spaces around": {"retention_ms": " 5000 "},
        "larger than int": {"segment_bytes": "3000000000"},
        "remote storage": {"remote_storage_enable": "true"},
        "local retention": {"local_retention_ms": "100", "retention_ms": "50"},
        "compaction lags": {"min_compaction_lag_ms": "100", "max_compaction_lag_ms": "50"},
        "a replica list": {"leader_replication_throttled_replicas": "0:1,1:1"},
        "a bad replica list": {"leader_replication_throttled_replicas": "nonsense"},
        "a message format": {"message_format_version": "3.0"},
        "a broker's name": {"log_retention_ms": "100"},
    }
    for what, config in cases.items():
        create(pair, what, topic("n", configs=configured(**config)), validate_only=True)
    twice = configured(retention_ms="1") + configured(retention_ms="2")
    create(pair, "a config twice", topic("n", configs=twice), validate_only=True)


def test_topics_are_deleted(pair: Pair) -> None:
    for version in range(1, 7):
        name = f"deleted-v{version}"
        pair.create(name)
        by_name: dict[str, Json] = {"topic_names": [name]}
        if version == 6:
            by_name = {"topics": [{"name": name}]}
        pair.ask("DeleteTopics", "by name", versions=[version], timeout_ms=10_000, **by_name)
        pair.ask("DeleteTopics", "again", versions=[version], timeout_ms=10_000, **by_name)
    names: Json = {"topic_names": ["nowhere", "", "a/b"]}
    pair.ask("DeleteTopics", "unknown", versions=range(1, 6), timeout_ms=10_000, **names)
    pair.ask("DeleteTopics", "no topics", versions=range(1, 6), timeout_ms=10_000, topic_names=[])
    pair.create("twice-deleted")
    pair.ask("DeleteTopics", "a name twice", versions=[5], timeout_ms=10_000,
             topic_names=["twice-deleted", "twice-deleted"])  # fmt: skip


def test_topics_are_deleted_by_id(pair: Pair) -> None:
    pair.create("by-id")

    def delete(what: str, *topics: dict[str, Json]) -> None:
        pair.ask("DeleteTopics", what, versions=[6], timeout_ms=10_000, topics=list(topics))

    delete("name and id", {"name": "by-id", "topic_id": Id("by-id")})
    delete("neither", {"name": None})
    delete("an unknown id", {"name": None, "topic_id": NOBODY})
    delete("the id twice", *({"name": None, "topic_id": Id("by-id")} for _ in range(2)))
    delete("the id and the name", {"name": "by-id"}, {"name": None, "topic_id": Id("by-id")})
    delete("by id", {"name": None, "topic_id": Id("by-id")})
    delete("by id again", {"name": None, "topic_id": Id("by-id")})
    delete("unknown", {"name": "nowhere"})
    delete("a bad name", {"name": "a/b"})
    delete("nothing")


def test_partitions_are_added(pair: Pair) -> None:
    for version in range(4):
        pair.create(f"grown-v{version}", partitions=2)

    def grow(what: str, count: int, *, name: str = "grown-v{v}", **more: Json) -> None:
        pair.ask("CreatePartitions", what, timeout_ms=10_000,
                 topics=[{"name": name, "count": count, "assignments": None}], **more)  # fmt: skip

    grow("only to see", 3, validate_only=True)
    grow("three", 3)
    grow("the same", 3)
    grow("fewer", 1)
    grow("none", 0)
    grow("a negative number", -1)
    grow("too many", 2**31 - 1)
    grow("an unknown topic", 3, name="nowhere")
    grow("a bad name", 3, name="a/b")
    for what, brokers in (
        ("assigned", [[1]]), ("to an unknown broker", [[9]]), ("too few", []), ("empty", [[]]),
        ("too many replicas", [[1, 2]]), ("twice", [[1, 1]]), ("too many assignments", [[1], [1]]),
    ):  # fmt: skip
        assignments = [{"broker_ids": ids} for ids in brokers]
        pair.ask("CreatePartitions", what, timeout_ms=10_000, validate_only=True, topics=[
            {"name": "grown-v{v}", "count": 4, "assignments": assignments}])  # fmt: skip
    pair.ask("CreatePartitions", "a topic twice", timeout_ms=10_000, topics=[
        {"name": "grown-v{v}", "count": 4, "assignments": None},
        {"name": "grown-v{v}", "count": 5, "assignments": None}])  # fmt: skip
    pair.ask("CreatePartitions", "no topics", timeout_ms=10_000, topics=[])
