"""Topics that come to be because somebody asked for them.

A topic of a client is made with the broker's defaults; those that coordinators keep their state in
are made with settings of their own, so that a cluster has them from the first use on.

Rules:
1. What a client needs is asked for in its name: the controller looks at what that client may do.
   Internal topics are the broker's own business.
2. A name is asked for once at a time: requests that come meanwhile share the outcome.
3. Names under way are bounded; beyond that a client hears UNKNOWN_TOPIC_OR_PARTITION, and asks
   again.
"""

from collections.abc import Callable
from typing import Final, Protocol

from ottla.common.authorization import Client
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise, fulfilled
from ottla.common.turn import Turn
from ottla.config.broker import BrokerConfig
from ottla.config.metadata_topic import (
    REMOTE_LOG_METADATA,
    metadata_topic_key,
    metadata_topic_setting,
)
from ottla.metadata.image import MetadataImage
from ottla.observability.logging import logger
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.requests.context import MetadataSource
from ottla.requests.topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE

log = logger(__name__)

UNDER_WAY_MAX: Final = 1_000
INTERNAL: Final = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
    SHARE_GROUP_STATE: "share.coordinator.state.topic.replication.factor",
    REMOTE_LOG_METADATA: "",  # behind a prefix of its own
}
"""Topics that a node makes for itself, and what says how many replicas they have."""


class TopicCreator(Protocol):
    """The controller, as far as new topics are concerned."""

    def submit(
        self, request: CreateTopicsRequest, client: Client | None = None
    ) -> Promise[CreateTopicsResponse]: ...


class ControllerAutoTopics:
    """See the module. ``config`` gives the broker's settings as they are now."""

    def __init__(
        self,
        controller: TopicCreator,
        metadata: MetadataSource,
        config: Callable[[], BrokerConfig],
        is_alone: Callable[[], bool],
        turn: Turn,
    ) -> None:
        """``is_alone`` says whether this node is its whole cluster."""
        self._is_alone = is_alone
        self._alone_told = False
        self._controller = controller
        self._metadata = metadata
        self._config = config
        self._turn = turn
        self._under_way: dict[str, Promise[int]] = {}

    def create(self, names: list[str], client: Client) -> Promise[dict[str, int]]:
        """Ask the controller, for ``client``; a code for each topic, NONE when it is there."""
        asked = self._ask([name for name in names if name not in self._under_way], client)
        outcomes: dict[str, int] = {}
        answer: Promise[dict[str, int]] = Promise(self._turn)

        def note(name: str, code: int) -> None:
            outcomes[name] = code
            if len(outcomes) == len(wanted):
                answer.fulfil(outcomes)

        wanted = dict.fromkeys(names)
        promises = {name: asked.get(name) or self._promise(name) for name in wanted}
        if not promises:
            return fulfilled(self._turn, {})
        for name, promise in promises.items():
            promise.when_done(lambda done, name=name: note(name, done.result()))  # type: ignore[misc]
        return answer

    def ensure_internal(self, name: str) -> Promise[int]:
        """See that a topic exists; answers an error code, NONE when it is there."""
        if name in self._metadata.image.topics.by_name:
            return fulfilled(self._turn, int(ErrorCode.NONE))
        asked = {} if name in self._under_way else self._ask([name], None)
        return asked.get(name) or self._promise(name)

    def _promise(self, name: str) -> Promise[int]:
        """What becomes of a name: under way, there already, or not to be had now."""
        promise = self._under_way.get(name)
        if promise is not None:
            return promise
        exists = name in self._metadata.image.topics.by_name
        return fulfilled(
            self._turn, int(ErrorCode.NONE if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        )

    def _ask(self, names: list[str], client: Client | None) -> dict[str, Promise[int]]:
        """Begin to make topics; a refusal may come before this returns."""
        names = list(dict.fromkeys(names))[: UNDER_WAY_MAX - len(self._under_way)]
        if not names:
            return {}
        config = self._config()
        asked: dict[str, Promise[int]] = {}
        topics = []
        for name in names:
            try:
                topics.append(self._new_topic(name, config))
            except ApiError as error:
                log.error("a topic cannot be made", topic=name, reason=error.message)
                asked[name] = fulfilled(self._turn, int(error.code))
            else:
                asked[name] = self._under_way[name] = Promise(self._turn)
        if topics:
            request = CreateTopicsRequest(topics=topics, timeout_ms=config.request_timeout_ms)
            wanted = [topic.name for topic in topics]
            created = self._controller.submit(request, client)
            created.when_done(lambda done: self._made(wanted, done))
        return asked

    def _new_topic(self, name: str, config: BrokerConfig) -> CreatableTopic:
        alone = name in INTERNAL and self._is_alone()
        topic = new_topic(name, config, alone=alone)
        if alone and topic.replication_factor != _size(name, config)[1] and not self._alone_told:
            self._alone_told = True
            log.info(
                "internal topics have one replica: this node is the whole cluster",
                topic=name,
                setting=_replication_key(name, config),
            )
        return topic

    def _made(self, names: list[str], answered: Promise[CreateTopicsResponse]) -> None:
        codes: dict[str, int] = {}
        other: int = ErrorCode.UNKNOWN_SERVER_ERROR
        try:
            codes = {topic.name: topic.error_code for topic in answered.result().topics}
        except ApiError as error:
            other = error.code
        except Exception:
            # A mistake of ours; requests that wait for the name are told all the same.
            log.exception("topics were not made", topics=len(names))
        for name in names:
            code = codes.get(name, other)
            if code == ErrorCode.TOPIC_ALREADY_EXISTS:
                code = ErrorCode.NONE
            self._under_way.pop(name).fulfil(int(code))


def is_alone(config: BrokerConfig, voters: list[int], image: MetadataImage) -> bool:
    """Whether this machine was formatted standalone, and no other has joined it.

    Replicas on processes of one machine would be lost together, so that one is as good as more.
    Before it is registered itself, a node does not know of others.
    """
    machine = {config.node_id, *map(int, config.ottla_processes_nodes)}
    first = int(config.ottla_processes_nodes[0]) if config.ottla_processes_nodes else config.node_id
    is_standalone = config.is_controller or first != config.node_id
    if not is_standalone or config.controller_quorum_voters:
        return False
    return voters == [first] and config.node_id in image.brokers and machine >= set(image.brokers)


def new_topic(name: str, config: BrokerConfig, *, alone: bool = False) -> CreatableTopic:
    """A topic as it is made when nobody says how.

    A node that is ``alone`` gives internal topics one replica, unless its file says how many. Their
    minimum ISR stays: it holds as soon as there are more replicas, and does not hinder one.
    """
    partitions, replicas = _size(name, config)
    settings = internal_settings(name, config)
    if alone and _replication_key(name, config) not in config.originals:
        replicas = 1
        settings |= _of_one_replica(name)
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )


