"""Produce requests that come together: one write for a partition, one send for a connection.

Connections, dispatcher, handlers and logs are real; sockets and disk are in memory and count what
they are asked for. So the figures here do not depend on the machine.
"""

import errno
from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.handlers.broker import Broker
from tests.network.memory_network import MemoryNetwork, MemorySocket
from tests.network.served_connection import Memory
from tests.replication.states import lead
from tests.turns import TURN

from ottla.common.errors import ErrorCode
from ottla.network.connection import Connection
from ottla.protocol.api import ApiKey
from ottla.protocol.frame import FrameReader, frame
from ottla.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.requests.dispatch import BrokerDispatcher
from ottla.requests.produce_crowd import (
    CROWD_BYTES_MAX,
    FRAME_BYTES_MAX,
    REQUESTS_MAX,
    TRIED_AGAIN_AFTER,
)

VERSION = 9
PARTITIONS = 3
ENOMEM = OSError(errno.ENOMEM, "Cannot allocate memory")


def produce(
    *partitions: int, value: bytes = b"v", acks: int = 1, producer: tuple[int, int] | None = None
) -> bytes:
    producer_id, sequence = producer or (-1, -1)
    batch = build_batch(
        [Record(timestamp=1_700_000_000_000, value=value)],
        producer_id=producer_id,
        producer_epoch=-1 if producer is None else 0,
        base_sequence=sequence,
    )
    data = [PartitionProduceData(index=index, records=bytes(batch)) for index in partitions]
    request = ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[TopicProduceData(name="t", partition_data=data)]
    )
    return asked(ApiKey.PRODUCE, VERSION, to_bytes(request, VERSION), b"\x00")


def log_ends(index: int) -> bytes:
    partition = ListOffsetsPartition(partition_index=index, timestamp=-1)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    return asked(ApiKey.LIST_OFFSETS, 5, to_bytes(request, 5))


def asked(key: ApiKey, version: int, body: bytes, tags: bytes = b"") -> bytes:
    return frame(pack(">hhih", key, version, 7, -1) + tags + body)


class Served:
    """A client's connection."""

    def __init__(self, world: "World") -> None:
        self.socket = MemorySocket()
        self._reader = FrameReader(1 << 20)
        self._taken = 0
        self.connection = Connection(
            self.socket,
            world.network,
            listener_name="PLAINTEXT",
            receive_buffer=world.buffer,
            frame_limit=1 << 20,
            memory=Memory(),
            answer_frame=world.dispatcher.answer,
            closed=lambda _: None,
            scheduler=world.broker.scheduler,
        )

    def answers(self) -> list[bytes]:
        """What came since the last time."""
        sent, self._taken = bytes(self.socket.sent[self._taken :]), len(self.socket.sent)
        return [bytes(each) for each in self._reader.feed(sent)]

    def outcomes(self) -> list[tuple[int, int]]:
        """Error and offset of each partition."""
        return [
            (partition.error_code, partition.base_offset)
            for answer in self.answers()
            for topic in from_bytes(ProduceResponse, answer[5:], VERSION).responses
            for partition in topic.partition_responses
        ]


class World:
    def __init__(self) -> None:
        self.broker = Broker()
        self.broker.add_topic("t", PARTITIONS)
        self.dispatcher = BrokerDispatcher(self.broker.services)
        self.network = MemoryNetwork()
        self.buffer = memoryview(bytearray(1 << 20))
        self.clients: list[Served] = []
        self.writes = 0
        self.failing = False
        for index in range(PARTITIONS):
            self.broker.log_of("t", index).roll(0)
        self.broker.filesystem.fail = self._asked

    def _asked(self, operation: str, path: str) -> OSError | None:
        if operation != "write" or not path.endswith(".log"):
            return None
        self.writes += 1
        return ENOMEM if self.failing else None

    def client(self) -> Served:
        self.clients.append(Served(self))
        return self.clients[-1]

    def begin(self) -> None:
        """Let each partition have its first batch, which is written alone."""
        client = self.client()
        for index in range(PARTITIONS):
            self.come((client, produce(index)))
        client.answers()
        self.writes = 0

    def come(self, *frames: tuple[Served, bytes]) -> None:
        """All that comes in one turn, in its order."""

        def take() -> None:
            TURN.is_crowd = len(frames) > 1
            for client, data in frames:
                if client.socket in self.network.readers:
                    client.socket.incoming.append(data)
                    client.connection.readable()

        TURN.run(take)

    def values(self, index: int) -> int:
        return self.broker.log_of("t", index).log_end_offset


