"""The coordinator's settings come from the broker's, and their defaults are Kafka's."""

from ottla.config.broker import BrokerConfig
from ottla.coordinator.group.settings import GroupSettings

NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.voters": "1@localhost:9093",
}


def test_the_defaults_are_those_of_the_broker() -> None:
    assert GroupSettings.from_broker(BrokerConfig.from_properties(NODE)) == GroupSettings()


def test_each_setting_is_taken_from_its_key() -> None:
    settings = GroupSettings.from_broker(
        BrokerConfig.from_properties(
            {
                **NODE,
                "group.initial.rebalance.delay.ms": "1",
                "group.min.session.timeout.ms": "2",
                "group.max.session.timeout.ms": "3",
                "group.max.size": "4",
                "offset.metadata.max.bytes": "5",
                "offsets.retention.minutes": "6",
                "offsets.retention.check.interval.ms": "7",
                "offsets.commit.timeout.ms": "8",
                "offsets.load.buffer.size": "9",
                "offsets.topic.num.partitions": "10",
                "offsets.topic.compression.codec": "2",
            }
        )
    )
    assert settings == GroupSettings(1, 2, 3, 4, 5, 6 * 60_000, 7, 8, 9, 10, 2)
