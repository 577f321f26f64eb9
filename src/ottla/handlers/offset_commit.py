"""OffsetCommit (key 8): a group writes down how far it has read.

Partitions that do not exist are refused one by one; the others go to the coordinator together.

v2 to v4 carry a retention time of their own; v3 adds the throttle time; v6 the leader epoch of the
offset; v7 the group instance id (static members, KIP-345); v8 is flexible; v9 may carry a member
epoch (KIP-848) and knows GROUP_ID_NOT_FOUND; v10 names topics by their ids. v5 only drops the
retention time.
"""

from collections.abc import Iterable
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.errors import ApiError, ErrorCode
from ottla.metadata.topics import TopicImage, TopicsImage
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.requests.context import RequestContext, Services
from ottla.requests.contract import Handler
from ottla.requests.needs import Each, Whole, group_id, its_name_or_id

TOPIC_IDS_FROM: Final = 10


async def handle(
    request: OffsetCommitRequest, context: RequestContext, services: Services
) -> OffsetCommitResponse:
    answers = _Answers()
    asked = request.topics
    request.topics = _known(asked, context.version, services.metadata.image.topics, answers)
    if request.topics:
        try:
            committed = await services.groups.commit_offsets(request, context.version)
        except ApiError as error:
            committed = refuse(request, error, context.version)
        for topic in committed.topics:
            answers.of(topic.name, topic.topic_id).partitions += topic.partitions
    return answers.response


def refuse(request: OffsetCommitRequest, error: ApiError, _version: int) -> OffsetCommitResponse:
    answers = _Answers()
    for topic in request.topics:
        answers.refuse(topic, topic.partitions, error.code)
    return answers.response


class _Answers:
    """The response, topic by topic in the order in which they were first spoken of."""

    def __init__(self) -> None:
        self.response = OffsetCommitResponse()
        self._topics: dict[tuple[str, bytes], OffsetCommitResponseTopic] = {}

    def of(self, name: str, topic_id: bytes) -> OffsetCommitResponseTopic:
        topic = self._topics.get((name, topic_id))
        if topic is None:
            topic = OffsetCommitResponseTopic(name=name, topic_id=topic_id)
            self._topics[name, topic_id] = topic
            self.response.topics.append(topic)
        return topic

    def refuse(
        self,
        topic: OffsetCommitRequestTopic,
        partitions: Iterable[OffsetCommitRequestPartition],
        code: ErrorCode,
    ) -> None:
        self.of(topic.name, topic.topic_id).partitions += [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code)
            for each in partitions
        ]


def _known(
    asked: list[OffsetCommitRequestTopic], version: int, topics: TopicsImage, answers: _Answers
) -> list[OffsetCommitRequestTopic]:
    """What exists of what is asked, with names and ids; the rest is refused in ``answers``."""
    known = []
    for topic in asked:
        image: TopicImage | None
        if version >= TOPIC_IDS_FROM:
            image = topics.by_id.get(topic.topic_id)
            if image is None:
                answers.refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_ID)
                continue
        else:
            image = topics.by_name.get(topic.name)
            if image is None:
                answers.refuse(topic, topic.partitions, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
        topic.name, topic.topic_id = image.name, image.topic_id
        present, missing = _split(topic.partitions, image)
        if missing:
            answers.refuse(topic, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            topic.partitions = present
        if topic.partitions:
            known.append(topic)
    return known


def _split(
    partitions: list[OffsetCommitRequestPartition], image: TopicImage
) -> tuple[list[OffsetCommitRequestPartition], list[OffsetCommitRequestPartition]]:
    """Those that exist, and those that do not."""
    present: list[OffsetCommitRequestPartition] = []
    missing: list[OffsetCommitRequestPartition] = []
    for partition in partitions:
        exists = partition.partition_index in image.partitions
        (present if exists else missing).append(partition)
    return present, missing


HANDLER: Final = Handler(
    OffsetCommitRequest,
    handle,
    refuse=refuse,
    needs=[
        Whole(AclOperation.READ, ResourceType.GROUP, group_id),
        Each(
            AclOperation.READ,
            ResourceType.TOPIC,
            lambda request: request.topics,
            its_name_or_id,
            lambda response: response.topics,
        ),
    ],
)
