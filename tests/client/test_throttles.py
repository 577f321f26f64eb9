"""Throttles of a reassignment: the settings that Apache's tool makes of the same plan."""

from ottla.client.descriptions import ConfigChange, ConfigResource, ResourceType
from ottla.client.placement import Move
from ottla.client.reassignments import Reassignment
from ottla.client.throttles import throttle_changes, with_ongoing
from ottla.common.topic_partition import TopicPartition


def test_leaders_sides_are_what_was_there_and_followers_sides_what_comes() -> None:
    moves = [
        Move(TopicPartition("t1", 2), [1, 2], [1, 2]),
        Move(TopicPartition("t1", 3), [1, 2], [2, 3]),
    ]
    changes = throttle_changes(moves, 1000)
    assert changes[ConfigResource(ResourceType.TOPIC, "t1")] == [
        ConfigChange("leader.replication.throttled.replicas", "2:1,2:2,3:1,3:2"),
        ConfigChange("follower.replication.throttled.replicas", "3:3"),
    ]
    for broker in "123":
        assert changes[ConfigResource(ResourceType.BROKER, broker)] == [
            ConfigChange("leader.replication.throttled.rate", "1000"),
            ConfigChange("follower.replication.throttled.rate", "1000"),
        ]
    assert len(changes) == 4


def test_what_goes_on_already_counts_from_where_it_began() -> None:
    partition, other = TopicPartition("t", 0), TopicPartition("t", 1)
    ongoing = {
        partition: Reassignment([3, 1, 2], [3], [1]),
        other: Reassignment([4, 1], [4], [1]),
    }
    moves = with_ongoing([Move(partition, [3, 1, 2], [5, 2])], ongoing)
    assert moves == [Move(partition, [1, 2], [5, 2]), Move(other, [1], [4])]
