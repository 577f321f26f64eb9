"""Groups and transactions: how many of each a broker takes, and what they cost it."""

import contextlib
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Final

from benchmarks.measures import (
    CLIENT_PER_REQUEST,
    CPU_PER_REQUEST,
    JOINS,
    MEMORY_GROUPS,
    REQUESTS,
    TAKEOVER,
    TRANSACTIONS,
    Figures,
)
from benchmarks.small_requests import Asking, request_frame, requests_per_second
from confluent_kafka import Consumer, Producer
from tools.kafka_peer.broker_process import BrokerProcess, resident_bytes

from ottla.client.connection import Address, Connection
from ottla.common.errors import ErrorCode
from ottla.protocol.generated.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.protocol.generated.find_coordinator import FindCoordinatorRequest
from ottla.protocol.generated.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from ottla.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.protocol.generated.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from ottla.protocol.message import to_bytes

CONNECTIONS: Final = 4
MEMBERS: Final = 200
GROUPS: Final = 10_000
SESSION_MS: Final = 6_000
RECORDS_PER_TRANSACTION: Final = 10
TIMEOUT: Final = 60.0
COMMIT_VERSION: Final = 8
COORDINATOR_VERSION: Final = 3
JOIN_VERSION: Final = 7
SYNC_VERSION: Final = 5


# Offsets


def commit(group: str, topic: str, offset: int = 1) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    )


def commit_error(answer: bytes) -> int:
    """After the correlation id, tags, throttle time, one topic with its name, one partition."""
    name_size = answer[10] - 1
    (error,) = struct.unpack_from(">h", answer, 11 + name_size + 1 + 4)
    return int(error)


def offset_commits(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """Commits of one offset each, by four groups without members."""
    frames = [
        request_frame(commit(f"commits-{number}", topic), COMMIT_VERSION)
        for number in range(CONNECTIONS)
    ]
    rate = requests_per_second(broker, frames, commit_error, seconds=seconds)
    return {
        "commits": (rate.requests, REQUESTS),
        "cpu": (rate.broker_us, CPU_PER_REQUEST),
        "client": (rate.client_us, CLIENT_PER_REQUEST),
    }


def memory_of_groups(broker: BrokerProcess, topic: str) -> Figures:
    """What a broker's memory grows by for 10,000 groups with one committed offset each."""
    before = resident_bytes(broker.pid)
    with contextlib.closing(connect(broker)) as connection:
        for first in range(0, GROUPS, 100):
            for number in range(first, first + 100):
                connection.send(commit(f"many-{number}", topic), COMMIT_VERSION, TIMEOUT)
            for _ in range(100):
                answer = connection.receive(OffsetCommitResponse, TIMEOUT)
                assert answer.topics[0].partitions[0].error_code == 0
    return {"memory": ((resident_bytes(broker.pid) - before) / 1e6, MEMORY_GROUPS)}


def wait_for_coordinators(broker: BrokerProcess, topic: str, *groups: str) -> None:
    """Until each of them is found, as clients do first, and takes a commit."""
    with Asking(broker.port) as asking:
        for group in groups:
            found = request_frame(FindCoordinatorRequest(key=group), COORDINATOR_VERSION)
            asking.until_taken(found, coordinator_error)
            asking.until_taken(request_frame(commit(group, topic), COMMIT_VERSION), commit_error)


def coordinator_error(answer: bytes) -> int:
    """After the correlation id, tags and throttle time."""
    return int.from_bytes(answer[9:11], "big")


# Members


def connect(broker: BrokerProcess) -> Connection:
    return Connection(
        Address("127.0.0.1", broker.port),
        client_id="bench",
        timeout_seconds=TIMEOUT,
        response_size_max=1 << 26,
    )


class Member:
    """One member of a classic group; those of one group have a connection each."""

    def __init__(self, connection: Connection, group: str, *, session_ms: int = 60_000) -> None:
        self.connection = connection
        self.group = group
        self.session_ms = session_ms
        self.member_id = ""
        self.generation = -1
        self.leader = ""
        self.send_join(0)
        answer = self.connection.receive(JoinGroupResponse, TIMEOUT)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED, answer.error_code
        self.member_id = answer.member_id

    def send_join(self, number: int) -> None:
        # Apache Kafka never answers when this is not a subscription as its own consumers send it.
        subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"%d" % number)
        metadata = bytes(2) + to_bytes(subscription, 0)
        protocol = JoinGroupRequestProtocol(name="range", metadata=metadata)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[protocol],
        )
        self.connection.send(request, JOIN_VERSION, TIMEOUT)

    def receive_join(self) -> None:
        answer = self.connection.receive(JoinGroupResponse, TIMEOUT)
        assert answer.error_code == 0, answer.error_code
        self.generation, self.leader = answer.generation_id, answer.leader

    def send_sync(self, members: list["Member"]) -> None:
        assignments = []
        if self.member_id == self.leader:
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"mine")
                for each in members
            ]
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        self.connection.send(request, SYNC_VERSION, TIMEOUT)

    def receive_sync(self) -> None:
        answer = self.connection.receive(SyncGroupResponse, TIMEOUT)
        assert (answer.error_code, answer.assignment) == (0, b"mine"), answer.error_code


