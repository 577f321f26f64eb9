"""What a metric is called: Kafka's MBean name, and the Prometheus name that is made of it.

Kafka's documentation, its tools and people's habits name metrics by MBean:
``kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=t``. Dashboards name them as the
JMX exporter does with the rules that Strimzi ships, so that existing ones light up:
``kafka_server_brokertopicmetrics_messagesin_total{topic="t"}``.
"""

import re
from enum import Enum
from typing import NamedTuple

Tags = tuple[tuple[str, str], ...]


class Form(Enum):
    """How a metric's numbers are to be read."""

    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    STATE = "untyped"


class MetricName(NamedTuple):
    """An MBean; ``attribute`` stands for those beans that hold many metrics and have no name."""

    domain: str
    type: str
    name: str = ""
    tags: Tags = ()
    attribute: str = ""

    def __str__(self) -> str:
        """Kafka's own way to write it; the attribute, if any, behind a slash."""
        properties = [
            ("type", self.type),
            *([("name", self.name)] if self.name else []),
            *self.tags,
        ]
        text = f"{self.domain}:{','.join(f'{key}={value}' for key, value in properties)}"
        return f"{text}/{self.attribute}" if self.attribute else text

    def tagged(self, **tags: str) -> "MetricName":
        """The same metric of one topic, partition, request ..."""
        return self._replace(tags=(*self.tags, *tags.items()))


_JOINED = frozenset({"raft-metrics", "raft-channel-metrics", "broker-metadata-metrics"})
"""Types whose words Strimzi's rules join; those of others are kept apart."""
_MBEAN = re.compile(r"([^:]+):type=([^,/]+)(?:,name=([^,/]+))?((?:,[^,=/]+=[^,/]*)*)(?:/(.+))?")


def parse_name(text: str) -> MetricName:
    """The metric of an MBean name such as ``str(MetricName)`` gives; ValueError for others."""
    match = _MBEAN.fullmatch(text)
    if match is None:
        raise ValueError(f"not the name of a metric: {text}")
    domain, kind, name, tags, attribute = match.groups()
    pairs = tuple(
        (key, value) for key, _, value in (tag.partition("=") for tag in tags.split(",") if tag)
    )
    return MetricName(domain, kind, name or "", pairs, attribute or "")


def prometheus_name(metric: MetricName, form: Form) -> str:
    """The name on a /metrics page, without labels."""
    kind = metric.type.replace("-", "") if metric.type in _JOINED else metric.type
    if metric.attribute:
        return _sanitised(f"{metric.domain}_{kind}_{metric.attribute}")
    if not metric.domain:
        return _sanitised(metric.name)
    name = metric.name
    match = re.fullmatch(r"(.+)Percent\w*", name)
    if match is not None:
        return _sanitised(f"{metric.domain}_{kind}_{match[1]}_percent")
    match = re.fullmatch(r"(.+)PerSec\w*", name)
    if match is not None and form is Form.COUNTER:
        return _sanitised(f"{metric.domain}_{kind}_{match[1]}_total")
    return _sanitised(f"{metric.domain}_{kind}_{name}")


def _sanitised(name: str) -> str:
    return re.sub(r"[^a-z0-9_:]", "_", name.lower())
