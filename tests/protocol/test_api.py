"""The table of APIs against what Apache Kafka 4.3.1 says of itself."""

import subprocess
import sys

import pytest

from ottla.protocol.api import APIS, BROKER, CONTROLLER, ZK_BROKER, ApiKey
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.headers import request_header_version, response_header_version

# key, name, lowest and highest version, first flexible version, listeners (b broker, c controller),
# marks (f forwardable, a cluster action, u latest version unstable)
FACTS = """
0 Produce 3 13 9 b -
1 Fetch 4 18 12 bc -
2 ListOffsets 1 11 6 b -
3 Metadata 0 13 9 b -
4 LeaderAndIsr 0 -1 4 - a
5 StopReplica 0 -1 2 - a
6 UpdateMetadata 0 -1 6 - a
7 ControlledShutdown 0 -1 3 - a
8 OffsetCommit 2 10 8 b -
9 OffsetFetch 1 10 6 b -
10 FindCoordinator 0 6 3 b -
11 JoinGroup 0 9 6 b -
12 Heartbeat 0 4 4 b -
13 LeaveGroup 0 5 4 b -
14 SyncGroup 0 5 4 b -
15 DescribeGroups 0 6 5 b -
16 ListGroups 0 5 3 b -
17 SaslHandshake 0 1 none bc -
18 ApiVersions 0 4 3 bc -
19 CreateTopics 2 7 5 bc f
20 DeleteTopics 1 6 4 bc f
21 DeleteRecords 0 2 2 b -
22 InitProducerId 0 6 2 b u
23 OffsetForLeaderEpoch 2 4 4 b -
24 AddPartitionsToTxn 0 5 3 b -
25 AddOffsetsToTxn 0 4 3 b -
26 EndTxn 0 5 3 b -
27 WriteTxnMarkers 1 2 1 b a
28 TxnOffsetCommit 0 5 3 b -
29 DescribeAcls 1 3 2 bc -
30 CreateAcls 1 3 2 bc f
31 DeleteAcls 1 3 2 bc f
32 DescribeConfigs 1 4 4 bc -
33 AlterConfigs 0 2 2 bc f
34 AlterReplicaLogDirs 1 2 2 b -
35 DescribeLogDirs 1 5 2 b -
36 SaslAuthenticate 0 2 2 bc -
37 CreatePartitions 0 3 2 bc f
38 CreateDelegationToken 1 3 2 bc f
39 RenewDelegationToken 1 2 2 bc f
40 ExpireDelegationToken 1 2 2 bc f
41 DescribeDelegationToken 1 3 2 bc -
42 DeleteGroups 0 2 2 b -
43 ElectLeaders 0 2 2 bc f
44 IncrementalAlterConfigs 0 1 1 bc f
45 AlterPartitionReassignments 0 1 0 bc f
46 ListPartitionReassignments 0 0 0 bc f
47 OffsetDelete 0 0 none b -
48 DescribeClientQuotas 0 1 1 b -
49 AlterClientQuotas 0 1 1 bc f
50 DescribeUserScramCredentials 0 0 0 bc -
51 AlterUserScramCredentials 0 0 0 bc f
52 Vote 0 2 0 c a
53 BeginQuorumEpoch 0 1 1 c a
54 EndQuorumEpoch 0 1 1 c a
55 DescribeQuorum 0 2 0 bc fa
56 AlterPartition 2 3 0 c a
57 UpdateFeatures 0 2 0 bc fa
58 Envelope 0 0 0 c a
59 FetchSnapshot 0 1 0 c -
60 DescribeCluster 0 2 0 bc -
61 DescribeProducers 0 0 0 b -
62 BrokerRegistration 0 4 0 c a
63 BrokerHeartbeat 0 2 0 c a
64 UnregisterBroker 0 0 0 bc f
65 DescribeTransactions 0 0 0 b -
66 ListTransactions 0 2 0 b -
67 AllocateProducerIds 0 0 0 c fa
68 ConsumerGroupHeartbeat 0 1 0 b -
69 ConsumerGroupDescribe 0 1 0 b -
70 ControllerRegistration 0 0 0 c -
71 GetTelemetrySubscriptions 0 0 0 b -
72 PushTelemetry 0 0 0 b -
73 AssignReplicasToDirs 0 0 0 c -
74 ListConfigResources 0 1 0 b -
75 DescribeTopicPartitions 0 0 0 b -
76 ShareGroupHeartbeat 1 1 0 b -
77 ShareGroupDescribe 1 1 0 b -
78 ShareFetch 1 2 0 b -
79 ShareAcknowledge 1 2 0 b -
80 AddRaftVoter 0 1 0 bc f
81 RemoveRaftVoter 0 0 0 bc f
82 UpdateRaftVoter 0 0 0 c -
83 InitializeShareGroupState 0 0 0 b a
84 ReadShareGroupState 0 0 0 b a
85 WriteShareGroupState 0 1 0 b a
86 DeleteShareGroupState 0 0 0 b a
87 ReadShareGroupStateSummary 0 1 0 b a
88 StreamsGroupHeartbeat 0 0 0 b -
89 StreamsGroupDescribe 0 0 0 b -
90 DescribeShareGroupOffsets 0 1 0 b -
91 AlterShareGroupOffsets 0 0 0 b -
92 DeleteShareGroupOffsets 0 0 0 b -
"""
ZOOKEEPER_MODE = {4: (0, 7), 5: (0, 4), 6: (0, 8), 7: (0, 3)}
"""Gone from 4.x, which counts their versions from 0 to -1; these are those of 3.9."""

