"""From a frame to its answer: header, version, handler, refusal. The only place that does this.

Produce and Fetch take their own way (:mod:`produce`, :mod:`fetch`): they work in the frame and
never make a coroutine. Every other API is decoded by the generated codec and handled by a coroutine
that is stepped at once and, unless it waits, never becomes anything more.

A request that raises an :class:`ApiError` is answered with its code where the response has one, by
the handler's own ``refuse`` where it has not. Anything else that is raised is our mistake: it is
logged, and the client hears UNKNOWN_SERVER_ERROR.

What is the controller's to do is done here when the controller of this process is the active one;
else the frame goes to the active one in an envelope, and its answer comes back as it is.
"""

from collections.abc import Callable, Coroutine
from importlib import import_module
from struct import Struct
from struct import error as StructError  # noqa: N812 - it is one
from typing import Any, Final, Protocol, cast

from ottla.common.buffers import Answer
from ottla.common.errors import (
    ApiError,
    ErrorCode,
    NotController,
    ProtocolViolation,
    UnsupportedVersion,
)
from ottla.common.promise import Promise, run
from ottla.handlers.context import ControllerServices, Peer, RequestContext, Services
from ottla.handlers.envelope import unseal
from ottla.handlers.framing import frame_response
from ottla.protocol.api import APIS, BROKER, CONTROLLER, ApiKey
from ottla.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.message import Message, from_buffer
from ottla.protocol.primitives import ITEMS_MAX
from ottla.protocol.produce_request import skip_tagged_fields

_HEADER = Struct(">hhih")
REQUEST_BYTES_MAX: Final = 16 << 20
"""For requests without records: of many tiny items, objects take many times the bytes."""
ENVELOPE_BYTES_MAX: Final = 64 * 1024
"""What is around a request on its way to the controller."""
_PRODUCE: Final = 0
_FETCH: Final = 1
_API_VERSIONS: Final = 18
_TURNS_MAX: Final = 10
"""How often the active controller may come and go while one request looks for it."""

HANDLERS: Final[dict[ApiKey, str]] = {
    ApiKey.PRODUCE: "produce",
    ApiKey.FETCH: "fetch",
    ApiKey.LIST_OFFSETS: "list_offsets",
    ApiKey.METADATA: "metadata",
    ApiKey.OFFSET_COMMIT: "offset_commit",
    ApiKey.OFFSET_FETCH: "offset_fetch",
    ApiKey.FIND_COORDINATOR: "find_coordinator",
    ApiKey.JOIN_GROUP: "join_group",
    ApiKey.HEARTBEAT: "heartbeat",
    ApiKey.LEAVE_GROUP: "leave_group",
    ApiKey.SYNC_GROUP: "sync_group",
    ApiKey.DESCRIBE_GROUPS: "describe_groups",
    ApiKey.LIST_GROUPS: "list_groups",
    ApiKey.API_VERSIONS: "api_versions",
    ApiKey.CREATE_TOPICS: "create_topics",
    ApiKey.DELETE_TOPICS: "delete_topics",
    ApiKey.DELETE_RECORDS: "delete_records",
    ApiKey.INIT_PRODUCER_ID: "init_producer_id",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "offset_for_leader_epoch",
    ApiKey.ADD_PARTITIONS_TO_TXN: "add_partitions_to_txn",
    ApiKey.ADD_OFFSETS_TO_TXN: "add_offsets_to_txn",
    ApiKey.END_TXN: "end_txn",
    ApiKey.WRITE_TXN_MARKERS: "write_txn_markers",
    ApiKey.TXN_OFFSET_COMMIT: "txn_offset_commit",
    ApiKey.DESCRIBE_CONFIGS: "describe_configs",
    ApiKey.ALTER_CONFIGS: "alter_configs",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "alter_replica_log_dirs",
    ApiKey.DESCRIBE_LOG_DIRS: "describe_log_dirs",
    ApiKey.CREATE_PARTITIONS: "create_partitions",
    ApiKey.DELETE_GROUPS: "delete_groups",
    ApiKey.ELECT_LEADERS: "elect_leaders",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "incremental_alter_configs",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "alter_partition_reassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "list_partition_reassignments",
    ApiKey.OFFSET_DELETE: "offset_delete",
    ApiKey.VOTE: "vote",
    ApiKey.BEGIN_QUORUM_EPOCH: "begin_quorum_epoch",
    ApiKey.END_QUORUM_EPOCH: "end_quorum_epoch",
    ApiKey.DESCRIBE_QUORUM: "describe_quorum",
    ApiKey.UPDATE_FEATURES: "update_features",
    ApiKey.FETCH_SNAPSHOT: "fetch_snapshot",
    ApiKey.DESCRIBE_CLUSTER: "describe_cluster",
    ApiKey.DESCRIBE_PRODUCERS: "describe_producers",
    ApiKey.DESCRIBE_TRANSACTIONS: "describe_transactions",
    ApiKey.UNREGISTER_BROKER: "unregister_broker",
    ApiKey.LIST_TRANSACTIONS: "list_transactions",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer_group_heartbeat",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "consumer_group_describe",
    ApiKey.LIST_CONFIG_RESOURCES: "list_config_resources",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "describe_topic_partitions",
    ApiKey.ADD_RAFT_VOTER: "add_raft_voter",
    ApiKey.REMOVE_RAFT_VOTER: "remove_raft_voter",
    ApiKey.UPDATE_RAFT_VOTER: "update_raft_voter",
    ApiKey.ALTER_PARTITION: "alter_partition",
    ApiKey.ENVELOPE: "envelope",
    ApiKey.BROKER_REGISTRATION: "broker_registration",
    ApiKey.BROKER_HEARTBEAT: "broker_heartbeat",
    ApiKey.ALLOCATE_PRODUCER_IDS: "allocate_producer_ids",
    ApiKey.CONTROLLER_REGISTRATION: "controller_registration",
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: "assign_replicas_to_dirs",
}
"""Every API that is served, with the module that serves it; imported at first use."""


