"""What clients ask first: versions, topics, the cluster, coordinators."""

from typing import Any

from tests.differential.pair import Id, Pair
from tests.differential.wire import raw_frame

NOBODY = "zzzzzzzzzzzzzzzzzzzzzA"


def test_api_versions(pair: Pair) -> None:
    named: Any = {"client_software_name": "tests", "client_software_version": "1.0"}
    for ours, theirs in pair.ask("ApiVersions", "asked properly", **named):
        known = {row["apiKey"]: row for row in theirs["apiKeys"]}
        for row in ours["apiKeys"]:
            assert row == known[row["apiKey"]], "a range of versions of our own"
    pair.ask("ApiVersions", "no name of the client", versions=[3, 4])
    pair.ask("ApiVersions", "a name that is not allowed", versions=[3, 4],
             client_software_name="-bad-", client_software_version="1")  # fmt: skip
    pair.ask("ApiVersions", "a version that is not allowed", versions=[3, 4],
             client_software_name="good", client_software_version="a b")  # fmt: skip
    for version in (5, 99, 32767, -1):
        frame = raw_frame("ApiVersions", version, b"")
        pair.send_raw("ApiVersions", version, "a version that nobody speaks", frame)


def test_metadata_of_topics(pair: Pair) -> None:
    pair.ask("Metadata", "a topic", topics=[{"name": "plain"}])
    pair.ask("Metadata", "several topics", topics=[{"name": "plain"}, {"name": "small"}])
    pair.ask("Metadata", "the same topic twice", topics=[{"name": "plain"}, {"name": "plain"}])
    pair.ask("Metadata", "no topics", topics=[])
    pair.ask("Metadata", "operations", topics=[{"name": "plain"}],
             include_topic_authorized_operations=True,
             include_cluster_authorized_operations=True,
             versions=range(8, 11))  # fmt: skip
    pair.ask("Metadata", "operations on the topic", topics=[{"name": "plain"}],
             include_topic_authorized_operations=True, versions=range(11, 14))  # fmt: skip


def test_metadata_of_unknown_topics(pair: Pair) -> None:
    quiet = {"allow_auto_topic_creation": False}
    pair.ask("Metadata", "unknown", topics=[{"name": "nowhere"}], versions=range(4, 14), **quiet)
    for name in ("", ".", "..", "a/b", "x" * 250, "ž"):
        pair.ask(
            "Metadata", f"the name {name[:5]!r}", topics=[{"name": name}],
            versions=range(4, 14), **quiet,
        )  # fmt: skip
        pair.ask("Metadata", f"creating {name[:5]!r}", topics=[{"name": name}], versions=[12])
    pair.ask("Metadata", "known and unknown", topics=[{"name": "plain"}, {"name": "nowhere"}],
             versions=range(4, 14), **quiet)  # fmt: skip


def test_metadata_by_topic_id(pair: Pair) -> None:
    pair.ask("Metadata", "by id", topics=[{"topic_id": Id("plain"), "name": None}],
             versions=[12, 13])  # fmt: skip
    pair.ask("Metadata", "an id before its time", topics=[{"topic_id": Id("plain"), "name": None}],
             versions=[10, 11])  # fmt: skip
    pair.ask("Metadata", "by an unknown id", topics=[{"topic_id": NOBODY, "name": None}],
             versions=[12, 13])  # fmt: skip
    pair.ask("Metadata", "neither name nor id", topics=[{"name": None}], versions=[12, 13])


def test_metadata_creates_topics(pair: Pair) -> None:
    pair.ask("Metadata", "created by asking", topics=[{"name": "made-by-metadata-v{v}"}],
             versions=[1, 4, 9, 12, 13])  # fmt: skip


def test_describe_topic_partitions(pair: Pair) -> None:
    asked = "DescribeTopicPartitions"
    pair.ask(asked, "a topic", topics=[{"name": "plain"}], response_partition_limit=2000)
    pair.ask(asked, "a page", topics=[{"name": "plain"}], response_partition_limit=2)
    pair.ask(asked, "a second page", topics=[{"name": "plain"}], response_partition_limit=2,
             cursor={"topic_name": "plain", "partition_index": 2})  # fmt: skip
    pair.ask(asked, "pages over topics", topics=[{"name": "small"}, {"name": "plain"}],
             response_partition_limit=3)  # fmt: skip
    pair.ask(asked, "a cursor at another topic", topics=[{"name": "plain"}, {"name": "small"}],
             response_partition_limit=3,
             cursor={"topic_name": "quite", "partition_index": 0})  # fmt: skip
    pair.ask(asked, "a negative cursor", topics=[{"name": "plain"}], response_partition_limit=3,
             cursor={"topic_name": "plain", "partition_index": -1})  # fmt: skip
    pair.ask(asked, "a limit of zero", topics=[{"name": "plain"}], response_partition_limit=0)
    pair.ask(asked, "a negative limit", topics=[{"name": "plain"}], response_partition_limit=-1)
    pair.ask(asked, "unknown", topics=[{"name": "nowhere"}], response_partition_limit=10)
    pair.ask(asked, "a bad name", topics=[{"name": "a/b"}], response_partition_limit=10)
    pair.ask(asked, "an empty name", topics=[{"name": ""}], response_partition_limit=10)


def test_describe_cluster(pair: Pair) -> None:
    pair.ask("DescribeCluster", "asked properly")
    pair.ask("DescribeCluster", "with operations", include_cluster_authorized_operations=True)
    pair.ask("DescribeCluster", "brokers", endpoint_type=1, versions=[1, 2])
    pair.ask("DescribeCluster", "controllers", endpoint_type=2, versions=[1, 2])
    pair.ask("DescribeCluster", "an endpoint that is none", endpoint_type=9, versions=[1, 2])
    pair.ask("DescribeCluster", "fenced ones too", include_fenced_brokers=True, versions=[2])


def test_find_coordinator(pair: Pair) -> None:
    for kind, name in enumerate(("a group", "a transaction", "a share group")):
        key = ["group", "transaction", "group:" + NOBODY + ":0"][kind]
        pair.ask("FindCoordinator", name, key=key, key_type=kind, versions=range(1, 4))
        pair.ask("FindCoordinator", name, coordinator_keys=[key], key_type=kind,
                 versions=range(4, 7))  # fmt: skip
    pair.ask("FindCoordinator", "the oldest way", key="group", versions=[0])
    pair.ask("FindCoordinator", "a kind that is none", key="x", key_type=7, versions=range(1, 4))
    pair.ask("FindCoordinator", "a kind that is none", coordinator_keys=["x"], key_type=7,
             versions=range(4, 7))  # fmt: skip
    pair.ask("FindCoordinator", "an empty key", key="", versions=range(4))
    pair.ask("FindCoordinator", "keys", coordinator_keys=["a", "b", ""], versions=range(4, 7))
    pair.ask("FindCoordinator", "no keys", coordinator_keys=[], versions=range(4, 7))
    pair.ask("FindCoordinator", "a bad share key", coordinator_keys=["nonsense"], key_type=2,
             versions=[6])  # fmt: skip