@pytest.fixture
def world() -> World:
    made = World()
    made.begin()
    return made


def test_ten_requests_of_one_connection_are_one_write_and_one_send(world: World) -> None:
    client = world.client()
    world.come((client, b"".join([produce(0)] * 10)))
    assert client.outcomes() == [(0, offset) for offset in range(1, 11)]
    assert (world.writes, client.socket.sends) == (1, 1)


def test_ten_requests_of_ten_connections_are_one_write_for_each_partition(world: World) -> None:
    clients = [world.client() for _ in range(10)]
    world.come(*[(client, produce(number % 3)) for number, client in enumerate(clients)])
    assert [client.outcomes() for client in clients] == [
        [(0, 1 + number // 3)] for number in range(10)
    ]
    assert world.writes == 3
    assert [client.socket.sends for client in clients] == [1] * 10


@pytest.mark.parametrize("acks", [-1, 1])
def test_fifty_of_ten_are_at_most_a_third_of_a_write_and_a_send_for_each(
    world: World, acks: int
) -> None:
    clients = [world.client() for _ in range(10)]
    world.come(*[(client, produce(n % 3, acks=acks) * 5) for n, client in enumerate(clients)])
    assert all(len(client.outcomes()) == 5 for client in clients)
    assert 3 * world.writes <= 50
    assert 3 * sum(client.socket.sends for client in clients) <= 50


def test_a_request_that_comes_alone_is_written_at_once(world: World) -> None:
    client = world.client()
    for offset in range(1, 4):
        client.socket.incoming.append(produce(0))
        client.connection.readable()  # of no turn: what waited for its end would still wait
        assert world.values(0) == offset + 1
    assert world.writes == 3


def test_a_large_request_is_not_copied_and_comes_behind_those_before_it(world: World) -> None:
    client = world.client()
    large = produce(0, value=b"x" * FRAME_BYTES_MAX)
    world.come((client, produce(0) + produce(0) + large + produce(0)))
    assert client.outcomes() == [(0, offset) for offset in range(1, 5)]
    assert world.writes == 3


def test_a_write_that_fails_refuses_every_request_in_it_and_nothing_was_there(
    world: World,
) -> None:
    clients = [world.client() for _ in range(3)]
    world.failing = True
    world.come(*[(client, produce(0)) for client in clients])
    world.failing = False
    storage_error = (ErrorCode.KAFKA_STORAGE_ERROR, -1)
    assert [client.outcomes() for client in clients] == [[storage_error]] * 3
    assert world.values(0) == 1
    world.come(*[(client, produce(0)) for client in clients])
    assert [client.outcomes() for client in clients] == [[(0, 1)], [(0, 2)], [(0, 3)]]


def test_a_request_finds_what_came_before_it_on_its_connection(world: World) -> None:
    writer, reader = world.client(), world.client()
    world.come(
        (writer, produce(0, acks=0) + produce(0)), (reader, log_ends(0)), (writer, log_ends(0))
    )

    def offset(answer: bytes) -> int:
        response = from_bytes(ListOffsetsResponse, answer[4:], 5)
        return response.topics[0].partitions[0].offset

    assert offset(reader.answers()[0]) == 1, "nothing is there that is not written"
    assert offset(writer.answers()[-1]) == 3


def test_a_partition_that_is_lost_in_the_turn_refuses_what_waits(world: World) -> None:
    clients = [world.client() for _ in range(2)]

    def take() -> None:
        TURN.is_crowd = True
        for client in clients:
            client.socket.incoming.append(produce(0))
            client.connection.readable()
        lead(world.broker.partition("t", 0), 7, 20, (1, 7))

    TURN.run(take)
    refused = [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert [client.outcomes() for client in clients] == [refused, refused]
    assert (world.values(0), world.writes) == (1, 0)


def test_with_acks_0_the_request_that_fills_a_crowd_costs_its_connection_nothing(
    world: World,
) -> None:
    others, silent = world.client(), world.client()
    world.come((others, produce(0) * (REQUESTS_MAX - 1)), (silent, produce(0, acks=0)))
    assert not silent.connection.closed
    world.come((silent, produce(0)))
    assert silent.outcomes() == [(0, REQUESTS_MAX + 1)]


def test_with_acks_0_a_refusal_ends_its_connection_and_no_other(world: World) -> None:
    silent, other = world.client(), world.client()
    world.come((silent, produce(7, acks=0)), (other, produce(0)), (silent, produce(0)))
    assert silent.connection.closed
    assert other.outcomes() == [(0, 1)]


def test_what_is_no_request_ends_its_connection_and_no_other(world: World) -> None:
    bad, other = world.client(), world.client()
    world.come((bad, produce(0)), (bad, produce(0)[:4] + produce(0)[4:-9] + b"\xff" * 9))
    world.come((other, produce(0)), (bad, asked(ApiKey.PRODUCE, VERSION, b"\xff" * 9)))
    assert bad.connection.closed
    assert other.outcomes()[0][0] == 0


def test_a_crowd_is_bounded_in_requests_and_in_bytes(world: World) -> None:
    client = world.client()
    world.come((client, produce(0) * (REQUESTS_MAX + 1)))
    assert world.writes == 2
    world.writes = 0
    value = b"x" * (FRAME_BYTES_MAX - 200)
    world.come((client, produce(0, value=value) * (CROWD_BYTES_MAX // len(value) + 2)))
    assert world.writes == 2
    assert all(error == 0 for error, _ in client.outcomes())


def test_where_nothing_was_joined_requests_go_at_once_for_a_while(world: World) -> None:
    client = world.client()
    world.come((client, produce(0) + produce(1) + produce(2)))
    assert world.writes == 3
    for _ in range(TRIED_AGAIN_AFTER // 4):
        world.come((client, produce(0) * 4))
    assert world.writes == 3 + TRIED_AGAIN_AFTER
    world.come((client, produce(0) * 4))
    assert world.writes == 3 + TRIED_AGAIN_AFTER + 1


REQUESTS = st.tuples(
    st.integers(0, 3),
    st.lists(st.integers(0, PARTITIONS), min_size=1, max_size=3, unique=True),
    st.sampled_from([0, 1, 1, -1]),
    st.sampled_from([1, 1, 100, FRAME_BYTES_MAX]),
    st.booleans(),
)


@given(st.lists(st.lists(REQUESTS, min_size=1, max_size=12), max_size=5))
@settings(max_examples=60, deadline=None)
def test_any_crowd_is_answered_as_if_each_had_come_alone(
    turns: list[list[tuple[int, list[int], int, int, bool]]],
) -> None:
    """Of each connection in its order; and the logs are the same."""
    together, alone = World(), World()
    for world in (together, alone):
        for _ in range(4):
            world.client()
    sequences = [0] * 4
    for turn in turns:
        frames: list[tuple[int, bytes]] = []
        for client, partitions, acks, size, is_idempotent in turn:
            producer = None
            if acks == 0:  # a refusal would end the connection, at once or behind the others
                partitions = [index % PARTITIONS for index in partitions[:1]]
            elif is_idempotent:
                producer = (client, sequences[client])
                sequences[client] += 1
            sent = produce(*partitions, value=b"x" * size, acks=acks, producer=producer)
            frames.append((client, sent))
        for world in (together, alone):
            crowd = [(world.clients[number], sent) for number, sent in frames]
            for part in [crowd] if world is together else [[one] for one in crowd]:
                world.come(*part)
        answers = [[client.answers() for client in world.clients] for world in (together, alone)]
        assert answers[0] == answers[1]
    for index in range(PARTITIONS):
        logs = [world.broker.log_of("t", index) for world in (together, alone)]
        assert logs[0].log_end_offset == logs[1].log_end_offset
        assert logs[0].high_watermark == logs[1].high_watermark
        if logs[0].log_end_offset:
            assert logs[0].read_bytes(0, 1 << 24) == logs[1].read_bytes(0, 1 << 24)
    assert together.writes <= alone.writes
