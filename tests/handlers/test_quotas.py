"""Clients with quotas: what counts, what they are told, and for how long they are not read."""

from struct import pack
from typing import TypeVar

import pytest
from tests.handlers.broker import Broker, Peer
from tests.handlers.secured import Acls
from tests.handlers.test_fetch import asked, at, read
from tests.turns import TURN, in_turn

from ottla.common.authorization import Principal
from ottla.common.buffers import Answer
from ottla.common.errors import ThrottlingQuotaExceeded
from ottla.common.promise import Promise, fulfilled
from ottla.common.rates import WAIT_MS_MAX
from ottla.config.authorizer import AuthorizerSettings
from ottla.handlers import envelope
from ottla.handlers.envelope import seal
from ottla.metadata.audit import Audit
from ottla.metadata.client_quotas import QuotaEntity
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.standard_authorizer import StandardAuthorizer
from ottla.protocol.api import APIS
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.generated.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.generated.envelope import EnvelopeResponse
from ottla.protocol.generated.fetch import FetchRequest, FetchResponse
from ottla.protocol.generated.metadata import MetadataRequest
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.generated.write_txn_markers import WriteTxnMarkersRequest
from ottla.protocol.headers import encode_request_header
from ottla.protocol.message import Message, Response, from_buffer, to_bytes
from ottla.protocol.primitives import Writer
from ottla.protocol.throttle_time import throttle_time_ms, with_throttle_time
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.requests.context import RequestContext
from ottla.requests.dispatch import BrokerDispatcher
from ottla.requests.quotas import Charge, ClientQuotas
from ottla.requests.table import load, served

R = TypeVar("R", bound=Response)
ANYBODY: QuotaEntity = (("user", None),)
WINDOW_BYTES = 10
"""Seconds of a rate that a client may take at once."""


class Limited:
    """A broker with quotas, and a client that dials it."""

    def __init__(self, entity: QuotaEntity = ANYBODY, **quotas: float) -> None:
        self.broker = Broker()
        self.broker.add_topic("t")
        self.quotas = self.broker.services.quotas
        self.dispatcher = BrokerDispatcher(self.broker.services)
        self.peer = Peer()
        self.image = MetadataImage()
        self.limit(entity, **quotas)

    def limit(self, entity: QuotaEntity, **quotas: float) -> None:
        image = MetadataImage(client_quotas={entity: quotas} if quotas else {})
        self.quotas.changed(image, difference(self.image, image))
        self.image = image

    def send(self, request: Message, version: int, client_id: str = "c") -> object:
        api = APIS[request.API_KEY]
        name = client_id.encode()
        tags = b"\0" if version >= api.flexible_from else b""
        header = pack(">hhih", api.key, version, 7, len(name)) + name + tags
        frame = memoryview(bytearray(header + to_bytes(request, version)))
        return in_turn(self.dispatcher.answer, self.peer, frame)

    def produce(
        self, size: int = 1000, *, acks: int = 1, version: int = 12, client_id: str = "c"
    ) -> int:
        batch = bytes(build_batch([Record(timestamp=1, value=bytes(size))]))
        data = TopicProduceData(partition_data=[PartitionProduceData(index=0, records=batch)])
        if version >= 13:
            data.topic_id = self.broker.metadata.image.topics.by_name["t"].topic_id
        else:
            data.name = "t"
        request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[data])
        answer = self.send(request, version, client_id)
        if acks == 0:
            assert answer is None
            return 0
        response = _read(answer, ProduceResponse, version)
        assert response.responses[0].partition_responses[0].error_code == 0
        return response.throttle_time_ms

    def fetch(self, request: tuple[FetchRequest, int]) -> FetchResponse:
        answer = self.send(*request)
        assert isinstance(answer, (bytes, list))
        return read(answer, request[1])

    @property
    def muted_ms(self) -> list[int]:
        return [round(seconds * 1000) for seconds in self.peer.muted]


def _read(answer: object, response: type[R], version: int) -> R:
    assert isinstance(answer, bytes)
    assert answer[4:8] == pack(">i", 7)
    api = APIS[response.API_KEY]
    found, end = from_buffer(response, answer, 9 if version >= api.flexible_from else 8, version)
    assert end == len(answer)
    return found


# Produce


