"""More and more groups of one member each: their memory, and what a heartbeat or commit takes."""

import contextlib
import time
from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.groups import (
    COMMIT_VERSION,
    Member,
    commit,
    connect,
    rebalance,
    wait_for_coordinators,
)
from benchmarks.many import PATIENCE_SECONDS, create_topics
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds, resident_bytes

from ottla.client.connection import Connection
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.list_groups import ListGroupsRequest, ListGroupsResponse
from ottla.protocol.generated.offset_commit import OffsetCommitResponse

WAITS: Final = [f"waits-{number}" for number in range(20)]
"""Of all partitions that have groups, most likely."""
AT_ONCE: Final = 100
IDLE_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 6.0
TIMEOUT: Final = 60.0
SESSION_MS: Final = 1_800_000


def measure(groups: int) -> Point:
    found: Point = {}
    with fresh_broker() as broker:
        create_topics(broker, 1, 1)
        wait_for_coordinators(broker, "t0", *WAITS)
        bare = resident_bytes(broker.pid)
        with contextlib.closing(connect(broker)) as connection:
            spent = _Spent(broker, groups)
            members = [
                Member(connection, f"g{number}", session_ms=SESSION_MS) for number in range(groups)
            ]
            for member in members:
                rebalance([member], 1)
            found["join and sync, us of CPU"] = spent.us()
            found["memory, MB"] = (resident_bytes(broker.pid) - bare) / 1e6
            spent = _Spent(broker, groups)
            _commits(connection, members)
            found["one commit each, us of CPU"] = spent.us()
            spent = _Spent(broker, groups)
            _heartbeats(connection, members)
            found["one heartbeat each, us of CPU"] = spent.us()
            before = cpu_seconds(broker.pid)
            connection.send(ListGroupsRequest(), 4, TIMEOUT)
            listed = connection.receive(ListGroupsResponse, TIMEOUT).groups
            assert len(listed) >= groups
            found["list all, ms of CPU"] = (cpu_seconds(broker.pid) - before) * 1e3
        time.sleep(SETTLE_SECONDS)
        before = cpu_seconds(broker.pid)
        time.sleep(IDLE_SECONDS)
        found["idle, ms of CPU a second"] = (cpu_seconds(broker.pid) - before) / IDLE_SECONDS * 1e3
        broker.stop(timeout=PATIENCE_SECONDS)
        began = time.perf_counter()
        broker.start(timeout=PATIENCE_SECONDS)
        wait_for_coordinators(broker, "t0", *WAITS)
        found["start until all are loaded, s"] = time.perf_counter() - began
    return found


class _Spent:
    """The broker's time since this was made, for one of so many."""

    def __init__(self, broker: BrokerProcess, count: int) -> None:
        self._broker = broker
        self._count = count
        self._before = cpu_seconds(broker.pid)

    def us(self) -> float:
        return (cpu_seconds(self._broker.pid) - self._before) / self._count * 1e6


def _commits(connection: Connection, members: list[Member]) -> None:
    for first in range(0, len(members), AT_ONCE):
        some = members[first : first + AT_ONCE]
        for member in some:
            request = commit(member.group, "t0")
            request.member_id = member.member_id
            request.generation_id_or_member_epoch = member.generation
            connection.send(request, COMMIT_VERSION, TIMEOUT)
        for _ in some:
            answer = connection.receive(OffsetCommitResponse, TIMEOUT)
            assert answer.topics[0].partitions[0].error_code == 0, answer


def _heartbeats(connection: Connection, members: list[Member]) -> None:
    for first in range(0, len(members), AT_ONCE):
        some = members[first : first + AT_ONCE]
        for member in some:
            request = HeartbeatRequest(
                group_id=member.group, generation_id=member.generation, member_id=member.member_id
            )
            connection.send(request, 4, TIMEOUT)
        for _ in some:
            assert connection.receive(HeartbeatResponse, TIMEOUT).error_code == 0


CURVE: Final = Curve(
    name="groups",
    sizes=(100, 1_000, 3_000, 10_000),
    measure=measure,
    minutes=3,
)
