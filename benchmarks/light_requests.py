"""Requests that write nothing: Metadata, ApiVersions, FindCoordinator, heartbeats of members."""

import contextlib
import time
from typing import Final

from benchmarks.groups import COORDINATOR_VERSION, coordinator_error, settled_member
from benchmarks.measures import CREATE, MEMORY_CONNECTIONS, Figures
from benchmarks.one_record import figures_of
from benchmarks.small_requests import Asking, ErrorCode, request_frame, requests_per_second
from tools.kafka_peer.broker_process import BrokerProcess, resident_bytes

from ottla.protocol.generated.api_versions import ApiVersionsRequest
from ottla.protocol.generated.find_coordinator import FindCoordinatorRequest
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.message import from_bytes

CONNECTIONS: Final = 4
IDLE_CONNECTIONS: Final = 5_000
METADATA_VERSION: Final = 12
API_VERSIONS_VERSION: Final = 3
HEARTBEAT_VERSION: Final = 4
_HEADER: Final = 5
"""A correlation id, and no tags."""


def _asked(broker: BrokerProcess, frame: bytes, code: ErrorCode, seconds: float) -> Figures:
    return figures_of(requests_per_second(broker, [frame] * CONNECTIONS, code, seconds=seconds))


def metadata(broker: BrokerProcess, topic: str | None, *, seconds: float) -> Figures:
    """Of one topic, or of all that there are."""
    return _asked(broker, metadata_frame(topic), metadata_error, seconds)


def metadata_frame(topic: str | None) -> bytes:
    asked = None if topic is None else [MetadataRequestTopic(name=topic)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    return request_frame(request, METADATA_VERSION)


def metadata_error(answer: bytes) -> int:
    topics = from_bytes(MetadataResponse, answer[_HEADER:], METADATA_VERSION).topics
    codes = [each.error_code for each in topics]
    codes += [part.error_code for each in topics for part in each.partitions]
    return max(codes)


def api_versions(broker: BrokerProcess, *, seconds: float) -> Figures:
    """As every client asks it first; the header of its answer has no tags."""
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    frame = request_frame(request, API_VERSIONS_VERSION)
    return _asked(broker, frame, lambda answer: int.from_bytes(answer[4:6], "big"), seconds)


def find_coordinator(broker: BrokerProcess, *, seconds: float) -> Figures:
    frame = request_frame(FindCoordinatorRequest(key="bench"), COORDINATOR_VERSION)

    return _asked(broker, frame, coordinator_error, seconds)


def heartbeats(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """Of one member of a classic group, again and again."""
    with settled_member(broker, topic, "heartbeats") as member:
        request = HeartbeatRequest(
            group_id=member.group, generation_id=member.generation, member_id=member.member_id
        )

        def code(answer: bytes) -> int:
            return from_bytes(HeartbeatResponse, answer[_HEADER:], HEARTBEAT_VERSION).error_code

        return _asked(broker, request_frame(request, HEARTBEAT_VERSION), code, seconds)


def idle_connections(broker: BrokerProcess, count: int = IDLE_CONNECTIONS) -> Figures:
    """Connections that have asked for ApiVersions and then are only there."""
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    frame = request_frame(request, API_VERSIONS_VERSION)
    before = resident_bytes(broker.pid)
    with contextlib.ExitStack() as opened:
        began = time.perf_counter()
        for _ in range(count):
            opened.enter_context(Asking(broker.port)).ask(frame)
        seconds = time.perf_counter() - began
        memory = (resident_bytes(broker.pid) - before) / 1e6
    return {"seconds": (seconds, CREATE), "memory": (memory, MEMORY_CONNECTIONS)}
