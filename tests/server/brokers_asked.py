"""The way to other brokers, of which a test decides what comes back."""

from typing import Any, NamedTuple, TypeVar

from tests.turns import TURN

from ottla.common.promise import Promise
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import PartitionImage, TopicImage, TopicsImage
from ottla.protocol.message import Message, Request, Response

R = TypeVar("R", bound=Response)


class Asked(NamedTuple):
    node_id: int
    request: Message
    answer: Promise[Any]


class BrokersAsked:
    """Keeps every request until the test answers it, or cuts the connection."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def send(self, node_id: int, request: Request[R]) -> Promise[R]:
        answer: Promise[R] = Promise(TURN)
        self.asked.append(Asked(node_id, request, answer))
        return answer

    def take(self, node_id: int) -> Asked:
        """The oldest request to a broker, which is no longer kept."""
        found = next(each for each in self.asked if each.node_id == node_id)
        self.asked.remove(found)
        return found

    def cut(self, node_id: int) -> None:
        self.take(node_id).answer.fail(ConnectionResetError("cut"))


class Metadata:
    """An image of topics whose leaders the test names."""

    def __init__(self, node_ids: range = range(1, 4)) -> None:
        brokers = {node_id: _broker(node_id) for node_id in node_ids}
        self.image = MetadataImage(brokers=brokers)

    def put(self, topic: str, *leaders: int) -> None:
        """Create a topic, or say who leads its partitions now."""
        partitions = {
            index: PartitionImage((1, 2, 3), (1, 2, 3), leader, 0, 0, (bytes(16),) * 3)
            for index, leader in enumerate(leaders)
        }
        image = TopicImage(topic, topic.encode().ljust(16, b"_")[:16], partitions)
        self._with({**self.image.topics.by_name, topic: image})

    def remove(self, topic: str) -> None:
        self._with({name: t for name, t in self.image.topics.by_name.items() if name != topic})

    def fence(self, node_id: int) -> None:
        broker = self.image.brokers[node_id]._replace(fenced=True)
        self.image = MetadataImage(
            brokers={**self.image.brokers, node_id: broker}, topics=self.image.topics
        )

    def _with(self, topics: dict[str, TopicImage]) -> None:
        by_id = {topic.topic_id: topic for topic in topics.values()}
        self.image = MetadataImage(brokers=self.image.brokers, topics=TopicsImage(topics, by_id))


def _broker(node_id: int) -> BrokerImage:
    return BrokerImage(
        node_id=node_id,
        epoch=7,
        incarnation_id=bytes(16),
        listeners={},
        features={},
        rack=None,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
    )
