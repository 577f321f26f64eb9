"""What a client must be allowed before its request is handled, said as data, as Kafka's table does.

An API lists its needs in its :class:`~ottla.requests.contract.Handler`. A need is an operation on
resources of a type, and what becomes of those that the client may not touch:

- :class:`Whole`: the request is refused.
- :class:`Each`: what was named is taken out of the request and refused beside the others' answers.
- :class:`Hidden`: what is in the answer is left out of it, without a word.
- :class:`ByHandler`: one of these, but only the handler knows where; it asks for itself.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from itertools import compress
from operator import not_
from typing import Final, Generic, Protocol, TypeVar

from ottla.common.authorization import (
    CLUSTER_NAME,
    AclOperation,
    Authorizer,
    ResourceType,
)
from ottla.common.errors import (
    ApiError,
    ClusterAuthorizationFailed,
    DelegationTokenAuthorizationFailed,
    GroupAuthorizationFailed,
    TopicAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
)
from ottla.metadata.image import MetadataImage
from ottla.protocol.message import Message, Response
from ottla.requests.context import NodeServices, RequestContext
from ottla.requests.turns import of_names

Q_contra = TypeVar("Q_contra", bound=Message, contravariant=True)
R_contra = TypeVar("R_contra", bound=Response, contravariant=True)
I = TypeVar("I")  # noqa: E741 - an item
J = TypeVar("J")

VERSION_MAX: Final = 32_767
Other = tuple[AclOperation, ResourceType]
"""What does as well: the cluster's, or with any resource of the type."""

_REFUSALS: Final[dict[ResourceType, tuple[type[ApiError], str]]] = {
    ResourceType.TOPIC: (TopicAuthorizationFailed, "Topic"),
    ResourceType.GROUP: (GroupAuthorizationFailed, "Group"),
    ResourceType.CLUSTER: (ClusterAuthorizationFailed, "Cluster"),
    ResourceType.TRANSACTIONAL_ID: (TransactionalIdAuthorizationFailed, "Transactional Id"),
    ResourceType.DELEGATION_TOKEN: (DelegationTokenAuthorizationFailed, "Delegation Token"),
    ResourceType.USER: (DelegationTokenAuthorizationFailed, "Delegation Token"),
}
"""And the word for it in what people read, which is Kafka's."""


class Effect(Enum):
    """What becomes of what is not allowed."""

    WHOLE = "the request is refused"
    EACH = "each is refused"
    HIDDEN = "it is left out of the answer"


class Need(Generic[Q_contra, R_contra]):
    """An operation on resources of a type; in versions ``since`` to ``until``."""

    effect: Effect

    def __init__(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        *,
        otherwise: tuple[Other, ...] = (),
        since: int = 0,
        until: int = VERSION_MAX,
        at_controller: bool | None = None,
    ) -> None:
        """``at_controller`` tells which listeners have this need, if not both kinds."""
        self.operation = operation
        self.resource_type = resource_type
        self.otherwise = otherwise
        self.since = since
        self.until = until
        self.at_controller = at_controller

    def refusal(self) -> ApiError:
        error, word = _REFUSALS[self.resource_type]
        return error(f"{word} authorization failed.")

    def allows(self, name: str, context: RequestContext, authorizer: Authorizer) -> bool:
        if authorizer.allows(context, self.operation, self.resource_type, name):
            return True
        return self._allows_otherwise(context, authorizer)

    def _allows_otherwise(self, context: RequestContext, authorizer: Authorizer) -> bool:
        return any(_allows_other(other, context, authorizer) for other in self.otherwise)

    def applies(self, context: RequestContext) -> bool:
        if self.at_controller is not None and self.at_controller != context.of_controller:
            return False
        return self.since <= context.version <= self.until


def _allows_other(other: Other, context: RequestContext, authorizer: Authorizer) -> bool:
    operation, resource_type = other
    if resource_type is ResourceType.CLUSTER:
        return authorizer.allows(context, operation, resource_type, CLUSTER_NAME)
    return authorizer.allows_any(context, operation, resource_type)


_CLUSTER: Final = (CLUSTER_NAME,)


def the_cluster(_request: object) -> Collection[str]:
    return _CLUSTER


class Whole(Need[Q_contra, Response]):
    """All of ``names`` must be allowed, or nothing is done. By default it is the cluster."""

    effect = Effect.WHOLE

    def __init__(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Callable[[Q_contra], Collection[str]] = the_cluster,
        *,
        otherwise: tuple[Other, ...] = (),
        since: int = 0,
        until: int = VERSION_MAX,
        at_controller: bool | None = None,
    ) -> None:
        super().__init__(
            operation,
            resource_type,
            otherwise=otherwise,
            since=since,
            until=until,
            at_controller=at_controller,
        )
        self.names = names

    def check(self, name: str, context: RequestContext, authorizer: Authorizer) -> None:
        """Raise the refusal, if one of the names is not allowed."""
        if not self.allows(name, context, authorizer):
            raise self.refusal()


