"""What the remote tier counts, by Kafka's names: for all topics together and for each."""

from functools import partial
from typing import Final

from ottla.common.clock import Clock
from ottla.observability.metrics import Gauge, Meter, Registry
from ottla.observability.names import MetricName

COPY_BYTES: Final = "RemoteCopyBytesPerSec"
COPY_REQUESTS: Final = "RemoteCopyRequestsPerSec"
COPY_ERRORS: Final = "RemoteCopyErrorsPerSec"
FETCH_BYTES: Final = "RemoteFetchBytesPerSec"
FETCH_REQUESTS: Final = "RemoteFetchRequestsPerSec"
FETCH_ERRORS: Final = "RemoteFetchErrorsPerSec"
DELETE_REQUESTS: Final = "RemoteDeleteRequestsPerSec"
DELETE_ERRORS: Final = "RemoteDeleteErrorsPerSec"
COPY_LAG_BYTES: Final = "RemoteCopyLagBytes"
COPY_LAG_SEGMENTS: Final = "RemoteCopyLagSegments"
SIZE_BYTES: Final = "RemoteLogSizeBytes"
METADATA_COUNT: Final = "RemoteLogMetadataCount"

_BEAN: Final = MetricName("kafka.server", "BrokerTopicMetrics")


class RemoteLogMetrics:
    """Registers a metric when it is first counted; what is of one topic goes with it."""

    def __init__(self, registry: Registry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._meters: dict[MetricName, Meter] = {}
        self._levels: dict[MetricName, dict[int, int]] = {}
        """Gauges of a topic are the sums of its partitions."""

    def count(self, topic: str, name: str, amount: int = 1) -> None:
        bean = _BEAN._replace(name=name)
        for metric in (bean, bean.tagged(topic=topic)):
            meter = self._meters.get(metric)
            if meter is None:
                meter = self._meters[metric] = Meter(self._clock.monotonic())
                self._registry.register(metric, meter)
            meter.count += amount

    def level(self, topic: str, partition: int, name: str, value: int) -> None:
        metric = _BEAN._replace(name=name).tagged(topic=topic)
        partitions = self._levels.get(metric)
        if partitions is None:
            partitions = self._levels[metric] = {}
            self._registry.register(metric, Gauge(partial(_sum, partitions)))
        partitions[partition] = value

    def forget(self, topic: str, partition: int) -> None:
        """This broker has nothing to do with a partition any more."""
        tags = (("topic", topic),)
        for metric, partitions in list(self._levels.items()):
            if metric.tags == tags:
                partitions.pop(partition, None)
                if not partitions:
                    del self._levels[metric]
                    self._registry.remove(metric)
        if not any(metric.tags == tags for metric in self._levels):
            for metric in [each for each in self._meters if each.tags == tags]:
                del self._meters[metric]
                self._registry.remove(metric)


def _sum(partitions: dict[int, int]) -> float:
    return sum(partitions.values())