def joins(broker: BrokerProcess, *, rounds: int) -> Figures:
    """Members that join and are synced, a second, in rebalances of a group of 200."""
    members = [Member(connect(broker), "joins") for _ in range(MEMBERS)]
    try:
        rebalance(members, 1)
        began = time.perf_counter()
        for number in range(rounds):
            rebalance(members, number + 2)
        elapsed = time.perf_counter() - began
    finally:
        for member in members:
            member.connection.close()
    return {"joins": (rounds * MEMBERS / elapsed, JOINS)}


@contextlib.contextmanager
def settled_member(broker: BrokerProcess, topic: str, group: str) -> Iterator[Member]:
    """The only member of a group, synced."""
    wait_for_coordinators(broker, topic, group)
    member = Member(connect(broker), group)
    try:
        rebalance([member], 1)
        yield member
    finally:
        member.connection.close()


def rebalance(members: list[Member], number: int) -> None:
    for member in members:
        member.send_join(number)
    for member in members:
        member.receive_join()
    assert len({member.generation for member in members}) == 1
    for member in members:
        member.send_sync(members)
    for member in members:
        member.receive_sync()


def takeover(broker: BrokerProcess, topic: str) -> Figures:
    """From the death of a member until another has its partitions; 6 s of it are the session."""
    heir = _consumer(broker.bootstrap_servers)
    heir.subscribe([topic])
    with _victim(broker, topic) as victim:
        _wait_for_share(heir, topic, all_of_it=False)
        victim.kill()
        began = time.perf_counter()
        _wait_for_share(heir, topic, all_of_it=True)
        seconds = time.perf_counter() - began
    heir.close()
    return {"seconds": (seconds, TAKEOVER)}


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "takeover",
            "session.timeout.ms": SESSION_MS,
            "heartbeat.interval.ms": 500,
            "auto.offset.reset": "earliest",
        }
    )


def _wait_for_share(consumer: Consumer, topic: str, *, all_of_it: bool) -> None:
    count = len(consumer.list_topics(topic, timeout=30).topics[topic].partitions)
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        consumer.poll(0.02)
        owned = len(consumer.assignment())
        if owned == count if all_of_it else 0 < owned < count:
            return
    raise TimeoutError("the group did not settle")


@contextlib.contextmanager
def _victim(broker: BrokerProcess, topic: str) -> Iterator["subprocess.Popen[bytes]"]:
    words = [sys.executable, "-m", "benchmarks.groups", broker.bootstrap_servers, topic]
    with subprocess.Popen(words) as process:
        try:
            yield process
        finally:
            process.kill()


# Transactions


def transactions(broker: BrokerProcess, topic: str, *, seconds: float) -> Figures:
    """Transactions of ten records each that one producer commits one after the other."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "bench",
            "linger.ms": 0,
        }
    )
    producer.init_transactions(60)
    done, began = 0, 0.0
    end = time.perf_counter() + seconds * 1.2
    while time.perf_counter() < end:
        if not began and time.perf_counter() > end - seconds:
            done, began = 0, time.perf_counter()
        producer.begin_transaction()
        for number in range(RECORDS_PER_TRANSACTION):
            producer.produce(topic, b"x" * 100, partition=number % 2)
        producer.commit_transaction(60)
        done += 1
    return {"transactions": (done / (time.perf_counter() - began), TRANSACTIONS)}


def _consume_for_ever(bootstrap_servers: str, topic: str) -> None:
    consumer = _consumer(bootstrap_servers)
    consumer.subscribe([topic])
    while True:
        consumer.poll(1)


if __name__ == "__main__":
    _consume_for_ever(*sys.argv[1:])