CONTROLLER_HANDLERS: Final[dict[ApiKey, str]] = {
    **HANDLERS,
    ApiKey.FETCH: "fetch_metadata_log",
}
"""And for a listener of the controller, where a Fetch is the quorum's."""


_BY_BROKER_FIRST: Final = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
"""The broker does its part of these, and asks the controller for the rest itself."""
_TIMEOUT_UNUSED: Final = frozenset(
    {ApiKey.LIST_PARTITION_REASSIGNMENTS, ApiKey.UPDATE_FEATURES, ApiKey.ADD_RAFT_VOTER}
)
"""These have a timeout that the controller does not look at."""


def served(*, of_controller: bool) -> list[ApiKey]:
    """The APIs of a kind of listener."""
    listener = CONTROLLER if of_controller else BROKER
    return sorted(key for key in HANDLERS if listener in APIS[key].listeners)


Handle = Callable[[Any, RequestContext, Any], Coroutine[Any, None, Message]]
HotPath = Callable[[memoryview, int, int, int, Any, Peer], "Answer | Promise[Answer] | None"]
"""Frame, where its body begins, version, correlation id, services, who asks."""


class HandlerLog(Protocol):
    """Where mistakes of ours are told."""

    def exception(self, message: str, **fields: object) -> None: ...


class _Entry:
    """One API: its codec, its handler, its versions; loaded at its first request."""

    __slots__ = ("api", "handle", "highest", "lowest", "refuse", "request_class", "requests")

    def __init__(self, key: ApiKey, name: str) -> None:
        module = import_module(f"ottla.handlers.{name}")
        self.api = APIS[key]
        self.lowest: int = module.VERSIONS[0]
        self.highest: int = module.VERSIONS[1]
        self.handle: Handle | None = getattr(module, "handle", None)
        """None for an envelope: what is in it is handled."""
        self.refuse = getattr(module, "refuse", None)
        self.request_class = self.api.request_class()
        self.requests = 0


