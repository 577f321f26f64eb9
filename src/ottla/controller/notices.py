"""What the active controller has changed, in its log: leaders of partitions, brokers fenced or not.

By what is committed, so that nothing is told which is taken back.
"""

from typing import TypeAlias

from ottla.metadata.brokers import BrokerImage, BrokersDelta
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.topics import TopicsDelta
from ottla.observability.logging import logger

log = logger(__name__)

_Fields: TypeAlias = dict[str, object]


def tell(delta: MetadataDelta) -> None:
    """One line for each kind of change."""
    if log.enabled_for_info():
        _tell_of_brokers(delta.brokers)
        _tell_of_leaders(delta.topics)


def _tell_of_leaders(topics: TopicsDelta) -> None:
    elected: list[_Fields] = []
    offline: list[_Fields] = []
    for topic in topics.changed.values():
        for index, now in topic.changed.items():
            before = topic.before(index)
            if before is None or before.leader == now.leader:
                continue
            fields: _Fields = {
                "partition": f"{topic.name}-{index}",
                "before": before.leader,
                "leader": now.leader,
                "leader_epoch": now.leader_epoch,
                "isr": ",".join(map(str, now.isr)),
            }
            (elected if now.leader >= 0 else offline).append(fields)
    log.changes("leader elected", elected)
    log.changes("partition without a leader", offline, is_warning=True)


def _tell_of_brokers(brokers: BrokersDelta) -> None:
    for node_id, now in brokers.changed.items():
        before = brokers.base.get(node_id)
        if now is None:
            log.info("broker unregistered", broker=node_id)
            continue
        told = _state(now)
        if before is None or before.epoch != now.epoch:
            log.info("broker registered", broker=node_id, epoch=now.epoch)
        elif told != _state(before):
            log.info(told, broker=node_id, epoch=now.epoch)


def _state(broker: BrokerImage) -> str:
    if broker.fenced:
        return "broker fenced"
    return "broker in controlled shutdown" if broker.in_controlled_shutdown else "broker unfenced"