@pytest.mark.parametrize("version", [3, 8, 9, 12, 13])
def test_a_producer_is_told_how_long_it_must_wait_and_is_not_read_for_so_long(version: int) -> None:
    limited = Limited(producer_byte_rate=200)
    assert limited.produce(1000, version=version) == 0
    waits_ms = limited.produce(1500, version=version)
    assert 2_500 < waits_ms < 4_500
    assert limited.muted_ms == [waits_ms]
    assert limited.broker.log_of("t").log_end_offset == 2


def test_without_acknowledgements_a_producer_is_only_not_read() -> None:
    limited = Limited(producer_byte_rate=200)
    limited.produce(1000, acks=0)
    assert limited.muted_ms == []
    limited.produce(1500, acks=0)
    assert len(limited.muted_ms) == 1


def test_a_wait_that_is_longer_than_an_answer_can_tell_is_the_longest() -> None:
    limited = Limited(producer_byte_rate=1)
    waits_ms = [limited.produce(900_000) for _ in range(4)]
    assert waits_ms[-1] == WAIT_MS_MAX
    assert limited.muted_ms == waits_ms


def test_a_change_holds_for_the_next_request() -> None:
    limited = Limited(producer_byte_rate=200)
    limited.produce(4000)
    limited.limit(ANYBODY, producer_byte_rate=1_000_000)
    assert limited.produce(10) == 0
    limited.limit(ANYBODY, producer_byte_rate=100)
    assert limited.produce(10) > 0
    limited.limit(ANYBODY)
    assert not limited.quotas.enforces
    assert limited.produce(10) == 0


def test_others_do_not_notice() -> None:
    limited = Limited((("client-id", "slow"),), producer_byte_rate=200)
    assert limited.produce(5000, client_id="slow") > 0
    assert limited.produce(50_000, client_id="fast") == 0


def test_an_answer_that_comes_later_is_throttled_when_it_comes() -> None:
    limited = Limited(request_percentage=1)
    slow(limited, 0.5)
    waiting = limited.send(CREATION, 7)
    assert isinstance(waiting, Promise)
    assert limited.muted_ms == []
    in_turn(limited.broker.controller.waiting[0].fulfil, CreateTopicsResponse())
    assert _read(waiting.result(), CreateTopicsResponse, 7).throttle_time_ms == 1000
    assert limited.muted_ms == [1000]


# Fetch


def at_most(limited: Limited, seconds: float = 0.0) -> FetchResponse:
    limited.broker.scheduler.run_for(seconds)
    return limited.fetch(asked(limited.broker, at(0)))


def test_a_consumer_beyond_its_quota_gets_nothing_and_waits() -> None:
    limited = Limited(consumer_byte_rate=150)
    limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(1000))]))
    first = at_most(limited)
    assert first.responses
    assert first.throttle_time_ms == 0
    second = at_most(limited)
    assert second.responses == []
    assert second.error_code == 0
    assert limited.muted_ms == [second.throttle_time_ms]
    # What was not sent does not count: the time goes down as it passes.
    third = at_most(limited, 3.0)
    assert 0 < third.throttle_time_ms <= second.throttle_time_ms
    assert at_most(limited, 12.0).responses


def test_a_consumer_gets_no_more_at_once_than_fits_into_the_windows() -> None:
    limited = Limited(consumer_byte_rate=150)
    for _ in range(5):
        limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(400))]))
    first = at_most(limited)
    records = first.responses[0].partitions[0].records
    assert records is not None
    assert 800 < len(records) <= 150 * WINDOW_BYTES


def test_a_batch_that_is_larger_than_all_windows_passes_when_they_are_empty() -> None:
    limited = Limited(consumer_byte_rate=50)
    limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(5000))]))
    assert at_most(limited).responses
    assert at_most(limited).responses == []
    assert at_most(limited, 12.0).responses


def test_a_session_that_the_client_did_not_hear_of_does_not_begin() -> None:
    limited = Limited(consumer_byte_rate=150)
    limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(1200))]))
    at_most(limited)
    answer = limited.fetch(asked(limited.broker, at(0), session=(0, 0)))
    assert answer.throttle_time_ms > 0
    assert answer.session_id == 0
    assert len(limited.broker.replicas.fetch_sessions) == 0


def test_a_session_goes_on_after_an_empty_answer_and_has_told_nothing() -> None:
    limited = Limited(consumer_byte_rate=150)
    begun = limited.fetch(asked(limited.broker, at(0), session=(0, 0)))
    assert begun.session_id
    limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(1200))]))
    at_most(limited)
    empty = limited.fetch(asked(limited.broker, session=(begun.session_id, 1)))
    assert empty.throttle_time_ms > 0
    assert empty.responses == []
    assert empty.session_id == begun.session_id
    limited.broker.scheduler.run_for(15)
    told = limited.fetch(asked(limited.broker, session=(begun.session_id, 2)))
    assert told.responses[0].partitions[0].high_watermark == 1