def _size(name: str, config: BrokerConfig) -> tuple[int, int]:
    """How many partitions, and of how many replicas."""
    if name == CONSUMER_OFFSETS:
        return config.offsets_topic_num_partitions, config.offsets_topic_replication_factor
    if name == TRANSACTION_STATE:
        return (
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
        )
    if name == SHARE_GROUP_STATE:
        return (
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
        )
    if name == REMOTE_LOG_METADATA:
        return (
            metadata_topic_setting(config, "topic.num.partitions"),
            metadata_topic_setting(config, "topic.replication.factor"),
        )
    return config.num_partitions, config.default_replication_factor


def _replication_key(name: str, config: BrokerConfig) -> str:
    if name == REMOTE_LOG_METADATA:
        return metadata_topic_key(config, "topic.replication.factor")
    return INTERNAL[name]


def _of_one_replica(name: str) -> dict[str, str]:
    """The only copy of a record must be on disk before a segment goes because of it."""
    return {"flush.messages": "1"} if name == REMOTE_LOG_METADATA else {}


def internal_settings(name: str, config: BrokerConfig) -> dict[str, str]:
    """What a coordinator's topic must be, whatever the broker's defaults are; else nothing."""
    if name == CONSUMER_OFFSETS:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
    if name == TRANSACTION_STATE:
        return {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        }
    if name == SHARE_GROUP_STATE:
        return {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
            "retention.ms": "-1",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
        }
    if name == REMOTE_LOG_METADATA:
        replicas = metadata_topic_setting(config, "topic.replication.factor")
        min_isr = metadata_topic_setting(config, "topic.min.isr")
        return {
            "cleanup.policy": "delete",
            **(_of_one_replica(name) if replicas == 1 else {}),
            "min.insync.replicas": str(max(1, min(min_isr, replicas))),
            "remote.storage.enable": "false",
            "retention.ms": str(metadata_topic_setting(config, "topic.retention.ms")),
        }
    return {}
