"""What holds for one group: its own settings where it has any, the broker's where it has none.

A group's settings (``kafka-configs --entity-type groups``) are in the metadata, so a change counts
from the next heartbeat on. A value that leaves the broker's bounds, because those were changed
later, counts as the bound.
"""

from typing import Final, NamedTuple

from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.outside import ClusterTopics

GROUP_RESOURCE: Final = 32
"""The type of config resources that groups are."""


class ConsumerTimes(NamedTuple):
    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


class GroupConfigs:
    def __init__(self, settings: GroupSettings, topics: ClusterTopics) -> None:
        self.settings = settings
        self._topics = topics

    def of(self, group_id: str) -> ConsumerTimes:
        settings = self.settings
        own = self._topics.image.configs_of(GROUP_RESOURCE, group_id)
        session, heartbeat, assignment = (
            bounds.value if (text := own.get(name)) is None else bounds.nearest(int(text))
            for name, bounds in (
                ("consumer.session.timeout.ms", settings.consumer_session_timeout_ms),
                ("consumer.heartbeat.interval.ms", settings.consumer_heartbeat_interval_ms),
                ("consumer.assignment.interval.ms", settings.consumer_assignment_interval_ms),
            )
        )
        return ConsumerTimes(session, heartbeat, assignment)