class Each(Need[Q_contra, R_contra], Generic[Q_contra, R_contra, I, J]):
    """Those of ``items`` that are not allowed are refused, by name, among the ``answers``.

    ``name`` is None for what this need is not about, and for a topic id that is not known.
    ``refuse`` is for an API that refuses the whole in another way.
    """

    effect = Effect.EACH

    def __init__(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        items: Callable[[Q_contra], list[I]],
        name: Callable[[I, MetadataImage], str | None],
        answers: Callable[[R_contra], list[J]],
        *,
        refuse: Callable[[Q_contra, ApiError, int], R_contra] | None = None,
        otherwise: tuple[Other, ...] = (),
        since: int = 0,
        until: int = VERSION_MAX,
        at_controller: bool | None = None,
    ) -> None:
        super().__init__(
            operation,
            resource_type,
            otherwise=otherwise,
            since=since,
            until=until,
            at_controller=at_controller,
        )
        self.items = items
        self._name = name
        self._answers = answers
        self._refuse = refuse

    def is_denied(self, item: I, context: RequestContext, services: NodeServices) -> bool:
        name = self._name(item, services.metadata.image)
        return name is not None and not self.allows(name, context, services.authorizer)

    def take_denied(
        self,
        request: Q_contra,
        context: RequestContext,
        are_denied: Sequence[bool],
        refuse: Callable[[Q_contra, ApiError, int], R_contra],
    ) -> Callable[[R_contra], None] | None:
        """Take out of ``request`` what is denied; return what adds the refusal to the response.

        ``are_denied`` says it of each item. None when nothing is.
        """
        if True not in are_denied:
            return None
        items = self.items(request)
        denied = list(compress(items, are_denied))
        allowed = list(compress(items, map(not_, are_denied)))
        items[:] = denied
        refused = (self._refuse or refuse)(request, self.refusal(), context.version)
        items[:] = allowed
        return lambda response: self._answers(response).extend(self._answers(refused))


class Hidden(Need[Message, R_contra], Generic[R_contra, J]):
    """Those of the answer's ``lists`` that are not allowed are left out."""

    effect = Effect.HIDDEN

    def __init__(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        lists: Callable[[R_contra], Iterable[list[J]]],
        name: Callable[[J], str],
        *,
        otherwise: tuple[Other, ...] = (),
    ) -> None:
        super().__init__(operation, resource_type, otherwise=otherwise)
        self._lists = lists
        self._name = name

    async def hide(
        self, response: R_contra, context: RequestContext, services: NodeServices
    ) -> None:
        authorizer = services.authorizer
        if not authorizer.enforces or self._allows_otherwise(context, authorizer):
            return
        may, operation, resource_type = authorizer.allows, self.operation, self.resource_type

        def is_seen(item: J) -> bool:
            return may(context, operation, resource_type, self._name(item), log_if_denied=False)

        for items in self._lists(response):
            items[:] = compress(items, await of_names(context, services, is_seen, items))


class ByHandler(Need[Message, Response]):
    """What the handler asks for itself, with ``effect`` for what is not allowed."""

    def __init__(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        effect: Effect,
        *,
        otherwise: tuple[Other, ...] = (),
        since: int = 0,
        until: int = VERSION_MAX,
    ) -> None:
        super().__init__(operation, resource_type, otherwise=otherwise, since=since, until=until)
        self.effect = effect


# Names that many requests have


class _OfGroup(Protocol):
    @property
    def group_id(self) -> str: ...


class _OfTransaction(Protocol):
    @property
    def transactional_id(self) -> str: ...


def group_id(request: _OfGroup) -> Collection[str]:
    return (request.group_id,)


def transactional_id(request: _OfTransaction) -> Collection[str]:
    return (request.transactional_id,)


def itself(name: str, _image: MetadataImage) -> str:
    """For items that are names."""
    return name


class _Named(Protocol):
    @property
    def name(self) -> str: ...


def its_name(item: _Named, _image: MetadataImage) -> str:
    return item.name


class _ByTopic(Protocol):
    @property
    def topic(self) -> str: ...


def its_topic(item: _ByTopic, _image: MetadataImage) -> str:
    return item.topic


class _NamedOrById(Protocol):
    @property
    def name(self) -> str | None: ...

    @property
    def topic_id(self) -> bytes: ...


def its_name_or_id(item: _NamedOrById, image: MetadataImage) -> str | None:
    """The name of a topic that may be given by its id; None when nobody knows that."""
    if item.name:
        return item.name
    topic = image.topics.by_id.get(item.topic_id)
    return None if topic is None else topic.name
