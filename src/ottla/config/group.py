"""The settings of a consumer, share or streams group.

A group that says nothing about a key follows the broker's setting ``group.<key>``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Self

from ottla.common.errors import InvalidConfig
from ottla.config.definition import Boolean, ConfigSet, Int, String
from ottla.config.kinds import Value
from ottla.config.validators import OFFSET_RESET, at_least, one_of

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig


class GroupConfig(ConfigSet):
    """What holds for one group."""

    consumer_assignment_interval_ms = Int(
        1_000, "Time between two assignments of the consumer group.", at_least(0)
    )
    consumer_heartbeat_interval_ms = Int(
        5_000, "How often members of the consumer group are told to heartbeat.", at_least(1)
    )
    consumer_session_timeout_ms = Int(
        45_000, "A member of the consumer group that is silent for so long is removed.", at_least(1)
    )
    share_assignment_interval_ms = Int(
        1_000, "Time between two assignments of the share group.", at_least(0)
    )
    share_auto_offset_reset = String(
        "latest",
        "Where a share group begins to read: earliest, latest, or by_duration:PnDTnHnMn.nS ago.",
        OFFSET_RESET,
    )
    share_delivery_count_limit = Int(
        5, "How often a record is delivered before it is given up.", at_least(2)
    )
    share_heartbeat_interval_ms = Int(
        5_000, "How often members of the share group are told to heartbeat.", at_least(1)
    )
    share_isolation_level = String(
        "read_uncommitted",
        "Whether records of open and aborted transactions are delivered.",
        one_of("read_committed", "read_uncommitted"),
    )
    share_partition_max_record_locks = Int(
        2_000, "Records of a share-partition that may be acquired at the same time.", at_least(100)
    )
    share_record_lock_duration_ms = Int(
        30_000, "How long an acquired record is held for its member.", at_least(1_000)
    )
    share_renew_acknowledge_enable = Boolean(
        True, "Whether a member may ask to hold a record for longer."
    )
    share_session_timeout_ms = Int(
        45_000, "A member of the share group that is silent for so long is removed.", at_least(1)
    )
    streams_assignment_interval_ms = Int(
        1_000, "Time between two assignments of the streams group.", at_least(0)
    )
    streams_heartbeat_interval_ms = Int(
        5_000, "How often members of the streams group are told to heartbeat.", at_least(1)
    )
    streams_initial_rebalance_delay_ms = Int(
        3_000,
        "How long the empty streams group waits for more members before it assigns.",
        at_least(0),
    )
    streams_num_standby_replicas = Int(0, "Standby copies of each task.", at_least(0))
    streams_session_timeout_ms = Int(
        45_000, "A member of the streams group that is silent for so long is removed.", at_least(1)
    )

    @classmethod
    def from_broker(cls, broker: "BrokerConfig", overrides: Mapping[str, str]) -> Self:
        """The settings of a group with these overrides on this broker."""
        return cls(overrides, group_defaults(broker))


def check_group(config: GroupConfig, broker: "BrokerConfig") -> None:
    """Refuse settings of a group that leave the bounds that the broker sets."""
    for name in config.originals:
        kind, _, rest = name.partition(".")
        value = config.values[name]
        low = broker.values.get(f"group.{kind}.min.{rest}")
        high_name = f"group.{kind}.max.{rest.removeprefix('num.')}"
        high = broker.values.get(high_name)
        if isinstance(value, int) and isinstance(low, int) and value < low:
            raise InvalidConfig(f"{name} must be greater than or equal to group.{kind}.min.{rest}")
        if isinstance(value, int) and isinstance(high, int) and value > high:
            raise InvalidConfig(f"{name} must be less than or equal to {high_name}")
    for kind in ("consumer", "share", "streams"):
        heartbeat = config.values[f"{kind}.heartbeat.interval.ms"]
        session = config.values[f"{kind}.session.timeout.ms"]
        assert isinstance(heartbeat, int)
        assert isinstance(session, int)
        if session <= heartbeat:
            raise InvalidConfig(
                f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms"
            )


def group_defaults(broker: "BrokerConfig") -> dict[str, Value]:
    """What a group without settings of its own has on this broker."""
    return {
        name: broker.values[synonym]
        for name in GroupConfig.keys
        if (synonym := f"group.{name}") in broker.values
    }
