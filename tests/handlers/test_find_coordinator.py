"""FindCoordinator in every version: the topic is made at the first question."""

import pytest
from tests.handlers.broker import Broker, Peer, registered
from tests.handlers.groups import GroupBroker
from tests.turns import TURN

from ottla.common.authorization import Client
from ottla.common.errors import ApiError, ErrorCode
from ottla.common.promise import Promise
from ottla.handlers import find_coordinator
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)


def request_of(version: int, *keys: str, key_type: int = 0) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def found(
    broker: Broker, version: int, *keys: str, key_type: int = 0, peer: Peer | None = None
) -> list[tuple[int, int, str, int]]:
    """Code, node, host and port for each key."""
    request = request_of(version, *keys, key_type=key_type)
    response = broker.ask(find_coordinator, request, version, FindCoordinatorResponse, peer)
    answers = [response] if version < 4 else response.coordinators
    return [(each.error_code, each.node_id, each.host, each.port) for each in answers]


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_coordinated_by_the_leader_of_its_partition(version: int) -> None:
    assert found(GroupBroker(), version, "g") == [(0, 1, "10.0.0.1", 9092)]


@pytest.mark.parametrize("version", range(4, 7))
def test_several_keys_are_answered_in_their_order(version: int) -> None:
    broker = GroupBroker()
    request = request_of(version, "b", "a", "")
    response = broker.ask(find_coordinator, request, version, FindCoordinatorResponse)
    assert [each.key for each in response.coordinators] == ["b", "a", ""]
    assert {each.error_code for each in response.coordinators} == {ErrorCode.NONE}


class TopicsOnRequest:
    """Makes an internal topic when the test says so."""

    def __init__(self) -> None:
        self.asked: dict[str, Promise[int]] = {}

    def create(self, names: list[str], client: Client) -> Promise[dict[str, int]]:
        raise AssertionError(names, client)

    def ensure_internal(self, name: str) -> Promise[int]:
        return self.asked.setdefault(name, Promise(TURN))


@pytest.mark.parametrize(
    ("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")]
)
def test_the_first_question_waits_for_the_topic(key_type: int, topic: str) -> None:
    broker = Broker()
    topics = TopicsOnRequest()
    broker.services.auto_topics = topics
    promise = broker.start(find_coordinator, request_of(4, "g", key_type=key_type), 4)
    assert not promise.done
    broker.add_topic(topic, 5)
    topics.asked[topic].fulfil(ErrorCode.NONE)
    response = promise.result()
    assert isinstance(response, FindCoordinatorResponse)
    assert response.coordinators[0].node_id == 1


@pytest.mark.parametrize("version", [1, 6])
def test_a_topic_that_cannot_be_made_means_no_coordinator(version: int) -> None:
    broker = Broker()
    topics = TopicsOnRequest()
    topics.ensure_internal("__consumer_offsets").fulfil(ErrorCode.INVALID_REPLICATION_FACTOR)
    broker.services.auto_topics = topics
    assert found(broker, version, "g") == [(15, -1, "", -1)]


def test_without_a_leader_that_the_client_can_reach_there_is_no_coordinator() -> None:
    broker = Broker()
    broker.add_topic("__consumer_offsets", leader=-1)
    assert found(broker, 4, "g") == [(15, -1, "", -1)]
    broker = Broker()
    broker.add_topic("__consumer_offsets", replicas=(2,), leader=2)
    assert found(broker, 4, "g") == [(15, -1, "", -1)], "it is not registered"
    broker.set_image(brokers={1: registered(1), 2: registered(2, fenced=True)})
    assert found(broker, 4, "g") == [(15, -1, "", -1)]
    broker.set_image(brokers={1: registered(1), 2: registered(2)})
    assert found(broker, 4, "g") == [(0, 2, "broker-2", 9092)]
    assert found(broker, 4, "g", peer=Peer("OTHER")) == [(15, -1, "", -1)]


@pytest.mark.parametrize(("version", "key_type"), [(3, 9), (5, 2), (6, 2), (6, 3)])
def test_keys_of_other_types_are_refused(version: int, key_type: int) -> None:
    assert found(Broker(), version, "g", key_type=key_type) == [(42, -1, "", -1)]


def test_versions_1_to_3_carry_a_message_beside_the_code() -> None:
    broker = GroupBroker()
    response = broker.ask(find_coordinator, request_of(3, "g"), 3, FindCoordinatorResponse)
    assert response.error_message == "NONE"


@pytest.mark.parametrize("version", [3, 4, 6])
def test_why_a_key_is_refused_is_told_in_words(version: int) -> None:
    request = request_of(version, "g", key_type=9)
    response = Broker().ask(find_coordinator, request, version, FindCoordinatorResponse)
    (told,) = [response] if version < 4 else response.coordinators
    assert told.error_message == "There is no coordinator for keys of this type."


@pytest.mark.parametrize("version", [3, 4])
def test_a_request_that_fails_as_a_whole_fails_for_each_key(version: int) -> None:
    refused = find_coordinator.refuse(request_of(version, "g"), ApiError("oh"), version)
    one = refused if version < 4 else refused.coordinators[0]
    assert (one.error_code, one.error_message, one.node_id) == (-1, "oh", -1)
