"""One group with more and more members, by the classic and by the new protocol (KIP-848)."""

import contextlib
import time
from dataclasses import dataclass, field
from typing import Final

from benchmarks.curves.broker import fresh_broker
from benchmarks.curves.curve import Curve, Point
from benchmarks.groups import Member, connect, rebalance, wait_for_coordinators
from benchmarks.many import create_topics
from tools.kafka_peer.broker_process import BrokerProcess, cpu_seconds

from ottla.client.connection import Connection
from ottla.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

TIMEOUT: Final = 300.0
ROUNDS_MAX: Final = 100
PAUSE_SECONDS: Final = 0.3
"""Assignments are made in turns, of which a group has one a second."""
AT_ONCE: Final = 100


def measure(members: int) -> Point:
    found: Point = {}
    with fresh_broker({"group.initial.rebalance.delay.ms": "5000"}) as broker:
        create_topics(broker, 1, members)
        wait_for_coordinators(broker, "t0", "classic", "any")
        with contextlib.ExitStack() as opened:
            found.update(_classic(broker, members, opened))
        found.update(_new(broker, members))
    return found


def _classic(broker: BrokerProcess, count: int, opened: contextlib.ExitStack) -> Point:
    """Each on a connection of its own: a join waits for the others, and what is behind it too."""
    members = [
        Member(opened.enter_context(contextlib.closing(connect(broker))), "classic")
        for _ in range(count)
    ]
    rebalance(members, 1)
    before = cpu_seconds(broker.pid)
    rebalance(members, 2)
    spent = cpu_seconds(broker.pid) - before
    return {
        "classic: one rebalance, s of CPU": spent,
        "classic: for one member, us": spent / count * 1e6,
    }


@dataclass(slots=True)
class _Consumer:
    member_id: str
    epoch: int = 0
    owned: list[ConsumerGroupHeartbeatRequestTopicPartitions] = field(default_factory=list)

    def request(self, *, joins: bool = False) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id="new", member_id=self.member_id, member_epoch=self.epoch
        )
        if joins:
            request.rebalance_timeout_ms = 300_000
            request.subscribed_topic_names = ["t0"]
        request.topic_partitions = self.owned
        return request

    def take(self, answer: ConsumerGroupHeartbeatResponse) -> None:
        assert answer.error_code == 0, (answer.error_code, answer.error_message)
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [
                ConsumerGroupHeartbeatRequestTopicPartitions(
                    topic_id=each.topic_id, partitions=list(each.partitions)
                )
                for each in answer.assignment.topic_partitions
            ]

    @property
    def count(self) -> int:
        return sum(len(each.partitions) for each in self.owned)


def _new(broker: BrokerProcess, count: int) -> Point:
    consumers = [_Consumer(f"member-{number:05}") for number in range(count)]
    with contextlib.closing(connect(broker)) as connection:
        before = cpu_seconds(broker.pid)
        _round(connection, consumers, joins=True)
        joined = cpu_seconds(broker.pid) - before
        rounds = 1
        while not all(each.count == 1 for each in consumers):
            assert rounds < ROUNDS_MAX, "the group does not settle"
            time.sleep(PAUSE_SECONDS)
            _round(connection, consumers)
            rounds += 1
        settled = cpu_seconds(broker.pid) - before
        before = cpu_seconds(broker.pid)
        _round(connection, consumers)
        steady = cpu_seconds(broker.pid) - before
    return {
        "new: all join, s of CPU": joined,
        "new: one join, us": joined / count * 1e6,
        "new: all have their part, s of CPU": settled,
        "new: heartbeats that takes": rounds,
        "new: a heartbeat then, us": steady / count * 1e6,
    }


def _round(connection: Connection, consumers: list[_Consumer], *, joins: bool = False) -> None:
    """One heartbeat of each."""
    for first in range(0, len(consumers), AT_ONCE):
        some = consumers[first : first + AT_ONCE]
        for each in some:
            connection.send(each.request(joins=joins), 1, TIMEOUT)
        for each in some:
            each.take(connection.receive(ConsumerGroupHeartbeatResponse, TIMEOUT))


CURVE: Final = Curve(
    name="members of one group",
    sizes=(100, 500, 1_000, 2_000),
    measure=measure,
    minutes=3,
)
