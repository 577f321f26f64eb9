"""Encoded parts of the answers to Metadata, which many clients share.

A topic's part says what the image of the topic says, and what can be seen of its brokers on the
client's listener, in the form of one version. So it is good until an image has another object for
the topic, or until something else is seen of a broker. What comes before and behind the topics is
good as long as the registered brokers are the same. Nothing depends on the client's principal: what
it may see is chosen part by part.

All topics are joined once for all that ask for them, some in each turn of the loop. While that
goes on there are newer images; still only one is made at a time for a listener and version, and
a client gets one that is not older than its request.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise, run
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import ImageSource, MetadataImage
from ottla.metadata.topics import TopicImage, TopicsImage
from ottla.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.primitives import Writer
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.endpoints import Brokers, addresses, some_alive_broker
from ottla.requests.topics import INTERNAL_TOPICS, SeenBrokers, seen_brokers, show_partition
from ottla.requests.turns import in_turns

BYTES_MAX: Final = 64 << 20
"""What is kept in all; more than that is made anew for each request."""
_BYTES_BESIDES: Final = 250
"""What an object takes beside its bytes."""
_HEADS_MAX: Final = 100
"""Clients may come by as many addresses as the machine has."""
PARTITIONS_AT_ONCE: Final = 1000
"""How many are encoded in one turn: this takes some milliseconds."""
_LISTENER_ERRORS: Final = 6
_CLUSTER_OPERATIONS: Final = 8


class TopicForm(NamedTuple):
    """What the answer depends on beside the image."""

    version: int
    listener_name: str


class AllTopics(NamedTuple):
    image: MetadataImage
    body: bytes


class HeadAndTail(NamedTuple):
    """What comes before the number of topics, and what behind the last."""

    head: bytes
    tail: bytes


class TopicParts:
    """Topics in one form, as long as the same is seen of the brokers."""

    __slots__ = ("_form", "_kept", "_on_growth", "all_topics", "brokers", "seen", "size")

    def __init__(
        self,
        form: TopicForm,
        brokers: Brokers,
        seen: SeenBrokers,
        on_growth: Callable[[], None],
    ) -> None:
        self._form = form
        self._on_growth = on_growth
        self.brokers = brokers
        """Those of the last image; of them no more is looked at than ``seen`` has."""
        self.seen = seen
        self._kept: dict[str, tuple[TopicImage, bytes]] = {}
        self.all_topics: AllTopics | None = None
        self.size = 0

    def part(self, topic: TopicImage) -> bytes:
        kept = self._kept.get(topic.name)
        if kept is not None:
            if kept[0] is topic:
                return kept[1]
            self.size -= _size(kept[1])
        part = encode_topic(self._shown(topic), self._form.version)
        self._kept[topic.name] = topic, part
        self.size += _size(part)
        self._on_growth()
        return part

    def keep_all(self, topics: AllTopics | None) -> None:
        if self.all_topics is not None:
            self.size -= _size(self.all_topics.body)
        self.all_topics = topics
        if topics is not None:
            self.size += _size(topics.body)
            self._on_growth()

    def forget(self, names: Iterable[str]) -> None:
        for name in names:
            kept = self._kept.pop(name, None)
            if kept is not None:
                self.size -= _size(kept[1])

    def _shown(self, topic: TopicImage) -> MetadataResponseTopic:
        version, listener_name = self._form
        partitions = []
        for index, partition in sorted(topic.partitions.items()):
            shown = show_partition(
                self.brokers,
                partition,
                listener_name,
                errors_of_version_0=version == 0,
                listener_errors=version >= _LISTENER_ERRORS,
            )
            partitions.append(
                MetadataResponsePartition(
                    error_code=shown.error,
                    partition_index=index,
                    leader_id=shown.leader,
                    leader_epoch=partition.leader_epoch,
                    replica_nodes=shown.replicas,
                    isr_nodes=shown.isr,
                    offline_replicas=shown.offline,
                )
            )
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=partitions,
        )


class MetadataParts:
    """All that is kept. ``applied`` only lets go: what is asked for is compared with the image."""

    __slots__ = ("_around", "_making", "_order", "_topics")

    def __init__(self) -> None:
        self._topics: dict[TopicForm, TopicParts] = {}
        """The oldest first."""
        self._around: dict[tuple[object, ...], tuple[Brokers, HeadAndTail]] = {}
        self._making: dict[TopicForm, Promise[AllTopics]] = {}
        self._order: list[str] = []
        """The names of all topics, as they were sorted last."""

    # One by one

    def topics(self, image: MetadataImage, form: TopicForm) -> TopicParts:
        found = self._topics.get(form)
        if found is not None and found.brokers is image.brokers:
            return found
        seen = seen_brokers(image.brokers, form.listener_name)
        if found is None or found.seen != seen:
            self._topics.pop(form, None)
            found = self._topics[form] = TopicParts(form, image.brokers, seen, self._bound)
        found.brokers = image.brokers
        return found

    def _bound(self) -> None:
        """Let go of the oldest if there is too much."""
        while self.size > BYTES_MAX:
            del self._topics[next(iter(self._topics))]

    @property
    def size(self) -> int:
        """How many bytes the parts of topics take."""
        return sum(parts.size for parts in self._topics.values())

    def applied(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """There is a new image: what is in it no more is kept no more."""
        for form, parts in list(self._topics.items()):
            if parts.brokers is not image.brokers:
                if parts.seen != seen_brokers(image.brokers, form.listener_name):
                    del self._topics[form]
                    continue
                parts.brokers = image.brokers
            if delta.topics:
                parts.keep_all(None)
                parts.forget(each.name for each in delta.topics.changed.values())
                parts.forget(each.name for each in delta.topics.deleted.values())

    def head_and_tail(
        self,
        image: MetadataImage,
        context: RequestContext,
        services: NodeServices,
        cluster_operations: int,
    ) -> HeadAndTail:
        version = context.version
        key = (
            version,
            context.listener_name,
            context.local_host,
            context.local_port,
            cluster_operations,
        )
        kept = self._around.get(key)
        if kept is not None and kept[0] is image.brokers:
            return kept[1]
        response = MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=a.node_id, host=a.host, port=a.port, rack=a.rack)
                for a in addresses(image, context, services)
            ],
            cluster_id=services.cluster_id,
            controller_id=some_alive_broker(image, services),
            cluster_authorized_operations=cluster_operations,
        )
        out = Writer()
        response.encode(out, version)
        # There are no topics: before the number of them is the head, behind it at most one part.
        tail = out.parts.pop() if version >= _CLUSTER_OPERATIONS else b""
        out.parts.pop()
        made = HeadAndTail(out.getvalue(), tail)
        if len(self._around) >= _HEADS_MAX:
            self._around.clear()
        self._around[key] = image.brokers, made
        return made

    # All of them

    def all_there(self, image: MetadataImage, form: TopicForm) -> AllTopics | None:
        """All topics of an image, if they were asked for before."""
        kept = self.topics(image, form).all_topics
        if kept is None or kept.image.topics is not image.topics:
            return None
        return AllTopics(image, kept.body)

    async def all_topics(
        self, form: TopicForm, metadata: ImageSource, scheduler: Scheduler
    ) -> AllTopics:
        asked = metadata.image
        while True:
            made = self.all_there(metadata.image, form)
            if made is not None:
                return made
            making = self._making.get(form)
            if making is None:
                making = run(scheduler.turn, self._make_all(metadata.image, form, scheduler))
                if not making.done:
                    self._making[form] = making
            made = await making
            if made.image.offset >= asked.offset:
                return made

    async def _make_all(
        self, image: MetadataImage, form: TopicForm, scheduler: Scheduler
    ) -> AllTopics:
        parts = self.topics(image, form)
        try:
            body = await in_turns(
                scheduler,
                parts.part,
                self.in_order(image.topics),
                at_once=PARTITIONS_AT_ONCE,
                weight=partition_count,
            )
        finally:
            self._making.pop(form, None)
        made = AllTopics(image, b"".join(body))
        parts.keep_all(made)
        return made

    def in_order(self, topics: TopicsImage) -> list[TopicImage]:
        """By their names. Most were in order before: what is sorted already is only looked at."""
        by_name = dict(topics.by_name.items())  # as such it is the fastest to look up in
        order = [name for name in self._order if name in by_name]
        if len(order) < len(by_name):
            known = set(order)
            order += [name for name in by_name if name not in known]
            order.sort()
        self._order = order
        return [by_name[name] for name in order]


def partition_count(topic: TopicImage | MetadataResponseTopic) -> int:
    """What a topic costs to show."""
    return len(topic.partitions) or 1


def encode_topic(topic: MetadataResponseTopic, version: int) -> bytes:
    out = Writer()
    MetadataResponseTopic.encode_array([topic], out, version)
    return out.getvalue()


def _size(part: bytes) -> int:
    return len(part) + _BYTES_BESIDES
