"""Metadata (key 3): which brokers there are, and who leads which partition.

Topics are asked for by name, or all of them: no list at all in v1 and above, an empty one in v0.
From v12 on also by topic id, and then by nothing else: names beside ids are not looked at. A topic
that is not there is made if the client and the broker both allow it; the answer does not wait for
it, the client asks again.

v1 racks, the controller and internal topics; v2 the cluster id; v3 and v6 throttle time; v4
auto-creation may be declined; v5 offline replicas; v6 LISTENER_NOT_FOUND; v7 leader epochs; v8
authorized operations; v9 flexible; v10 topic ids in the answer; v11 no more operations on the
cluster (DescribeCluster has them); v12 topic ids in the request (KIP-516); v13 an error code.
"""

from collections.abc import Callable, Coroutine, Generator, Sequence
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from ottla.common.authorization import CLUSTER_NAME, AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest
from ottla.common.identifiers import ZERO_UUID
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import TopicImage
from ottla.protocol.encoded import Encoded
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ottla.protocol.primitives import uvarint
from ottla.requests.authorized_operations import (
    NOT_ASKED,
    OPERATIONS_MAX,
    authorized_operations,
    on_cluster,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.metadata_parts import (
    PARTITIONS_AT_ONCE,
    AllTopics,
    TopicForm,
    encode_topic,
    partition_count,
)
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.topics import INTERNAL_TOPICS, distinct, reason_unknown
from ottla.requests.turns import NAMES_AT_ONCE, in_this_turn, in_turns, name_by_name

_Topic: TypeAlias = TopicImage | MetadataResponseTopic
"""One of the image, or one that is refused."""
_Finding: TypeAlias = Generator[None, None, list[_Topic]]
"""Yields behind each name."""
T = TypeVar("T", bound=_Topic)

_INT32: Final = Struct(">i")
_TOPIC_IDS: Final = 12
_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def handle(
    request: MetadataRequest, context: RequestContext, services: Services
) -> Encoded | Coroutine[object, None, Encoded]:
    asked = _asked_topics(request, context)
    if asked is None:
        return _all_topics(request, context, services)
    if any(topic.topic_id != ZERO_UUID for topic in asked):
        finding = _by_id(asked, context, services)
    else:
        finding = _by_name(asked, request, context, services)
    if len(asked) > NAMES_AT_ONCE:
        return _many_topics(finding, request, context, services)
    found = in_this_turn(finding)
    answer = _Answer(request, context, services)
    if len(found) > 1:
        return answer.in_turns(answer.part, found)
    return answer.of([answer.part(topic) for topic in found])


async def _many_topics(
    finding: _Finding, request: MetadataRequest, context: RequestContext, services: Services
) -> Encoded:
    found = await name_by_name(context, services, finding)
    answer = _Answer(request, context, services)
    return await answer.in_turns(answer.part, found)


def _all_topics(
    request: MetadataRequest, context: RequestContext, services: Services
) -> Encoded | Coroutine[object, None, Encoded]:
    """What everybody may see is made once for everybody."""
    answer = _Answer(request, context, services)
    parts = services.metadata_parts
    if services.authorizer.enforces or request.include_topic_authorized_operations:
        return answer.in_turns(answer.part_if_allowed, parts.in_order(answer.image.topics))
    made = parts.all_there(answer.image, answer.form)
    return answer.shared() if made is None else answer.of_all(made)


class _Answer:
    """How one answer is put together: parts of topics, and what is around them."""

    __slots__ = ("_context", "_request", "_services", "_topics", "form", "image")

    def __init__(
        self, request: MetadataRequest, context: RequestContext, services: Services
    ) -> None:
        self._request = request
        self._context = context
        self._services = services
        self.form = TopicForm(context.version, context.listener_name)
        self.image = services.metadata.image
        self._topics = services.metadata_parts.topics(self.image, self.form)

    def part(self, topic: _Topic) -> bytes:
        version = self._context.version
        if isinstance(topic, TopicImage):
            part = self._topics.part(topic)
        else:
            part = encode_topic(topic, version)
        if self._request.include_topic_authorized_operations and _may_be_told_of(topic):
            # They are at the end, before the tags if there are any.
            tags = part[-1:] if version >= MetadataResponse.FLEXIBLE_FROM else b""
            operations = authorized_operations(
                ResourceType.TOPIC, topic.name or "", self._context, self._services
            )
            part = part[: -4 - len(tags)] + _INT32.pack(operations) + tags
        return part

    def part_if_allowed(self, topic: TopicImage) -> bytes:
        """Nothing of a topic that the client may not know of."""
        may = _may_describe(topic.name, self._context, self._services, log_if_denied=False)
        return self.part(topic) if may else b""

    def of(self, parts: list[bytes]) -> Encoded:
        return Encoded([b"".join(self._around(self.image, len(parts), parts))])

    def of_all(self, topics: AllTopics) -> Encoded:
        image, body = topics
        return Encoded(self._around(image, len(image.topics), [body]))

    def _around(self, image: MetadataImage, count: int, parts: list[bytes]) -> list[bytes]:
        context, operations = self._context, NOT_ASKED
        if self._request.include_cluster_authorized_operations:
            operations = on_cluster(context, self._services)
        head, tail = self._services.metadata_parts.head_and_tail(
            image, context, self._services, operations
        )
        is_flexible = context.version >= MetadataResponse.FLEXIBLE_FROM
        size = uvarint(count + 1) if is_flexible else _INT32.pack(count)
        return [head + size, *parts, tail]

    async def shared(self) -> Encoded:
        services = self._services
        made = services.metadata_parts.all_topics(self.form, services.metadata, services.scheduler)
        return self.of_all(await made)

    async def in_turns(self, part: Callable[[T], bytes], topics: Sequence[T]) -> Encoded:
        at_once = PARTITIONS_AT_ONCE
        if self._request.include_topic_authorized_operations:
            at_once //= OPERATIONS_MAX
        parts = await in_turns(
            self._services.scheduler,
            part,
            topics,
            at_once=at_once,
            weight=partition_count,
        )
        return self.of([each for each in parts if each])


def _may_be_told_of(topic: _Topic) -> bool:
    if isinstance(topic, TopicImage):
        return True
    return topic.name is not None and topic.error_code != _DENIED


def _asked_topics(
    request: MetadataRequest, context: RequestContext
) -> list[MetadataRequestTopic] | None:
    """The topics that are asked for; None for all of them."""
    topics = request.topics
    if topics is None or (context.version == 0 and not topics):
        return None
    for topic in topics:
        if context.version < _TOPIC_IDS:
            if topic.name is None:
                raise InvalidRequest(f"Topic name can not be null for version {context.version}")
            if topic.topic_id != ZERO_UUID:
                raise InvalidRequest(
                    f"Topic IDs are not supported in requests for version {context.version}"
                )
    return topics


def _may_describe(
    name: str, context: RequestContext, services: Services, *, log_if_denied: bool = True
) -> bool:
    return services.authorizer.allows(
        context, AclOperation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=log_if_denied
    )


def _may_create(name: str, context: RequestContext, services: Services) -> bool:
    create, allows = AclOperation.CREATE, services.authorizer.allows
    return allows(context, create, ResourceType.CLUSTER, CLUSTER_NAME) or allows(
        context, create, ResourceType.TOPIC, name
    )


def _by_id(
    topics: list[MetadataRequestTopic], context: RequestContext, services: Services
) -> _Finding:
    by_id = services.metadata.image.topics.by_id
    unknown: list[_Topic] = []
    known: list[_Topic] = []
    for each in dict.fromkeys(topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID):
        topic = by_id.get(each)
        if topic is None:
            code = ErrorCode.UNKNOWN_TOPIC_ID
            unknown.append(MetadataResponseTopic(error_code=code, name=None, topic_id=each))
        elif _may_describe(topic.name, context, services):
            known.append(topic)
        else:
            known.append(MetadataResponseTopic(error_code=_DENIED, name=None, topic_id=each))
        yield
    return unknown + known


def _by_name(
    topics: list[MetadataRequestTopic],
    request: MetadataRequest,
    context: RequestContext,
    services: Services,
) -> _Finding:
    names: list[str] = []
    denied: list[str] = []
    for name in distinct(_name(topic) for topic in topics):
        (names if _may_describe(name, context, services) else denied).append(name)
        yield
    by_name = services.metadata.image.topics.by_name
    missing = [name for name in names if name not in by_name]
    if not missing and not denied:
        return [by_name[name] for name in names]
    errors: dict[str, int] = {}
    wanted: list[str] = []
    creates = request.allow_auto_topic_creation and services.config.auto_create_topics_enable
    for name in missing:
        errors[name] = reason_unknown(name)
        if creates and errors[name] != ErrorCode.INVALID_TOPIC_EXCEPTION:
            if _may_create(name, context, services):
                wanted.append(name)
            else:
                errors[name] = _DENIED
        yield
    if wanted:
        services.auto_topics.create(wanted, context)
        by_name = services.metadata.image.topics.by_name
    found: list[_Topic] = [by_name[name] for name in names if name in by_name]
    errors.update(dict.fromkeys(denied, _DENIED))
    for name in [*(each for each in missing if each not in by_name), *denied]:
        found.append(
            MetadataResponseTopic(
                error_code=errors[name], name=name, is_internal=name in INTERNAL_TOPICS
            )
        )
        yield
    return found


def _name(topic: MetadataRequestTopic) -> str:
    if topic.name is None:
        raise ApiError("neither a topic's name nor its id was given")
    return topic.name


def refuse(request: MetadataRequest, error: ApiError, _version: int) -> MetadataResponse:
    """Each topic that was asked for gets the error; v13 has it once more for all."""
    return MetadataResponse(
        controller_id=-1,
        error_code=error.code,
        topics=[
            MetadataResponseTopic(
                error_code=error.code, name=topic.name or "", topic_id=topic.topic_id
            )
            for topic in request.topics or ()
        ],
    )


HANDLER: Final = Handler(
    MetadataRequest,
    handle,
    refuse=refuse,
    needs=[
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.EACH),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN),
        ByHandler(
            AclOperation.CREATE,
            ResourceType.TOPIC,
            Effect.EACH,
            otherwise=((AclOperation.CREATE, ResourceType.CLUSTER),),
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.CLUSTER, Effect.HIDDEN, since=8, until=10),
    ],
)