ROWS = [line.split() for line in FACTS.split("\n") if line]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_an_api_is_what_kafka_says(row: list[str]) -> None:
    api = APIS[int(row[0])]
    assert api.key == int(row[0])
    assert api.name == row[1]
    versions = ZOOKEEPER_MODE.get(api.key, (int(row[2]), int(row[3])))
    assert (api.lowest_version, api.highest_version) == versions
    first = api.highest_version + 1 if row[4] == "none" else int(row[4])
    assert api.flexible_from == first
    if api.key in ZOOKEEPER_MODE:
        assert row[5] == "-"
        assert ZK_BROKER in api.listeners
    else:
        assert api.listeners == {{"b": BROKER, "c": CONTROLLER}[letter] for letter in row[5]}
    marks = {"f": api.forwardable, "a": api.cluster_action, "u": api.latest_version_unstable}
    assert "".join(mark for mark, has in marks.items() if has) == row[6].strip("-")


def test_no_api_is_missing_and_none_is_made_up() -> None:
    assert sorted(APIS) == [int(row[0]) for row in ROWS] == sorted(ApiKey)
    names = {ApiKey(int(row[0])).name.replace("_", "").lower(): row[1].lower() for row in ROWS}
    assert all(ours == kafkas for ours, kafkas in names.items())


def test_the_classes_of_every_api_have_its_key_and_versions() -> None:
    for api in APIS.values():
        for cls in (api.request_class(), api.response_class()):
            assert api.key == cls.API_KEY
            assert (
                api.lowest_version,
                api.highest_version,
            ) == (cls.LOWEST_VERSION, cls.HIGHEST_VERSION)
            assert api.flexible_from == cls.FLEXIBLE_FROM
        assert api.request_class().__name__ == f"{api.name}Request"
        assert api.response_class().__name__ == f"{api.name}Response"


def test_an_api_gives_its_classes() -> None:
    api = APIS[ApiKey.HEARTBEAT]
    assert api.request_class() is HeartbeatRequest
    assert api.response_class() is HeartbeatResponse
    assert (api.lowest_version, api.highest_version) == (0, 4)


def test_only_the_newest_init_producer_id_is_unstable() -> None:
    unstable = [api for api in APIS.values() if api.latest_version_unstable]
    assert [api.key for api in unstable] == [ApiKey.INIT_PRODUCER_ID]
    assert unstable[0].highest_stable_version == 5
    assert APIS[ApiKey.FETCH].highest_stable_version == 18


def test_headers_have_tagged_fields_from_the_first_flexible_version_on() -> None:
    for row in ROWS:
        api = APIS[int(row[0])]
        for version in range(api.lowest_version, api.highest_version + 1):
            flexible = row[4] != "none" and version >= int(row[4])
            assert request_header_version(api.key, version) == 1 + flexible
            expected = 0 if api.name == "ApiVersions" else int(flexible)
            assert response_header_version(api.key, version) == expected


def test_the_table_is_there_without_any_of_the_messages() -> None:
    code = "import sys, ottla.protocol.api; print(*(m for m in sys.modules if 'generated.' in m))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["ottla.protocol.generated.api_keys"]
