"""What may be done with settings: the topic's, the group's, and all else is the cluster's."""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.config.changes import Resource
from ottla.metadata.image import MetadataImage
from ottla.protocol.message import Message, Response
from ottla.requests.needs import Each, Need

_CLUSTERS: Final = frozenset({Resource.BROKER, Resource.CLIENT_METRICS})


class Configured(Protocol):
    """A resource as requests about settings name it."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Response)
I = TypeVar("I", bound=Configured)  # noqa: E741 - an item
J = TypeVar("J")


def each_of_its_kind(
    operation: AclOperation, items: Callable[[Q], list[I]], answers: Callable[[R], list[J]]
) -> list[Need[Q, R]]:
    """``operation`` is needed on each resource that the request names."""
    return [
        Each(operation, ResourceType.TOPIC, items, _topic, answers),
        Each(operation, ResourceType.GROUP, items, _group, answers),
        Each(operation, ResourceType.CLUSTER, items, _cluster, answers),
    ]


def each_logger(
    operation: AclOperation,
    items: Callable[[Q], list[I]],
    answers: Callable[[R], list[J]],
    *,
    at_controller: bool | None = None,
) -> Need[Q, R]:
    """``operation`` is needed on the cluster for the levels of a node's loggers."""
    return Each(
        operation, ResourceType.CLUSTER, items, _logger, answers, at_controller=at_controller
    )


def _topic(item: Configured, _image: MetadataImage) -> str | None:
    return item.resource_name if item.resource_type == Resource.TOPIC else None


def _group(item: Configured, _image: MetadataImage) -> str | None:
    return item.resource_name if item.resource_type == Resource.GROUP else None


def _cluster(item: Configured, _image: MetadataImage) -> str | None:
    return CLUSTER_NAME if item.resource_type in _CLUSTERS else None


def _logger(item: Configured, _image: MetadataImage) -> str | None:
    return CLUSTER_NAME if item.resource_type == Resource.BROKER_LOGGER else None
