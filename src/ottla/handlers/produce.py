"""Produce (key 0): append record batches to partitions. The hot path: all happens in the frame.

acks=0 gets no answer, acks=1 is answered when the leader wrote, acks=all (-1) when every in-sync
replica has it, or after the request's timeout with REQUEST_TIMED_OUT.

v3 is the first for record batches of magic 2; v4 KAFKA_STORAGE_ERROR; v5 log start offset; v7
zstd; v8 record errors and a message; v9 flexible; v10 current leader and endpoints (KIP-951);
v11 and v12 transactions of version 2 (KIP-890); v13 topic ids (KIP-516).
"""

from functools import partial
from typing import Final

from ottla.common.authorization import AclOperation, ResourceType
from ottla.common.buffers import Answer
from ottla.common.errors import ApiError
from ottla.common.promise import Promise
from ottla.protocol.generated.produce import ProduceRequest
from ottla.protocol.produce_request import ProduceView, read_produce_request
from ottla.protocol.produce_response import Appended, encode_appended
from ottla.records.batch import MAGIC, TRANSACTIONAL_BIT
from ottla.records.validation import ZSTD_FROM_PRODUCE_VERSION, refuse_zstd
from ottla.requests.acknowledged_produce import (
    Unacknowledged,
    finish_when_acknowledged,
    unacknowledged,
)
from ottla.requests.context import Peer, Services
from ottla.requests.contract import HotHandler, Quota
from ottla.requests.current_leaders import Leaders
from ottla.requests.hot_access import ProduceAccess
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.partitions import missing
from ottla.requests.produce_outcomes import (
    Outcomes,
    Refused,
    finish,
    is_one_batch,
    last_of_each,
    reason,
)
from ottla.requests.transactional_produce import Verified, when_verified

_MAGIC: Final = 16
_ATTRIBUTES: Final = 22
"""Where they stand in a batch; of the attributes, the lower byte."""


def answer(
    frame: memoryview,
    pos: int,
    version: int,
    correlation_id: int,
    services: Services,
    peer: Peer | None = None,
) -> Answer | Promise[Answer] | None:
    request = read_produce_request(frame, pos, version)
    denied: Outcomes | None = None
    if services.authorizer.enforces:
        denied = ProduceAccess(services, peer).take_denied(request, frame)
    if request.transactional_id is None:
        return _append(request, version, correlation_id, services, peer, denied, frame, None)
    append = partial(_append, request, version, correlation_id, services, peer, denied)
    return when_verified(request, frame, version, services, peer, append)


def _append(
    request: ProduceView,
    version: int,
    correlation_id: int,
    services: Services,
    peer: Peer | None,
    denied: Outcomes | None,
    frame: memoryview,
    verified: Verified | None,
) -> Answer | Promise[Answer] | None:
    """Append what may be, and tell what was ``denied``; without ``verified`` no transaction."""
    acks = request.acks
    now_ms = services.scheduler.wall_ms()
    replicas = services.replicas
    outcomes: Outcomes = [] if denied is None else denied
    unflushed: list[Unacknowledged] | None = None
    pending: list[Unacknowledged] | None = None
    refused = denied is not None
    for topic, partitions in request.topics:
        led = replicas.topic(topic)
        results: list[Appended | Refused] = []
        if len(partitions) > 1:
            partitions = last_of_each(partitions)
        for index, start, end in partitions:
            partition = None if led is None else led.get(index)
            if partition is None:
                partition = replicas.partition(topic, index)
            is_transactional = (
                end - start > _ATTRIBUTES
                and frame[start + _ATTRIBUTES] & TRANSACTIONAL_BIT != 0
                and frame[start + _MAGIC] == MAGIC
            )
            try:
                if (
                    partition is None
                    or not -1 <= acks <= 1
                    or start < 0
                    or (is_transactional and verified is None)
                ):
                    unknown = missing(services, topic, index) if partition is None else None
                    raise reason(request, unknown, start, version)
                if version < ZSTD_FROM_PRODUCE_VERSION:
                    refuse_zstd(frame, start, end, version)
                if is_transactional and verified is not None:
                    info = verified.append(partition, frame, start, end, acks, now_ms)
                else:
                    info = partition.append(frame, start, end, acks, now_ms)
                if info.is_flush_due:
                    unflushed = unflushed or []
                    unflushed.append(unacknowledged(partition, info, results))
                elif acks < 0 and partition.log.high_watermark <= info.last_offset:
                    pending = pending or []
                    pending.append(unacknowledged(partition, info, results))
                results.append((index, info.first_offset, info.append_time, info.log_start_offset))
            except ApiError as error:
                refused = True
                refusal = Refused(index, error, partition)
                refusal.is_one_batch = is_one_batch(frame, start, end)
                results.append(refusal)
        outcomes.append((topic, results))
    if not refused and acks and unflushed is None and pending is None:
        return encode_appended(correlation_id, version, outcomes)  # type: ignore[arg-type]
    finish_it = partial(finish, outcomes, request, version, correlation_id, Leaders(services, peer))
    if acks and (unflushed is not None or pending is not None):
        return finish_when_acknowledged(
            pending or [], unflushed or [], finish_it, services, request, refused=refused
        )
    return finish_it(refused=refused)


HANDLER: Final = HotHandler(
    ProduceRequest,
    answer,
    needs=[
        ByHandler(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, Effect.EACH),
        ByHandler(AclOperation.WRITE, ResourceType.TOPIC, Effect.EACH),
    ],
    quota=Quota.PRODUCE,
)
