"""The logs of a broker by partition, counted by log directory as they come and go.

A new log goes where there are the fewest; to count them all for each would block the loop for
milliseconds where there are thousands.
"""

from collections import Counter

from ottla.common.topic_partition import TopicPartition
from ottla.storage.log import Log


class LogTable(dict[TopicPartition, Log]):
    """Changed by single items only."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        """By the path of a log directory."""

    def __setitem__(self, topic_partition: TopicPartition, log: Log) -> None:
        self.take(topic_partition)
        super().__setitem__(topic_partition, log)
        self.counts[log.directory.rpartition("/")[0]] += 1

    def take(self, topic_partition: TopicPartition) -> Log | None:
        """Remove a log from here, if there is one."""
        log = super().pop(topic_partition, None)
        if log is not None:
            self.counts[log.directory.rpartition("/")[0]] -= 1
        return log
