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
from ottla.common.promise import Promise, settle_with
from ottla.protocol.generated.produce import ProduceRequest
from ottla.protocol.produce_request import ProduceView, read_produce_request
from ottla.protocol.produce_response import Appended
from ottla.requests.context import Peer, Services
from ottla.requests.contract import HotHandler, Quota
from ottla.requests.hot_access import ProduceAccess
from ottla.requests.joint_produce import JointProduce
from ottla.requests.needs import ByHandler, Effect
from ottla.requests.produce_attempt import ProduceAttempt, is_transactional, told
from ottla.requests.produce_crowd import CrowdedProduce
from ottla.requests.produce_outcomes import Outcomes, Refused, last_of_each
from ottla.requests.transactional_produce import Verified, when_verified


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
    attempt = ProduceAttempt(request, version, correlation_id, services, peer, denied)
    acks = request.acks
    now_ms = services.scheduler.wall_ms()
    replicas = services.replicas
    for topic, partitions in request.topics:
        led = replicas.topic(topic)
        results: list[Appended | Refused] = []
        if len(partitions) > 1:
            partitions = last_of_each(partitions)
        for index, start, end in partitions:
            partition = None if led is None else led.get(index)
            if partition is None:
                partition = replicas.partition(topic, index)
            try:
                tried = attempt.checked(
                    partition,
                    topic,
                    index,
                    frame,
                    start,
                    end,
                    may_be_transactional=verified is not None,
                )
                if verified is not None and is_transactional(frame, start, end):
                    info = verified.append(tried, frame, start, end, acks, now_ms)
                else:
                    info = tried.append(frame, start, end, acks, now_ms)
                attempt.took(tried, info, results, len(results))
                results.append(told(index, info))
            except ApiError as error:
                results.append(attempt.refused(index, error, partition, frame, start, end))
        attempt.outcomes.append((topic, results))
    return attempt.answer()


def answer_together(requests: list[CrowdedProduce], services: Services) -> int:
    """Answer them in order, and write once to a partition; how many writes that saved."""
    joint = JointProduce(services)
    for produce in requests:
        try:
            request = read_produce_request(produce.frame, produce.pos, produce.version)
            if request.transactional_id is None:
                joint.take(produce, request)
                continue
            # It may have to wait, and is for one only; but those before it come before it.
            joint.append()
            answered = answer(
                produce.frame,
                produce.pos,
                produce.version,
                produce.correlation_id,
                services,
                produce.peer,
            )
        except Exception as error:  # noqa: BLE001 - it belongs to the connection
            produce.answer.fail(error)
        else:
            settle_with(produce.answer, answered)
    joint.append()
    return joint.saved


HANDLER: Final = HotHandler(
    ProduceRequest,
    answer,
    needs=[
        ByHandler(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, Effect.EACH),
        ByHandler(AclOperation.WRITE, ResourceType.TOPIC, Effect.EACH),
    ],
    quota=Quota.PRODUCE,
    answer_together=answer_together,
)
