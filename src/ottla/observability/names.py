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


class Dialect(Enum):
    """Whose rules make a Prometheus name of an MBean; dashboards are written for one of them."""

    STRIMZI = "strimzi"
    """The JMX exporter's own examples, Strimzi's rules: the one that is meant by default."""
    CONFLUENT = "confluent"
    """Confluent's monitoring stacks and Grafana Cloud."""
    REPORTER = "reporter"
    """Strimzi's metrics reporter."""
    BITNAMI = "bitnami"


_PER_SEC = re.compile(r"(.+)PerSec\w*")
_PERCENT = re.compile(r"(.+)Percent\w*")


def prometheus_name(metric: MetricName, form: Form, dialect: Dialect = Dialect.STRIMZI) -> str:
    """The name on a /metrics page, without labels."""
    if not metric.domain:
        return _sanitised(metric.name)
    if dialect is Dialect.STRIMZI:
        return _sanitised(_by_strimzi(metric, form))
    kind, name = metric.type, metric.attribute or metric.name
    if dialect is Dialect.CONFLUENT and kind == "socket-server-metrics":
        kind = "socketservermetrics"
    is_rate = form is Form.COUNTER and _PER_SEC.fullmatch(name) is not None
    if is_rate and dialect is Dialect.REPORTER:
        name = f"{name}_total"
    elif is_rate and dialect is Dialect.BITNAMI:
        name = f"{name}_count"
        if metric.type == "ReplicaManager":
            name = f"total_{name}"
    elif dialect is Dialect.BITNAMI and form is Form.GAUGE and not metric.attribute:
        name = f"{name}_value"
    return _sanitised(f"{metric.domain}_{kind}_{name}")


def _by_strimzi(metric: MetricName, form: Form) -> str:
    kind = metric.type.replace("-", "") if metric.type in _JOINED else metric.type
    if metric.attribute:
        return f"{metric.domain}_{kind}_{metric.attribute}"
    name = metric.name
    match = _PERCENT.fullmatch(name)
    if match is not None:
        return f"{metric.domain}_{kind}_{match[1]}_percent"
    match = _PER_SEC.fullmatch(name)
    if match is not None and form is Form.COUNTER:
        return f"{metric.domain}_{kind}_{match[1]}_total"
    return f"{metric.domain}_{kind}_{name}"


def label_name(name: str, dialect: Dialect = Dialect.STRIMZI) -> str:
    """The name of a tag as a label."""
    label = name.replace("-", "_").replace(".", "_")
    return label.lower() if dialect is Dialect.CONFLUENT else label


def _sanitised(name: str) -> str:
    return re.sub(r"[^a-z0-9_:]", "_", name.lower())
