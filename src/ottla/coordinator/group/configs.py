"""What holds for one group: its own settings where it has any, the broker's where it has none.

A group's settings (``kafka-configs --entity-type groups``) are in the metadata, so a change counts
from the next heartbeat on. A value that leaves the broker's bounds, because those were changed
later, counts as the bound.
"""

from typing import Final, NamedTuple

from ottla.coordinator.group.settings import Bounded, GroupSettings
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
        return ConsumerTimes(
            _time(settings.consumer_session_timeout_ms, own.get("consumer.session.timeout.ms")),
            _time(
                settings.consumer_heartbeat_interval_ms, own.get("consumer.heartbeat.interval.ms")
            ),
            _time(
                settings.consumer_assignment_interval_ms, own.get("consumer.assignment.interval.ms")
            ),
        )


def _time(bounds: Bounded, own: str | None) -> int:
    return bounds.value if own is None else bounds.nearest(int(own))
