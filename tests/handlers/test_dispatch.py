"""From a frame to its answer: headers, versions, refusals, and answers that come later."""

import gc
from struct import pack

import pytest
from tests.handlers.broker import Broker, Peer
from tests.handlers.test_needs import Rules
from tests.turns import TURN

from ottla.common.authorization import (
    Principal,
)
from ottla.common.buffers import Answer
from ottla.common.errors import ErrorCode, ProtocolViolation, RequestTimedOut
from ottla.common.promise import Promise
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ottla.protocol.message import from_bytes, to_bytes
from ottla.protocol.primitives import ITEMS_MAX, uvarint
from ottla.requests.context import RequestContext
from ottla.requests.dispatch import REQUEST_BYTES_MAX, BrokerDispatcher
from ottla.requests.table import HANDLERS


class Dispatched:
    def __init__(self) -> None:
        self.broker = Broker()
        self.mistakes = self.broker.mistakes
        self.dispatcher = BrokerDispatcher(self.broker.services)

    def send(self, frame: bytes) -> "Answer | Promise[Answer] | None":
        return self.dispatcher.answer(Peer(), memoryview(bytearray(frame)))


def header(key: int, version: int, client_id: bytes | None = b"me", tags: bytes = b"\x00") -> bytes:
    size = -1 if client_id is None else len(client_id)
    api = APIS.get(key)
    flexible = api is not None and version >= api.flexible_from
    return pack(">hhih", key, version, 77, size) + (client_id or b"") + (tags if flexible else b"")


def body(answer: object, *, flexible: bool) -> bytes:
    """The answer without its length and header, which are checked."""
    assert isinstance(answer, bytes)
    start = 9 if flexible else 8
    assert answer[:8] == pack(">ii", len(answer) - 4, 77)
    assert not flexible or answer[8] == 0
    return answer[start:]


DESCRIBE = DescribeClusterRequest()
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="t")], timeout_ms=1000)


@pytest.mark.parametrize("tags", [b"\x00", b"\x02\x00\x03abc\x07\x00"])
def test_a_request_is_answered_under_its_correlation_id(tags: bytes) -> None:
    dispatched = Dispatched()
    answer = dispatched.send(header(60, 2, tags=tags) + to_bytes(DESCRIBE, 2))
    read = from_bytes(DescribeClusterResponse, body(answer, flexible=True), 2)
    assert read.error_code == ErrorCode.NONE


def test_a_client_need_not_have_a_name() -> None:
    frame = header(60, 0, client_id=None) + to_bytes(DESCRIBE, 0)
    assert isinstance(Dispatched().send(frame), bytes)


def test_bytes_behind_the_request_are_not_looked_at() -> None:
    frame = header(60, 0) + to_bytes(DESCRIBE, 0) + b"\x00\x00\x00\x00"
    assert isinstance(Dispatched().send(frame), bytes)


def test_the_answer_to_api_versions_has_the_old_header_always() -> None:
    asked = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = Dispatched().send(header(18, 4) + to_bytes(asked, 4))
    assert from_bytes(ApiVersionsResponse, body(answer, flexible=False), 4).error_code == 0


@pytest.mark.parametrize("version", [5, 9, 32767])
def test_a_client_of_the_future_gets_an_answer_that_every_client_reads(version: int) -> None:
    answer = Dispatched().send(header(18, version) + b"whatever comes then")
    read = from_bytes(ApiVersionsResponse, body(answer, flexible=False), 0)
    assert read.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("key", sorted(set(HANDLERS) - {ApiKey.API_VERSIONS}))
def test_versions_that_are_not_served_end_the_connection(key: ApiKey) -> None:
    dispatched = Dispatched()
    for version in (-1, APIS[key].lowest_version - 1, APIS[key].highest_stable_version + 1):
        with pytest.raises(ProtocolViolation):
            dispatched.send(header(key, version) + bytes(50))
    assert dispatched.mistakes.told == []


@pytest.mark.parametrize("key", [-1, 4, 52, 93, 32767])
def test_requests_of_another_kind_end_the_connection(key: int) -> None:
    with pytest.raises(ProtocolViolation):
        Dispatched().send(header(key, 0) + bytes(50))


WHOLE = header(19, 7) + to_bytes(CREATE, 7)


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_request_that_is_cut_anywhere_ends_the_connection(cut: int) -> None:
    with pytest.raises(ProtocolViolation):
        Dispatched().send(WHOLE[:cut])


@pytest.mark.parametrize("size", [-2, -32768, 32767])
def test_the_length_of_a_clients_name_is_not_believed(size: int) -> None:
    with pytest.raises(ProtocolViolation):
        Dispatched().send(pack(">hhih", 60, 0, 77, size) + bytes(20))


def test_a_request_other_than_produce_may_not_be_larger_than_it_can_honestly_be() -> None:
    frame = header(60, 0) + to_bytes(DESCRIBE, 0)
    padded = frame + bytes(REQUEST_BYTES_MAX - len(frame))
    assert isinstance(Dispatched().send(padded), bytes)
    with pytest.raises(ProtocolViolation):
        Dispatched().send(padded + b"\x00")


