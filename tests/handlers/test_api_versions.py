"""ApiVersions says what the dispatcher serves, to clients of every age."""

from importlib.resources import files
from typing import Any, cast

import pytest
from tests.handlers.broker import Broker

from ottla.common.errors import ErrorCode
from ottla.handlers import api_versions
from ottla.metadata.features import FeaturesImage
from ottla.metadata.image import MetadataImage
from ottla.protocol.api import APIS, BROKER, CONTROLLER, ApiKey
from ottla.protocol.generated.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.message import from_bytes, to_bytes
from ottla.requests.context import RequestContext
from ottla.requests.table import HANDLERS, load, served


def ask(broker: Broker, version: int, name: str = "x", software: str = "1") -> ApiVersionsResponse:
    request = ApiVersionsRequest()
    if version >= 3:
        request = ApiVersionsRequest(client_software_name=name, client_software_version=software)
    return broker.ask(api_versions, request, version, ApiVersionsResponse)


@pytest.mark.parametrize("version", range(5))
def test_the_list_is_the_table_of_the_dispatcher(version: int) -> None:
    listed = ask(Broker(), version).api_keys
    assert [api.api_key for api in listed] == served(of_controller=False)


@pytest.mark.parametrize("of_controller", [False, True])
def test_each_handler_serves_the_versions_that_are_advertised(of_controller: bool) -> None:
    for key in served(of_controller=of_controller):
        contract = load(key, of_controller=of_controller)
        advertised = api_versions._advertised(key)
        lowest = 0 if key == ApiKey.PRODUCE else contract.lowest
        assert (advertised.min_version, advertised.max_version) == (lowest, contract.highest)
        assert contract.key == key
        assert (CONTROLLER if of_controller else BROKER) in contract.listeners


@pytest.mark.parametrize("key", sorted(HANDLERS))
def test_each_handler_speaks_of_its_versions(key: ApiKey) -> None:
    # Of the source: a compiled module has no docstring.
    text = (files("ottla.handlers") / f"{HANDLERS[key]}.py").read_text().split('"""')[1]
    assert f"(key {int(key)})" in text
    assert f"v{APIS[key].highest_stable_version}" in text


def test_produce_is_said_to_begin_at_0() -> None:
    produce = ask(Broker(), 4).api_keys[0]
    assert (produce.api_key, produce.min_version, produce.max_version) == (0, 0, 13)


def test_an_unstable_version_is_not_advertised() -> None:
    versions = {api.api_key: api.max_version for api in ask(Broker(), 4).api_keys}
    assert versions[ApiKey.INIT_PRODUCER_ID] == 5


def test_features_are_told_from_version_3_on_and_those_from_level_0_from_4_on() -> None:
    broker = Broker()
    assert [f.name for f in ask(broker, 3).supported_features] == ["metadata.version"]
    supported = {f.name: (f.min_version, f.max_version) for f in ask(broker, 4).supported_features}
    assert supported["metadata.version"] == (7, 30)
    assert supported["transaction.version"] == (0, 2)
    assert ask(broker, 2).supported_features == []


def test_finalized_features_come_with_the_offset_at_which_they_hold() -> None:
    answer = ask(Broker(), 4)
    assert answer.finalized_features_epoch == 55
    levels = {f.name: (f.min_version_level, f.max_version_level) for f in answer.finalized_features}
    assert levels == {
        "group.version": (1, 1),
        "kraft.version": (1, 1),
        "metadata.version": (30, 30),
    }


def test_before_any_metadata_no_feature_is_finalized() -> None:
    broker = Broker()
    broker.metadata.image = MetadataImage()
    answer = ask(broker, 4)
    assert (answer.finalized_features_epoch, answer.finalized_features) == (-1, [])


@pytest.mark.parametrize(
    ("name", "software"),
    [("", "1"), ("x", ""), ("a b", "1"), ("-x", "1"), ("x-", "1"), ("a_b", "1"), ("ä", "1")],
)
def test_a_client_with_an_odd_name_is_refused(name: str, software: str) -> None:
    answer = ask(Broker(), 3, name, software)
    assert (answer.error_code, answer.api_keys) == (ErrorCode.INVALID_REQUEST, [])


def test_a_client_of_the_past_need_not_say_its_name() -> None:
    assert ask(Broker(), 2).error_code == ErrorCode.NONE


def test_a_client_of_the_future_is_told_which_versions_there_are() -> None:
    answer = api_versions.unsupported()
    read = from_bytes(ApiVersionsResponse, to_bytes(answer, 0), 0)
    assert read.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(a.api_key, a.min_version, a.max_version) for a in read.api_keys] == [(18, 0, 4)]


def test_an_answer_is_made_anew_when_what_it_says_has_changed() -> None:
    broker = Broker()

    def told() -> tuple[int, dict[str, int]]:
        answer = ask(broker, 4)
        assert ask(broker, 3) != answer
        levels = {each.name: each.max_version_level for each in answer.finalized_features}
        return answer.finalized_features_epoch, levels

    before = {"group.version": 1, "kraft.version": 1, "metadata.version": 30}
    assert told() == told() == (55, before)
    broker.set_image(offset=56)
    assert told() == (56, before)
    broker.set_image(features=FeaturesImage(metadata_version=30, finalized={"group.version": 0}))
    assert told() == (56, {**before, "group.version": 0})
    broker.services.raft = cast("Any", OldQuorum())
    assert told() == (56, {"group.version": 0, "metadata.version": 30})
    context = RequestContext(version=4, of_controller=True)
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    answer = api_versions.handle(request, context, broker.services)
    listed = from_bytes(ApiVersionsResponse, b"".join(answer.parts), 4).api_keys
    assert [api.api_key for api in listed] == served(of_controller=True)


class OldQuorum:
    kraft_version = 0
