"""The client of another node: versions, order, reconnection, and everything that breaks it."""

from typing import TypeVar

import pytest

from ottla.common.chance import Chance
from ottla.common.errors import ProtocolViolation
from ottla.common.promise import Promise
from ottla.network.channel import NetworkChannel
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.network.sockets import StreamSocket
from ottla.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.generated.vote import VoteRequest, VoteResponse
from ottla.protocol.headers import decode_request_header, encode_response_header
from ottla.protocol.message import Message, Response, to_bytes
from ottla.protocol.primitives import Writer
from ottla.raft.channel import Destination
from ottla.simulation.network import SimulatedNetwork
from ottla.simulation.scheduler import SimulatedScheduler
from ottla.simulation.sockets import SimulatedSocket

R = TypeVar("R", bound=Response)

PORT = 9093
VOTE, API_VERSIONS = 52, 18


class Peer:
    """Listens; answers as it is told, or not at all."""

    def __init__(self, network: SimulatedNetwork, highest_vote: int = 2) -> None:
        self.network = network
        self.highest_vote = highest_vote
        self.accepted = 0
        self.asked: list[tuple[int, int]] = []
        self.is_silent = False
        self.garbage: bytes | None = None
        self.more = b""
        """Sent together with each answer."""
        self.hangs_up = False
        """Nothing more is taken after the versions were told."""
        network.listen("", PORT, self._accepted).start()

    def _accepted(self, sock: StreamSocket) -> None:
        self.accepted += 1
        self.network.watch_reading(sock, lambda: self._readable(sock))

    def _readable(self, sock: StreamSocket) -> None:
        buffer = bytearray(1 << 16)
        count = sock.recv_into(memoryview(buffer))
        if count == 0:
            self.network.unwatch_reading(sock)
            return
        pos = 0
        while pos < count:
            size = int.from_bytes(buffer[pos : pos + 4], "big")
            self._request(sock, bytes(buffer[pos + 4 : pos + 4 + size]))
            pos += 4 + size

    def _request(self, sock: StreamSocket, data: bytes) -> None:
        header, _ = decode_request_header(data, 0)
        key, version = header.request_api_key, header.request_api_version
        self.asked.append((key, version))
        if self.is_silent and key == VOTE:
            return
        if self.garbage is not None:
            sock.send(self.garbage)
            return
        response: Message = VoteResponse(error_code=len(self.asked))
        if key == API_VERSIONS:
            vote = ApiVersion(api_key=VOTE, min_version=0, max_version=self.highest_vote)
            response = ApiVersionsResponse(api_keys=[vote])
        out = Writer()
        encode_response_header(
            out, api_key=key, version=version, correlation_id=header.correlation_id
        )
        body = out.getvalue() + to_bytes(response, version)
        sock.send(len(body).to_bytes(4, "big") + body + self.more)
        if self.hangs_up:
            assert isinstance(sock, SimulatedSocket)
            sock.peer.cut()


class World:
    def __init__(self) -> None:
        self.scheduler = SimulatedScheduler(Chance(1))
        self.network = SimulatedNetwork(self.scheduler, Chance(2))
        self.client = NodeClient(
            self.network,
            self.scheduler,
            "peer",
            PORT,
            client_id="raft-client-1",
            limits=NodeClientLimits(timeout_seconds=2.0, backoff_seconds=0.05),
        )

    def wait(self, answer: Promise[R]) -> R:
        assert self.scheduler.run_until(lambda: answer.done, 10)
        return answer.result()


def test_it_asks_for_the_versions_and_uses_the_highest_that_both_know() -> None:
    world = World()
    peer = Peer(world.network, highest_vote=1)
    assert isinstance(world.wait(world.client.send(VoteRequest())), VoteResponse)
    assert peer.asked == [(API_VERSIONS, 3), (VOTE, 1)]
    world.wait(world.client.send(VoteRequest()))
    assert peer.accepted == 1, "one connection for all"


def test_answers_belong_to_their_requests() -> None:
    world = World()
    Peer(world.network)
    answers = [world.client.send(VoteRequest()) for _ in range(5)]
    codes = []
    for answer in answers:
        response = world.wait(answer)
        assert isinstance(response, VoteResponse)
        codes.append(response.error_code)
    assert codes == [2, 3, 4, 5, 6]


def test_what_the_other_side_does_not_speak_fails_alone() -> None:
    world = World()
    peer = Peer(world.network, highest_vote=-1)
    with pytest.raises(ValueError, match="does not speak"):
        world.wait(world.client.send(VoteRequest()))
    peer.highest_vote = 2
    assert peer.accepted == 1