def test_a_request_may_not_have_more_items_than_it_can_honestly_have() -> None:
    """Sixteen megabytes of empty names kept the broker busy for minutes."""
    delete_groups = header(42, 2) + uvarint(ITEMS_MAX + 2) + b"\x01" * (ITEMS_MAX + 1) + b"\x00"
    with pytest.raises(ProtocolViolation, match="too many items"):
        Dispatched().send(delete_groups)
    fetch = header(1, 12) + pack(">iiiibii", -1, 0, 0, 1, 0, 0, -1)
    fetch += uvarint(ITEMS_MAX + 2) + b"\x01\x01\x00" * (ITEMS_MAX + 1)
    with pytest.raises(ProtocolViolation, match="too many items"):
        Dispatched().send(fetch + b"\x01\x01\x00")


def test_an_answer_that_waits_comes_later() -> None:
    dispatched = Dispatched()
    answer = dispatched.send(WHOLE)
    assert isinstance(answer, Promise)
    assert not answer.done
    made = CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_message=None)])
    dispatched.broker.controller.waiting[0].fulfil(made)
    assert from_bytes(CreateTopicsResponse, body(answer.result(), flexible=True), 7) == made


class ControllerElsewhere:
    """Takes note of how long an answer may take."""

    local = None

    def __init__(self) -> None:
        self.timeouts: list[int | None] = []
        self.waiting: list[Promise[bytes]] = []

    def forward(
        self, _request: bytes, _context: RequestContext, timeout_ms: int | None
    ) -> Promise[bytes]:
        self.timeouts.append(timeout_ms)
        self.waiting.append(Promise(TURN))
        return self.waiting[-1]


def test_a_request_goes_to_the_controller_with_the_time_that_its_client_gives_it() -> None:
    dispatched = Dispatched()
    elsewhere = dispatched.broker.services.forwarding = ControllerElsewhere()
    dispatched.send(WHOLE)
    assert elsewhere.timeouts == [CREATE.timeout_ms]


def test_what_waits_for_the_controller_is_counted_and_kept_as_bytes_alone() -> None:
    dispatched, peer = Dispatched(), Peer()
    elsewhere = dispatched.broker.services.forwarding = ControllerElsewhere()
    name = "kept as bytes alone"
    frame = header(19, 7) + to_bytes(CreateTopicsRequest(topics=[CreatableTopic(name=name)]), 7)
    answers = [dispatched.dispatcher.answer(peer, memoryview(frame)) for _ in range(2)]
    assert peer.held == 2 * len(frame)
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, CreatableTopic)]
    assert name not in [topic.name for topic in found]
    first, second = elsewhere.waiting
    first.fulfil(b"as it is")
    second.fail(RequestTimedOut())
    assert peer.held == 0
    as_it_is, refused = [answer.result() for answer in answers if isinstance(answer, Promise)]
    assert as_it_is == pack(">i", 8) + b"as it is"
    read = from_bytes(CreateTopicsResponse, body(refused, flexible=True), 7)
    assert [(t.name, t.error_code) for t in read.topics] == [(name, ErrorCode.REQUEST_TIMED_OUT)]


def test_what_no_time_at_all_means_the_controller_says() -> None:
    dispatched = Dispatched()
    elsewhere = dispatched.broker.services.forwarding = ControllerElsewhere()
    for timeout_ms in (0, -1):
        dispatched.send(header(19, 7) + to_bytes(CreateTopicsRequest(timeout_ms=timeout_ms), 7))
    unread = ListPartitionReassignmentsRequest(timeout_ms=1)
    dispatched.send(header(46, 0) + to_bytes(unread, 0))
    assert elsewhere.timeouts == [None, None, None]


def test_a_mistake_of_ours_is_told_and_the_client_hears_of_it() -> None:
    dispatched = Dispatched()
    answer = dispatched.send(WHOLE)
    assert isinstance(answer, Promise)
    dispatched.broker.controller.waiting[0].fail(ZeroDivisionError())
    read = from_bytes(CreateTopicsResponse, body(answer.result(), flexible=True), 7)
    assert [t.error_code for t in read.topics] == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert dispatched.mistakes.told == ["a request failed"]


def test_an_answer_without_a_form_ends_that_connection_and_disturbs_nobody_else() -> None:
    dispatched = Dispatched()
    answer = dispatched.send(WHOLE)
    assert isinstance(answer, Promise)
    impossible = CreateTopicsResponse(topics=[CreatableTopicResult(name="x" * 40_000)])
    dispatched.broker.controller.waiting[0].fulfil(impossible)
    with pytest.raises(ProtocolViolation):
        answer.result()
    assert dispatched.mistakes.told == ["a response cannot be encoded"]


def test_a_request_is_its_connections_principals() -> None:
    broker = Broker()
    rules = broker.services.authorizer = Rules()
    peer = Peer()
    peer.principal = Principal("User", "alice")
    request = to_bytes(DescribeLogDirsRequest(topics=[]), 1)
    frame = header(ApiKey.DESCRIBE_LOG_DIRS, 1) + request
    BrokerDispatcher(broker.services).answer(peer, memoryview(bytearray(frame)))
    assert [principal for principal, *_ in rules.asked] == [Principal("User", "alice")]
