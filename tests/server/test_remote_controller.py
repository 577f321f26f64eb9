"""The active controller is found wherever it is, and asked again while there is none."""

from typing import Any, TypeVar

import pytest
from tests.turns import TURN

from ottla.common.authorization import Principal
from ottla.common.errors import ApiError, NotController, RequestTimedOut, StaleBrokerEpoch
from ottla.common.promise import Promise
from ottla.handlers.envelope import unseal
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ottla.protocol.generated.create_topics import CreatableTopicResult, CreateTopicsResponse
from ottla.protocol.generated.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.generated.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.protocol.message import Message, Request, Response, from_bytes
from ottla.raft.channel import Destination
from ottla.requests.context import RequestContext
from ottla.requests.framing import frame_response
from ottla.server.remote_controller import RemoteController, checked
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode

R = TypeVar("R", bound=Response)
TIMEOUT_MS = 10_000
REQUEST = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)


class Channel:
    """Notes who is asked what, and answers when the test says so."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Promise[Any]]] = []
        self.requests: list[Message] = []

    def send(self, destination: Destination, request: Request[R]) -> Promise[R]:
        promise: Promise[R] = Promise(TURN)
        self.requests.append(request)
        self.asked.append((destination.node_id, promise))
        return promise


class Asking:
    """A broker of a real quorum of three asks its controller by a channel of ours."""

    def __init__(self, seed: int) -> None:
        self.cluster = SimulatedCluster(seed, 1, roles="separate")
        self.cluster.start()
        raft = self.cluster.brokers[0].raft
        assert raft is not None
        self.raft = raft
        self.channel = Channel()
        self.controller = RemoteController(
            raft=raft,
            channel=self.channel,
            scheduler=self.cluster.brokers[0].scheduler,
            timeout_ms=TIMEOUT_MS,
        )
        self.answer = self.controller.submit(REQUEST)

    @property
    def leader(self) -> SimulatedNode:
        assert self.cluster.run_until(lambda: self.cluster.raft_leader() is not None, 30)
        found = self.cluster.raft_leader()
        assert found is not None
        return found

    def answered(self) -> AllocateProducerIdsResponse:
        assert self.cluster.run_until(lambda: self.answer.done, 30)
        return self.answer.result()


@pytest.fixture
def asking() -> Asking:
    return Asking(1)


def test_who_leads_the_quorum_is_asked(asking: Asking) -> None:
    ((node_id, promise),) = asking.channel.asked
    assert node_id == asking.leader.node_id
    promise.fulfil(AllocateProducerIdsResponse(producer_id_start=7))
    assert asking.answered().producer_id_start == 7


def test_a_refusal_is_the_answer(asking: Asking) -> None:
    code = StaleBrokerEpoch.code
    asking.channel.asked[0][1].fulfil(AllocateProducerIdsResponse(error_code=code))
    with pytest.raises(StaleBrokerEpoch):
        asking.answered()
    assert len(asking.channel.asked) == 1


@pytest.mark.parametrize("how", ["refused", "unreachable", "of another version"])
def test_who_is_no_controller_is_asked_again_until_the_time_is_over(
    asking: Asking, how: str
) -> None:
    begun = asking.cluster.scheduler.now
    while not asking.answer.done:
        for _, promise in asking.channel.asked:
            if promise.done:
                continue
            if how == "refused":
                promise.fulfil(AllocateProducerIdsResponse(error_code=NotController.code))
            elif how == "unreachable":
                promise.fail(ConnectionRefusedError())
            else:
                promise.fail(ValueError("it does not speak our versions"))
        asking.cluster.run_for(0.1)
    assert asking.cluster.scheduler.now - begun == pytest.approx(TIMEOUT_MS / 1000, abs=0.5)
    assert len(asking.channel.asked) > 10
    with pytest.raises(RequestTimedOut):
        asking.answer.result()


def test_a_controller_that_is_silent_is_not_waited_for_when_another_leads(asking: Asking) -> None:
    first = asking.leader
    first.kill()
    assert asking.cluster.run_until(lambda: len(asking.channel.asked) > 1, 8)
    node_id, promise = asking.channel.asked[1]
    assert node_id == asking.leader.node_id != first.node_id
    promise.fulfil(AllocateProducerIdsResponse(producer_id_start=9))
    assert asking.answered().producer_id_start == 9


def test_a_silent_controller_costs_no_more_than_the_time(asking: Asking) -> None:
    begun = asking.cluster.scheduler.now
    with pytest.raises(RequestTimedOut):
        asking.answered()
    assert asking.cluster.scheduler.now - begun == pytest.approx(TIMEOUT_MS / 1000, abs=0.5)


def test_who_waits_is_refused_when_the_node_stops(asking: Asking) -> None:
    asking.raft.scheduler.turn.run(asking.controller.close)
    assert asking.answer.done
    with pytest.raises(ApiError):
        asking.answer.result()


def test_nothing_is_kept_of_what_was_answered(asking: Asking) -> None:
    for _ in range(100):
        asking.controller.submit(REQUEST)
    for _, promise in asking.channel.asked:
        promise.fulfil(AllocateProducerIdsResponse())
    assert not asking.controller._waiting


def test_a_topic_that_was_refused_by_no_controller_is_a_refusal_of_all() -> None:
    refused = CreatableTopicResult(name="t", error_code=NotController.code, configs=[])
    with pytest.raises(NotController):
        checked(CreateTopicsResponse(topics=[refused]))
    checked(
        CreateTopicsResponse(topics=[CreatableTopicResult(name="t", error_code=36, configs=[])])
    )


@pytest.mark.parametrize(("client_ms", "seconds"), [(2_000, 2.0), (60_000, TIMEOUT_MS / 1000)])
def test_who_waits_for_less_time_than_the_broker_would_is_answered_in_that_time(
    asking: Asking, client_ms: int, seconds: float
) -> None:
    begun = asking.cluster.scheduler.now
    answer = asking.controller.submit(REQUEST, timeout_ms=client_ms)
    assert asking.cluster.run_until(lambda: answer.done, 30)
    assert asking.cluster.scheduler.now - begun == pytest.approx(seconds, abs=0.2)
    with pytest.raises(RequestTimedOut):
        answer.result()


SETTINGS = IncrementalAlterConfigsRequest(
    resources=[AlterConfigsResource(resource_type=2, resource_name="t")]
)


def test_what_a_broker_asks_for_a_client_goes_in_an_envelope_with_its_principal(
    asking: Asking,
) -> None:
    alice = RequestContext(version=0, client_id="c", principal=Principal("User", "alice"))
    answer = asking.controller.submit(SETTINGS, alice)
    envelope = asking.channel.requests[-1]
    assert isinstance(envelope, EnvelopeRequest)
    found = unseal(envelope)
    assert (found.key, found.client_id) == (ApiKey.INCREMENTAL_ALTER_CONFIGS, "c")
    assert found.principal == Principal("User", "alice")
    version = found.version
    assert from_bytes(
        IncrementalAlterConfigsRequest, envelope.request_data[found.body_at :], version
    ) == (SETTINGS)
    done = IncrementalAlterConfigsResponse(
        responses=[AlterConfigsResourceResponse(resource_type=2, resource_name="t")]
    )
    framed = frame_response(done, found.key, version, found.correlation_id)
    asking.channel.asked[-1][1].fulfil(EnvelopeResponse(response_data=framed[4:]))
    assert asking.cluster.run_until(lambda: answer.done, 1)
    assert answer.result() == done


def test_an_envelope_that_no_controller_opened_is_sent_again(asking: Asking) -> None:
    answer = asking.controller.submit(SETTINGS, RequestContext(version=0))
    before = len(asking.channel.asked)
    asking.channel.asked[-1][1].fulfil(EnvelopeResponse(error_code=NotController.code))
    assert asking.cluster.run_until(lambda: len(asking.channel.asked) > before, 1)
    assert not answer.done
