"""OffsetFetch (key 9): how far groups have read.

A partition without an offset has -1 and no error. With no topics at all (null), everything that the
group has committed is meant.

v2 allows null topics and adds an error for the whole; v3 the throttle time; v5 the leader epoch;
v6 is flexible; v7 can wait for stable offsets (KIP-447); v8 asks for several groups, each with an
error of its own; v9 adds member id and epoch (KIP-848); v10 names topics by their ids. v4 is as v3.
In v1 an error stands with each partition.
"""

from functools import partial
from itertools import compress
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.identifiers import ZERO_UUID
from ottla.common.promise import Promise, run
from ottla.coordinator.group.records import OffsetAndMetadata
from ottla.coordinator.group.service import OffsetsAsked, OffsetsFound
from ottla.metadata.topics import TopicsImage
from ottla.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import ByHandler, Each, Effect, Whole, group_id
from ottla.requests.turns import of_names

NO_OFFSET: Final = -1
TOP_LEVEL_ERROR_FROM: Final = 2
SEVERAL_GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10


async def handle(
    request: OffsetFetchRequest, context: RequestContext, services: Services
) -> OffsetFetchResponse:
    groups = request.groups
    if context.version < SEVERAL_GROUPS_FROM:
        groups = [_only_group(request)]
    asked = [_Asked(group, context, services) for group in groups]
    topics = [(each, topic) for each in asked for topic in each.group.topics or ()]
    await of_names(context, services, lambda pair: pair[0].add(pair[1]), topics)
    # All at once: one that waits for its commit holds up nothing but the answer.
    under_way = await of_names(
        context,
        services,
        lambda each: each.fetch(require_stable=request.require_stable),
        asked,
        weight=lambda each: 1 + len(each.topics or ()),
    )
    answers = []
    for each, fetched in zip(asked, under_way, strict=True):
        try:
            answer = await each.answer(await fetched)
        except ApiError as error:
            answer = OffsetFetchResponseGroup(group_id=each.group.group_id, error_code=error.code)
        answers.append(answer)
    if context.version < SEVERAL_GROUPS_FROM:
        return _of_one_group(groups[0], answers[0], context.version)
    return OffsetFetchResponse(groups=answers)


def refuse(request: OffsetFetchRequest, error: ApiError, version: int) -> OffsetFetchResponse:
    if version < SEVERAL_GROUPS_FROM:
        only = _only_group(request)
        refused = OffsetFetchResponseGroup(group_id=only.group_id, error_code=error.code)
        return _of_one_group(only, refused, version)
    return OffsetFetchResponse(
        error_code=error.code,
        groups=[
            OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
            for group in request.groups
        ],
    )


class _Asked:
    """What is asked of one group, and what of it is refused."""

    __slots__ = ("_context", "_image", "_refused", "_services", "group", "topics")

    def __init__(
        self, group: OffsetFetchRequestGroup, context: RequestContext, services: Services
    ) -> None:
        self.group = group
        self.topics: OffsetsAsked | None = None if group.topics is None else []
        self._refused: list[OffsetFetchResponseTopics] = []
        self._context = context
        self._services = services
        self._image = services.metadata.image.topics

    def add(self, topic: OffsetFetchRequestTopics) -> None:
        name = _name_of(topic, self._context.version, self._image)
        if name is None:
            self._refused.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
        elif not self._may_describe(name):
            self._refused.append(_refused(topic, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        else:
            assert self.topics is not None
            image = self._image.by_name.get(name)
            topic_id = ZERO_UUID if image is None else image.topic_id
            self.topics.append((name, topic_id, topic.partition_indexes))

    def _may_describe(self, name: str, *, log_if_denied: bool = True) -> bool:
        describe, of_topic = AclOperation.DESCRIBE, ResourceType.TOPIC
        allows = self._services.authorizer.allows
        return allows(self._context, describe, of_topic, name, log_if_denied=log_if_denied)

    def fetch(self, *, require_stable: bool) -> Promise[OffsetsFound]:
        fetched = self._services.groups.fetch_offsets(
            self.group.group_id,
            self.topics,
            require_stable=require_stable,
            member_id=self.group.member_id,
            member_epoch=self.group.member_epoch,
        )
        return run(self._services.scheduler.turn, fetched)

    async def answer(self, found: OffsetsFound) -> OffsetFetchResponseGroup:
        if self.topics is None:
            found = await self._seen(found)
        return OffsetFetchResponseGroup(
            group_id=self.group.group_id, topics=_topics(found) + self._refused
        )

    async def _seen(self, found: OffsetsFound) -> OffsetsFound:
        """Of all that a group has committed, what the client may know of."""
        if self._services.authorizer.enforces:
            names = [name for name, _, _ in found]
            may = partial(self._may_describe, log_if_denied=False)
            found = list(compress(found, await of_names(self._context, self._services, may, names)))
        if self._context.version < TOPIC_IDS_FROM:
            return found
        return [
            (name, image.topic_id, partitions)
            for name, _, partitions in found
            if (image := self._image.by_name.get(name)) is not None
        ]


def _name_of(topic: OffsetFetchRequestTopics, version: int, topics: TopicsImage) -> str | None:
    if version < TOPIC_IDS_FROM:
        return topic.name
    image = topics.by_id.get(topic.topic_id)
    return None if image is None else image.name


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[_partition(each, code) for each in topic.partition_indexes],
    )


def _topics(found: OffsetsFound) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=topic_id,
            partitions=[_partition(index, offset) for index, offset in partitions],
        )
        for name, topic_id, partitions in found
    ]


def _partition(index: int, found: OffsetAndMetadata | ErrorCode) -> OffsetFetchResponsePartitions:
    if isinstance(found, ErrorCode):
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=NO_OFFSET, error_code=found
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
    )


# One group, as it was before version 8


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _of_one_group(
    asked: OffsetFetchRequestGroup, answer: OffsetFetchResponseGroup, version: int
) -> OffsetFetchResponse:
    if answer.error_code != ErrorCode.NONE and version < TOP_LEVEL_ERROR_FROM:
        code = ErrorCode(answer.error_code)
        answer.topics = [
            OffsetFetchResponseTopics(
                name=topic.name,
                partitions=[_partition(each, code) for each in topic.partition_indexes],
            )
            for topic in asked.topics or []
        ]
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=partition.partition_index,
                    committed_offset=partition.committed_offset,
                    committed_leader_epoch=partition.committed_leader_epoch,
                    metadata=partition.metadata,
                    error_code=partition.error_code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


HANDLER: Final = Handler(
    OffsetFetchRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(AclOperation.DESCRIBE, ResourceType.GROUP, group_id, until=SEVERAL_GROUPS_FROM - 1),
        Each(
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            lambda request: request.groups,
            lambda group, _: group.group_id,
            lambda response: response.groups,
            since=SEVERAL_GROUPS_FROM,
        ),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.EACH),
        ByHandler(AclOperation.DESCRIBE, ResourceType.TOPIC, Effect.HIDDEN),
    ],
)