def test_a_follower_is_not_limited() -> None:
    limited = Limited(consumer_byte_rate=1, request_percentage=0.0001)
    limited.broker.append("t", 0, build_batch([Record(timestamp=1, value=bytes(5000))]))
    for _ in range(3):
        answer = limited.fetch(asked(limited.broker, at(0), replica_id=2))
        assert answer.throttle_time_ms == 0
    assert limited.muted_ms == []


# The time of requests


class Ticking:
    """A clock that goes on whenever it is read."""

    def __init__(self, step: float) -> None:
        self.now = 100.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


CREATION = CreateTopicsRequest(topics=[CreatableTopic(name="n")], timeout_ms=1000)


def slow(limited: Limited, step: float) -> None:
    limited.broker.services.quotas = limited.quotas = ClientQuotas(Ticking(step))
    image, limited.image = limited.image, MetadataImage()
    limited.quotas.changed(image, difference(MetadataImage(), image))
    limited.dispatcher = BrokerDispatcher(limited.broker.services)


def test_time_counts_and_nobody_waits_longer_than_a_window_for_it() -> None:
    limited = Limited(request_percentage=1)
    slow(limited, 0.2)
    waits = []
    for _ in range(4):
        answer = limited.send(DescribeClusterRequest(), 2)
        waits.append(_read(answer, DescribeClusterResponse, 2).throttle_time_ms)
    assert waits[0] > 0
    assert waits[-1] == 1000
    assert limited.muted_ms == waits


def test_next_to_no_share_of_the_time_is_a_wait_of_one_window() -> None:
    limited = Limited(request_percentage=1e-308)
    slow(limited, 0.5)
    limited.send(MetadataRequest(topics=[]), 1)
    assert limited.muted_ms == [1000]


def test_an_old_client_that_cannot_be_told_is_not_read_either() -> None:
    limited = Limited(request_percentage=1)
    slow(limited, 0.5)
    for _ in range(2):
        limited.send(MetadataRequest(topics=[]), 1)
    assert limited.muted_ms


def test_nodes_are_exempt_and_who_is_none_is_not() -> None:
    limited = Limited(request_percentage=0.01)
    slow(limited, 0.5)
    limited.send(WriteTxnMarkersRequest(), 1)
    assert limited.muted_ms == []
    Acls(limited.broker)
    limited.peer.principal = Principal("User", "mallory")
    limited.send(WriteTxnMarkersRequest(), 1)
    assert limited.muted_ms == [1000]


def test_nobody_is_exempt_before_the_acls_are_known_and_nobody_is_cut_off() -> None:
    limited = Limited(request_percentage=0.01)
    slow(limited, 0.5)
    settings = AuthorizerSettings(frozenset({"User:root"}), allow_everyone=False)
    audit = Audit(limited.broker.scheduler.call_later)
    limited.broker.services.authorizer = StandardAuthorizer(settings, audit)
    limited.send(WriteTxnMarkersRequest(), 1)
    assert limited.muted_ms == [1000]


# Changes of metadata


def context(version: int) -> RequestContext:
    return RequestContext(version=version, client_id="c", principal=Principal("User", "u"))


def test_changes_are_refused_when_there_are_no_tokens_left() -> None:
    limited = Limited(controller_mutation_rate=2)
    charge = limited.quotas.charge(context(7), strict=True)
    charge(20)
    charge(10)
    with pytest.raises(ThrottlingQuotaExceeded):
        charge(1)
    assert charge.throttle_ms == 4000
    limited.broker.scheduler.run_for(1.5)
    assert charge.throttle_ms == 2500
    later = limited.quotas.charge(context(7), strict=True)
    limited.broker.scheduler.run_for(2.5)
    later(1)


def test_an_old_client_is_not_refused_and_waits() -> None:
    limited = Limited(controller_mutation_rate=2)
    charge = limited.quotas.charge(context(5), strict=False)
    charge(30)
    charge(10)
    assert charge.throttle_ms == 9000


