"""Log directories, features, the quorum; frames that are wrong in themselves."""

import struct
from typing import Any

import pytest
from tests.differential.pair import Pair
from tests.differential.wire import API_BY_NAME, raw_frame, request_frame

Json = Any
METADATA_TOPIC = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def test_describe_log_dirs(pair: Pair) -> None:
    named = [{"topic": "plain", "partitions": [0, 1, 2, 3]}]
    pair.ask("DescribeLogDirs", "some partitions", topics=named)
    pair.ask("DescribeLogDirs", "some of one", topics=[{"topic": "trimmed", "partitions": [0, 7]}])
    pair.ask("DescribeLogDirs", "unknown", topics=[{"topic": "nowhere", "partitions": [0]}])
    pair.ask("DescribeLogDirs", "nothing", topics=[])


def test_alter_replica_log_dirs(pair: Pair) -> None:
    def move(what: str, path: str, topic: str, partition: int) -> None:
        topics = [{"name": topic, "partitions": [partition]}]
        pair.ask("AlterReplicaLogDirs", what, dirs=[{"path": path, "topics": topics}])

    move("an unknown directory", "/nowhere", "plain", 0)
    move("a relative path", "nowhere", "plain", 0)
    move("an unknown topic", "/nowhere", "nowhere", 0)
    move("an unknown partition", "/nowhere", "plain", 9)
    pair.ask("AlterReplicaLogDirs", "nothing", dirs=[])


def update(feature: str, level: int, kind: int = UPGRADE) -> dict[str, Json]:
    return {
        "feature": feature, "max_version_level": level,
        "upgrade_type": kind, "allow_downgrade": kind != UPGRADE,
    }  # fmt: skip


def test_update_features(pair: Pair) -> None:
    def ask(what: str, *updates: dict[str, Json], **more: Json) -> None:
        pair.ask("UpdateFeatures", what, feature_updates=list(updates), timeout_ms=10_000, **more)

    ask("what is already so", update("metadata.version", 30))
    ask("too high", update("metadata.version", 99))
    ask("too low", update("metadata.version", 1, UNSAFE_DOWNGRADE))
    ask("an unknown feature", update("no.such", 1))
    ask("a negative level", update("metadata.version", -1))
    ask("a downgrade that is not allowed", update("group.version", 0))
    ask("nothing")
    ask("an unknown kind of upgrade", update("group.version", 1, 9), versions=[1, 2])
    ask("only to see", update("share.version", 0, SAFE_DOWNGRADE), validate_only=True,
        versions=[1, 2])  # fmt: skip
    ask("good and bad", update("metadata.version", 30), update("no.such", 3))
    ask("kraft", update("kraft.version", 1))


def test_describe_quorum(pair: Pair) -> None:
    def ask(what: str, topic: str, *partitions: int) -> None:
        asked = [{"partition_index": n} for n in partitions]
        pair.ask("DescribeQuorum", what, topics=[{"topic_name": topic, "partitions": asked}])

    ask("asked properly", METADATA_TOPIC, 0)
    ask("another partition", METADATA_TOPIC, 1)
    ask("another topic", "plain", 0)
    pair.ask("DescribeQuorum", "nothing", topics=[])


SERVED = (
    "ApiVersions", "Metadata", "DescribeTopicPartitions", "DescribeCluster", "Produce", "Fetch",
    "ListOffsets", "OffsetForLeaderEpoch", "InitProducerId", "CreateTopics", "DeleteTopics",
    "CreatePartitions", "DeleteRecords", "DescribeConfigs", "AlterConfigs",
    "IncrementalAlterConfigs", "ListConfigResources", "DescribeLogDirs", "AlterReplicaLogDirs",
    "DescribeProducers", "UpdateFeatures", "DescribeQuorum", "FindCoordinator",
)  # fmt: skip


@pytest.mark.parametrize("api", SERVED)
def test_versions_that_are_not_spoken(api: str, pair: Pair) -> None:
    row = API_BY_NAME[api]
    for version in (row.lowest_version - 1, row.highest_version + 1, 32767):
        if version >= 0 and api != "ApiVersions":
            pair.send_raw(
                api, version, "a version that is not spoken", raw_frame(api, version, b"")
            )


@pytest.mark.parametrize("api", SERVED)
def test_bodies_that_are_cut_or_too_long(api: str, pair: Pair) -> None:
    row = API_BY_NAME[api]
    for version in {row.lowest_version, row.highest_stable_version}:
        whole = request_frame(api, version, {"acks": -1} if api == "Produce" else {})
        pair.send_raw(api, version, "nothing after the header", raw_frame(api, version, b""))
        for cut in (1, 2):
            body = whole[4:-cut]
            frame = struct.pack(">i", len(body)) + body
            pair.send_raw(api, version, f"{cut} bytes missing", frame)
        frame = struct.pack(">i", len(whole)) + whole[4:] + b"\x00" * 4
        pair.send_raw(api, version, "four bytes too many", frame)


def test_apis_that_are_not_for_clients(pair: Pair) -> None:
    for api in ("Vote", "BeginQuorumEpoch", "AlterPartition", "BrokerHeartbeat", "FetchSnapshot"):
        pair.send_raw(api, 0, "on the broker's listener", raw_frame(api, 0, b"\x00" * 8))
    for key in (4, 5, 6, 7, 93, 1000, -1, 32767):
        header = struct.pack(">hhihB", key, 0, 1, -1, 0)
        frame = struct.pack(">i", len(header)) + header
        pair.send_raw("ApiVersions", 0, f"API key {key}", frame)


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 3, 100 * 1024 * 1024 + 1, 2**31 - 1])
def test_lengths_of_frames_that_cannot_be(length: int, pair: Pair) -> None:
    frame = struct.pack(">i", length) + b"\x00" * max(0, min(length, 64))
    pair.send_raw("ApiVersions", 0, f"length {length}", frame)