class Dispatcher:
    """Answers the frames of all connections of a kind of listener: brokers' or controllers'."""

    def __init__(self, services: Services | ControllerServices, log: HandlerLog) -> None:
        self._services = services
        of_controller = self._of_controller = isinstance(services, ControllerServices)
        self._served = served(of_controller=of_controller)
        self._log = log
        self._scheduler = services.scheduler
        self._entries: dict[int, _Entry] = {}
        if not of_controller:
            produce = import_module("ottla.handlers.produce")
            fetch = import_module("ottla.handlers.fetch")
            self._produce = cast("HotPath", produce.answer)
            self._fetch = cast("HotPath", fetch.answer)
        self.produce_requests = 0
        self.fetch_requests = 0

    def answer(self, peer: Peer, frame: memoryview) -> "Answer | Promise[Answer] | None":
        try:
            key, version, correlation_id, client_size = _HEADER.unpack_from(frame, 0)
        except StructError:
            raise ProtocolViolation(f"a request of {len(frame)} bytes") from None
        pos = 10 + client_size if client_size > 0 else 10
        if client_size < -1 or pos > len(frame):
            raise ProtocolViolation(f"a client id of {client_size} bytes")
        if self._of_controller:
            if len(frame) > REQUEST_BYTES_MAX + ENVELOPE_BYTES_MAX:
                raise ProtocolViolation(f"a request of {len(frame)} bytes to a controller")
            context = self._context(peer, frame, version, correlation_id, client_size)
            return self._answer_other(key, context, frame, pos)
        if key == _PRODUCE and 3 <= version <= 13:
            self.produce_requests += 1
            if version >= 9:
                pos = skip_tagged_fields(frame, pos)
            return self._produce(frame, pos, version, correlation_id, self._services, peer)
        if len(frame) > REQUEST_BYTES_MAX:
            raise ProtocolViolation(f"a request of {len(frame)} bytes that carries no records")
        if key == _FETCH and 4 <= version <= 18:
            self.fetch_requests += 1
            if version >= 12:
                pos = skip_tagged_fields(frame, pos)
            return self._fetch(frame, pos, version, correlation_id, self._services, peer)
        context = self._context(peer, frame, version, correlation_id, client_size)
        return self._answer_other(key, context, frame, pos)

    def _context(
        self, peer: Peer, frame: memoryview, version: int, correlation_id: int, client_size: int
    ) -> RequestContext:
        scheduler = self._scheduler
        client_id = None
        if client_size >= 0:
            try:
                client_id = str(frame[10 : 10 + client_size], "utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolViolation("a client id that is no text") from error
        return RequestContext(
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            peer=peer,
            now=scheduler.monotonic(),
            now_ms=scheduler.wall_ms(),
            of_controller=self._of_controller,
        )

    def _answer_other(
        self, key: int, context: RequestContext, frame: memoryview, pos: int
    ) -> "Answer | Promise[Answer]":
        entry = self._entry(key, context)
        if not entry.lowest <= context.version <= entry.highest:
            if key == _API_VERSIONS:
                return self._api_versions_of_another_age(entry, context)
            raise ProtocolViolation(f"{entry.api.name} in the unknown version {context.version}")
        entry.requests += 1
        if context.version >= entry.api.flexible_from:
            pos = skip_tagged_fields(frame, pos)
        # Bytes behind the request are not looked at, as in Kafka: librdkafka sends some.
        request, _ = from_buffer(entry.request_class, bytes(frame), pos, context.version, ITEMS_MAX)
        if isinstance(self._services, Services) and self._is_forwarded(entry):
            return _now_or_later(
                run(self._by_controller(self._services, entry, request, context, bytes(frame)))
            )
        if isinstance(request, EnvelopeRequest):
            opened = run(self._opened(request, context))
            return _now_or_later(opened)
        assert entry.handle is not None
        handled = run(entry.handle(request, context, self._services))
        if handled.done:
            return self._encode(entry, context, self._outcome(entry, request, handled))
        answer: Promise[Answer] = Promise()

        def settle(done: Promise[Message]) -> None:
            # Whatever goes wrong here concerns this client, not the one who kept the promise.
            try:
                framed = self._encode(entry, context, self._outcome(entry, request, done))
            except ProtocolViolation as violation:
                answer.fail(violation)
            else:
                answer.fulfil(framed)

        handled.when_done(settle)
        return answer

    def _entry(self, key: int, context: RequestContext) -> _Entry:
        entry = self._entries.get(key)
        if entry is None:
            if key in (_PRODUCE, _FETCH) and not self._of_controller:
                raise ProtocolViolation(
                    f"{ApiKey(key).name} in the unknown version {context.version}"
                )
            if key not in self._served:
                raise ProtocolViolation(f"a request of the unknown kind {key}")
            names = CONTROLLER_HANDLERS if self._of_controller else HANDLERS
            entry = self._entries[key] = _Entry(ApiKey(key), names[ApiKey(key)])
        return entry

    # The controller's business

    def _is_forwarded(self, entry: _Entry) -> bool:
        return entry.api.forwardable and entry.api.key not in _BY_BROKER_FIRST

    async def _by_controller(
        self,
        services: Services,
        entry: _Entry,
        request: Message,
        context: RequestContext,
        frame: bytes,
    ) -> Answer:
        """Ask the controller in this process, or, when another is active, that one."""
        timeout_ms: int | None = getattr(request, "timeout_ms", None)
        if entry.api.key in _TIMEOUT_UNUSED or (timeout_ms is not None and timeout_ms <= 0):
            timeout_ms = None  # what no time at all means, the controller says
        for _ in range(_TURNS_MAX):
            local = services.forwarding.local
            if local is not None:
                assert entry.handle is not None
                handled = run(entry.handle(request, context, local))
                if await _is_decided(handled):
                    return self._encode(entry, context, self._outcome(entry, request, handled))
            try:
                answered = await services.forwarding.forward(frame, context, timeout_ms)
            except NotController:
                continue  # it is here by now
            except ApiError as error:
                refusal = self._refusal(entry, request, error.code, error.message)
                return self._encode(entry, context, refusal)
            return len(answered).to_bytes(4, "big") + answered
        refusal = self._refusal(entry, request, ErrorCode.NOT_CONTROLLER, "")
        return self._encode(entry, context, refusal)

    async def _opened(self, envelope: EnvelopeRequest, context: RequestContext) -> Answer:
        """The answer to what is in an envelope, in an envelope."""
        response = EnvelopeResponse()
        try:
            response.response_data = await self._answer_enclosed(envelope, context)
        except ApiError as error:
            response.error_code = int(error.code)
        except ProtocolViolation:
            response.error_code = int(ErrorCode.INVALID_REQUEST)
        return self._encode(self._entries[ApiKey.ENVELOPE], context, response)

    async def _answer_enclosed(self, envelope: EnvelopeRequest, context: RequestContext) -> bytes:
        enclosed = unseal(envelope)
        entry = self._entry(enclosed.key, context)
        inner = RequestContext(
            version=enclosed.version,
            correlation_id=enclosed.correlation_id,
            client_id=enclosed.client_id,
            principal=enclosed.principal,
            now=context.now,
            now_ms=context.now_ms,
            of_controller=True,
        )
        inner.listener_name = context.listener_name
        inner.peer_host = enclosed.client_host
        if not entry.lowest <= enclosed.version <= entry.highest:
            raise UnsupportedVersion
        request, _ = from_buffer(
            entry.request_class,
            envelope.request_data,
            enclosed.body_at,
            enclosed.version,
            ITEMS_MAX,
        )
        assert entry.handle is not None
        handled = run(entry.handle(request, inner, self._services))
        if not await _is_decided(handled):
            raise NotController
        return self._encode(entry, inner, self._outcome(entry, request, handled))[4:]

    # Answers

    def _outcome(self, entry: _Entry, request: Message, handled: Promise[Message]) -> Message:
        try:
            return handled.result()
        except ApiError as refusal:
            return self._refusal(entry, request, refusal.code, refusal.message)
        except Exception:  # noqa: BLE001 - told below, and the answer says so
            # A mistake of ours: the client hears of it, and its other requests go on.
            self._log.exception("a request failed", api=entry.api.name)
            message = "The server experienced an unexpected error"
            return self._refusal(entry, request, ErrorCode.UNKNOWN_SERVER_ERROR, message)

    def _refusal(self, entry: _Entry, request: Message, code: ErrorCode, message: str) -> Message:
        if entry.refuse is not None:
            return cast("Message", entry.refuse(request, code, message))
        response = entry.api.response_class()()
        if not hasattr(response, "error_code"):
            raise ProtocolViolation(f"{entry.api.name} has no place for {code.name}")
        response.error_code = int(code)
        if hasattr(response, "error_message"):
            response.error_message = message or None
        return response

    def _api_versions_of_another_age(self, entry: _Entry, context: RequestContext) -> Answer:
        """A client of the future asks: answer in the form that every client reads."""
        context.version = 0
        module = import_module("ottla.handlers.api_versions")
        response = module.unsupported(self._services)
        return self._encode(entry, context, response)

    def _encode(self, entry: _Entry, context: RequestContext, response: Message) -> bytes:
        try:
            return frame_response(response, entry.api.key, context.version, context.correlation_id)
        except ValueError as error:
            # Our mistake; but a client that got no answer would wait, and all its others with it.
            self._log.exception("an answer has no form", api=entry.api.name)
            raise ProtocolViolation(f"{entry.api.name}: {error}") from error


async def _is_decided(handled: Promise[Message]) -> bool:
    """Wait for the outcome, whatever it is; false when another controller must be asked."""
    try:
        await handled
    except NotController:
        return False
    except Exception:  # noqa: BLE001 - it is looked at by who asks for the outcome
        return True
    return True


def _now_or_later(answer: Promise[Answer]) -> "Answer | Promise[Answer]":
    return answer.result() if answer.done else answer
