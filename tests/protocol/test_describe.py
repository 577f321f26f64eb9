"""Messages as JSON: what is refused, and the forms that have a choice."""

import math
from typing import Any

import pytest

from ottla.protocol.describe import from_json, to_json
from ottla.protocol.generated.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from ottla.protocol.generated.fetch import FetchRequest
from ottla.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.generated.metadata import MetadataRequest
from ottla.protocol.message import to_bytes

HEARTBEAT = {"groupId": "g", "generationId": 1, "memberId": "m", "groupInstanceId": None}


def test_fields_come_in_the_order_of_the_schema_under_camel_case_names() -> None:
    message = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert list(to_json(message, 3)) == list(HEARTBEAT)
    assert to_json(message, 3) == HEARTBEAT
    assert list(to_json(message, 2)) == ["groupId", "generationId", "memberId"]


def test_tagged_fields_appear_only_where_they_differ_from_their_default() -> None:
    request = FetchRequest()
    assert "clusterId" not in to_json(request, 15)
    request.cluster_id = "c"
    request.replica_state.replica_id = 3
    assert to_json(request, 15)["clusterId"] == "c"
    assert to_json(request, 15)["replicaState"] == {"replicaId": 3, "replicaEpoch": -1}


@pytest.mark.parametrize(
    ("value", "text"), [(math.inf, "Infinity"), (-math.inf, "-Infinity"), (math.nan, "NaN")]
)
def test_numbers_that_json_does_not_have_are_strings(value: float, text: str) -> None:
    entry = AlterClientQuotasRequestEntryData(ops=[OpData(key="k", value=value)])
    request = AlterClientQuotasRequest(entries=[entry])
    form = to_json(request, 1)
    assert form["entries"][0]["ops"][0]["value"] == text
    assert to_bytes(from_json("AlterClientQuotasRequest", form, 1), 1) == to_bytes(request, 1)


def test_a_whole_number_may_stand_for_a_float() -> None:
    ops = [{"key": "k", "value": 5, "remove": False}]
    form = {"entries": [{"entity": [], "ops": ops}], "validateOnly": False}
    request = from_json("AlterClientQuotasRequest", form, 0)
    assert isinstance(request, AlterClientQuotasRequest)
    assert request.entries[0].ops[0].value == 5.0


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"groupId": 5}, "HeartbeatRequest.groupId: str is expected, not 5"),
        ({"groupId": None}, "HeartbeatRequest.groupId: must not be null in version 3"),
        ({"generationId": "1"}, "HeartbeatRequest.generationId: int32 is expected, not '1'"),
        ({"generationId": 1.5}, "HeartbeatRequest.generationId: int32 is expected, not 1.5"),
        ({"generationId": True}, "HeartbeatRequest.generationId: int32 is expected, not True"),
        (
            {"generationId": 1 << 31},
            "HeartbeatRequest.generationId: int32 is expected, not 2147483648",
        ),
        ({"color": "red"}, "HeartbeatRequest: version 3 has no field 'color'"),
    ],
)
def test_what_does_not_fit_a_field_is_named(change: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^Heartbeat") as error:
        from_json("HeartbeatRequest", {**HEARTBEAT, **change}, 3)
    assert str(error.value) == complaint


def test_a_missing_field_is_named() -> None:
    form = {key: value for key, value in HEARTBEAT.items() if key != "memberId"}
    with pytest.raises(ValueError, match=r"memberId: missing, and mandatory in version 3"):
        from_json("HeartbeatRequest", form, 3)


@pytest.mark.parametrize(
    ("name", "form", "complaint"),
    [
        ("HeartbeatResponse", [], "HeartbeatResponse: an object is expected"),
        ("SyncGroupResponse", {"errorCode": 0, "assignment": "?"}, "assignment: not base64"),
        ("SyncGroupResponse", {"errorCode": 0, "assignment": "€"}, "assignment: not base64"),
        ("MetadataRequest", {"topics": {}}, "topics: an array is expected"),
        ("MetadataRequest", {"topics": [5]}, r"topics\[0\]: an object is expected"),
        ("BeginTransactionRecord", {"name": 5}, "str is expected"),
        ("TopicRecord", {"name": "t", "topicId": "?"}, "not a UUID"),
        ("NoSuchRequest", {}, "no message is called 'NoSuchRequest'"),
    ],
)
def test_json_that_is_no_such_message_is_refused(name: str, form: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json(name, form, 0)


def test_a_version_that_does_not_exist_is_refused_both_ways() -> None:
    with pytest.raises(ValueError, match="HeartbeatResponse has no version 5, only 0 to 4"):
        to_json(HeartbeatResponse(), 5)
    with pytest.raises(ValueError, match="HeartbeatResponse has no version 5, only 0 to 4"):
        from_json("HeartbeatResponse", {}, 5)


def test_a_value_that_the_version_lacks_has_no_json() -> None:
    with pytest.raises(ValueError, match=r"HeartbeatRequest\.group_instance_id"):
        to_json(HeartbeatRequest(group_instance_id="i"), 2)
    with pytest.raises(ValueError, match="topics must not be null"):
        to_json(MetadataRequest(topics=None), 0)
    assert to_json(HeartbeatResponse(throttle_time_ms=5), 0) == {"errorCode": 0}