def test_nobody_there_fails_at_once_and_is_tried_again_after_a_growing_pause() -> None:
    world = World()
    pauses = []
    for _ in range(6):
        began = world.scheduler.now
        with pytest.raises(ConnectionRefusedError):
            world.wait(world.client.send(VoteRequest()))
        while True:
            answer = world.client.send(VoteRequest())
            if not answer.done:
                break
            world.scheduler.run_for(0.01)
        pauses.append(world.scheduler.now - began)
        with pytest.raises(ConnectionRefusedError):
            world.wait(answer)
        world.scheduler.run_for(2.0)
    assert pauses[0] < 0.1 < pauses[1] < pauses[2]
    assert 1.0 < pauses[-1] < 1.1, "but not without end"


def test_silence_ends_the_connection_and_the_next_request_dials_again() -> None:
    world = World()
    peer = Peer(world.network)
    peer.is_silent = True
    first, second = world.client.send(VoteRequest()), world.client.send(VoteRequest())
    with pytest.raises(TimeoutError):
        world.wait(first)
    assert second.done, "what waits behind it will not be answered either"
    peer.is_silent = False
    world.scheduler.run_for(0.2)
    assert isinstance(world.wait(world.client.send(VoteRequest())), VoteResponse)
    assert peer.accepted == 2


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x00", b"\x00\x00\x00\x05abcde"],
)
def test_an_answer_that_is_none_ends_the_connection(garbage: bytes) -> None:
    world = World()
    Peer(world.network).garbage = garbage
    with pytest.raises(ConnectionError):
        world.wait(world.client.send(VoteRequest()))


def test_a_connection_that_is_cut_fails_what_waits() -> None:
    world = World()
    peer = Peer(world.network)
    world.wait(world.client.send(VoteRequest()))
    peer.is_silent = True
    answer = world.client.send(VoteRequest())
    world.scheduler.run_for(0.1)
    world.client.close()
    with pytest.raises(ConnectionError):
        world.wait(answer)


def test_a_connection_that_breaks_when_the_first_request_is_sent_fails_all_that_waited() -> None:
    """The second was written to a connection that was no more, and heard nothing until its time."""
    world = World()
    peer = Peer(world.network)
    answers = [world.client.send(VoteRequest()) for _ in range(3)]

    peer.hangs_up = True
    assert world.scheduler.run_until(lambda: any(each.done for each in answers), 10)
    assert [each.done for each in answers] == [True] * 3
    for answer in answers:
        with pytest.raises(BrokenPipeError):
            answer.result()
    peer.hangs_up = False
    world.scheduler.run_for(1)
    world.wait(world.client.send(VoteRequest()))
    assert peer.accepted == 2


def test_a_channel_has_a_connection_for_each_address() -> None:
    world = World()
    peer = Peer(world.network)
    limits = NodeClientLimits(timeout_seconds=2.0, backoff_seconds=0.05)
    channel = NetworkChannel(world.network, world.scheduler, client_id="x", limits=limits)
    world.wait(channel.send(Destination(1, "peer", PORT), VoteRequest()))
    world.wait(channel.send(Destination(-2, "peer", PORT), VoteRequest()))
    assert peer.accepted == 1, "a bootstrap server and a voter at one address are the same"
    with pytest.raises(ConnectionRefusedError):
        world.wait(channel.send(Destination(2, "peer", PORT + 1), VoteRequest()))
    channel.close()


def test_who_asks_reads_the_answer_where_it_was_received() -> None:
    world = World()
    Peer(world.network)

    def read(answer: memoryview, pos: int, version: int) -> tuple[int, int, bytes]:
        return version, pos, bytes(answer[pos:])

    answer = world.client.ask(VoteRequest(), read)
    assert world.scheduler.run_until(lambda: answer.done, 10)
    assert answer.result() == (2, 5, to_bytes(VoteResponse(error_code=2), 2))


def test_an_answer_that_its_reader_refuses_ends_the_connection() -> None:
    world = World()
    peer = Peer(world.network)

    def read(_answer: memoryview, _pos: int, _version: int) -> None:
        raise ProtocolViolation("no")

    refused = world.client.ask(VoteRequest(), read)
    behind = world.client.send(VoteRequest())
    assert world.scheduler.run_until(lambda: refused.done and behind.done, 10)
    with pytest.raises(ConnectionError):
        refused.result()
    with pytest.raises(ConnectionError):
        behind.result()
    world.scheduler.run_for(0.2)
    assert isinstance(world.wait(world.client.send(VoteRequest())), VoteResponse)
    assert peer.accepted == 2


def test_versions_of_a_connection_that_has_ended_with_them_count_for_no_other() -> None:
    world = World()
    peer = Peer(world.network)
    peer.more = (4).to_bytes(4, "big") + b"more"
    with pytest.raises(ConnectionError, match="nobody has asked"):
        world.wait(world.client.send(VoteRequest()))
    peer.more = b""
    world.scheduler.run_for(1.0)
    assert isinstance(world.wait(world.client.send(VoteRequest())), VoteResponse)