@pytest.mark.parametrize("rate", [1e-6, 1e-308])
def test_changes_at_next_to_no_rate_wait_as_long_as_can_be_told(rate: float) -> None:
    charge = Limited(controller_mutation_rate=rate).quotas.charge(context(5), strict=False)
    charge(10)
    assert charge.throttle_ms == WAIT_MS_MAX


def test_what_the_controller_says_of_waiting_holds_here() -> None:
    """It may be in another process: its answer says so."""
    limited = Limited(controller_mutation_rate=2)
    charge = limited.quotas.charge(
        RequestContext(version=7, client_id="c", principal=limited.peer.principal), strict=False
    )
    charge(30)
    limited.broker.controller.answers.append(CreateTopicsResponse())
    limited.broker.services.quotas.charge = lambda *_, **__: charge  # type: ignore[method-assign]
    answer = limited.send(CREATION, 7)
    assert _read(answer, CreateTopicsResponse, 7).throttle_time_ms == 4000
    assert limited.muted_ms == [4000]


class ControllerElsewhere:
    """Answers a request that was forwarded with what a test has prepared."""

    local = None

    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def forward(
        self, _request: bytes, _context: RequestContext, _timeout_ms: int | None
    ) -> Promise[bytes]:
        return fulfilled(TURN, self._answer)


@pytest.mark.parametrize(("told_ms", "muted"), [(0, []), (4000, [4000])])
def test_a_client_waits_as_long_as_a_controller_elsewhere_says(
    told_ms: int, muted: list[int]
) -> None:
    limited = Limited(controller_mutation_rate=2)
    response = CreateTopicsResponse(throttle_time_ms=told_ms)
    body = pack(">iB", 7, 0) + to_bytes(response, 7)
    limited.broker.services.forwarding = ControllerElsewhere(body)
    answer = limited.send(CREATION, 7)
    assert _read(answer, CreateTopicsResponse, 7).throttle_time_ms == told_ms
    assert limited.muted_ms == muted


def test_an_envelope_says_it_and_the_connection_of_the_broker_is_not_muted() -> None:
    limited = Limited(controller_mutation_rate=2)
    quotas = limited.quotas
    client = RequestContext(version=7, client_id="c", principal=Principal("User", "u"))
    quotas.charge(client, strict=False)(30)
    controller = limited.broker.controller

    def pay(request: Message, _client: object = None, *, charge: Charge) -> Promise[Message]:
        with pytest.raises(ThrottlingQuotaExceeded):
            charge(1)
        return fulfilled(TURN, CreateTopicsResponse())

    controller.submit = pay  # type: ignore[method-assign, assignment]
    header = Writer()
    encode_request_header(header, api_key=19, version=7, correlation_id=7, client_id="c")
    sealed = seal(header.getvalue() + to_bytes(CREATION, 7), client)
    answer = limited.broker.ask(envelope, sealed, 0, EnvelopeResponse, limited.peer)
    assert answer.response_data is not None
    found, _ = from_buffer(CreateTopicsResponse, answer.response_data, 5, 7)
    assert found.throttle_time_ms == 4000
    assert limited.muted_ms == []


# Where the time stands in an answer


@pytest.mark.parametrize("of_controller", [False, True])
def test_every_answer_that_has_a_place_for_the_time_gets_it(of_controller: bool) -> None:
    seen = 0
    for key in served(of_controller=of_controller):
        contract = load(key, of_controller=of_controller)
        for version in range(contract.lowest, contract.highest + 1):
            flexible = version >= contract.flexible_from and key != 18
            head = pack(">i", 7) + (b"\0" if flexible else b"")
            plain = head + to_bytes(contract.response(), version)
            framed: Answer = pack(">i", len(plain)) + plain
            told = with_throttle_time(framed, contract.response, version, 1234)
            assert isinstance(told, bytes)
            assert len(told) == len(framed)
            message, _ = from_buffer(contract.response, told, 4 + len(head), version)
            expected = contract.response()
            if told != framed:
                seen += 1
                expected.throttle_time_ms = 1234  # type: ignore[attr-defined]
            assert message == expected
            if told != framed and throttle_time_ms(told, contract.response, version):
                assert throttle_time_ms(told, contract.response, version) == 1234
    assert seen > 60


def test_records_in_files_stay_where_they_are() -> None:
    parts: Answer = [pack(">ii", 100, 7) + bytes(5), b"records"]
    told = with_throttle_time(parts, FetchResponse, 11, 9)
    assert told == [pack(">iii", 100, 7, 9) + bytes(1), b"records"]
