"""What changes for listeners when a snapshot takes the place of the image that they know.

A snapshot says what there is, not what has gone since: topics that were deleted, settings and ACLs
that were removed in between must be found by comparison, or a broker would keep them for ever.
"""

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicDelta


def difference(base: MetadataImage, target: MetadataImage) -> MetadataDelta:
    """A delta from ``base``, as far as topics, settings, nodes, ACLs and quotas go."""
    delta = MetadataDelta(base)
    _compare_topics(base, target, delta)
    for resource in {**base.configs, **target.configs}:
        configs = target.configs.get(resource, {})
        if base.configs.get(resource, {}) != configs:
            delta.configs.changed[resource] = dict(configs)
    for node_id in {**base.brokers, **target.brokers}:
        broker = target.brokers.get(node_id)
        if base.brokers.get(node_id) != broker:
            delta.brokers.changed[node_id] = broker
    for node_id, controller in target.controllers.items():
        if base.controllers.get(node_id) != controller:
            delta.brokers.controllers[node_id] = controller
    for acl_id in base.acls.keys() | target.acls.keys():
        acl = target.acls.get(acl_id)
        if base.acls.get(acl_id) != acl:
            delta.acls.changed[acl_id] = acl
    for entity in base.client_quotas.keys() | target.client_quotas.keys():
        quotas = target.client_quotas.get(entity, {})
        if base.client_quotas.get(entity, {}) != quotas:
            delta.client_quotas.changed[entity] = dict(quotas)
    return delta


def _compare_topics(base: MetadataImage, target: MetadataImage, delta: MetadataDelta) -> None:
    for topic_id, topic in base.topics.by_id.items():
        if topic_id not in target.topics.by_id:
            delta.topics.deleted[topic_id] = topic
    for topic_id, topic in target.topics.by_id.items():
        old = base.topics.by_id.get(topic_id)
        changed = {
            index: partition
            for index, partition in topic.partitions.items()
            if old is None or old.partitions.get(index) != partition
        }
        if old is None or changed:
            found = delta.topics.changed[topic_id] = TopicDelta(topic.name, topic_id, old)
            found.changed = changed
