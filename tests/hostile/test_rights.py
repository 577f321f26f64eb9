"""Rights that are taken away are gone, on connections that were there before too."""

from typing import Any, Final

import pytest
from tests.differential.history import batch
from tests.differential.pair import wait_for_leaders
from tests.differential.wire import Connection, ask
from tests.hostile.secured import SecuredBroker, logged_in
from tests.hostile.test_fuzz import create_target
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("bystander")

Json = Any
TOPIC: Final = "target"
DENIED: Final = 29
READ, WRITE, DENY, ALLOW = 3, 4, 2, 3


def acl(operation: int, permission: int = ALLOW) -> dict[str, Json]:
    return {"resource_type": 2, "resource_name": TOPIC, "resource_pattern_type": 3,
            "principal": "User:bob", "host": "*", "operation": operation,
            "permission_type": permission}  # fmt: skip


def grant(port: int, *acls: dict[str, Json]) -> None:
    made = ask(port, "CreateAcls", 3, creations=list(acls))
    assert {each["errorCode"] for each in made["results"]} == {0}


def revoke(port: int, each: dict[str, Json]) -> None:
    wanted = {
        "resource_type_filter": each["resource_type"],
        "resource_name_filter": each["resource_name"],
        "pattern_type_filter": each["resource_pattern_type"],
        "principal_filter": each["principal"],
        "host_filter": each["host"],
        "operation": each["operation"],
        "permission_type": each["permission_type"],
    }
    removed = ask(port, "DeleteAcls", 3, filters=[wanted])
    assert len(removed["filterResults"][0]["matchingAcls"]) == 1


def produced(connection: Connection) -> int:
    data = [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch()}]}]
    asked = {"acks": -1, "timeout_ms": 5000, "topic_data": data}
    answer = connection.ask("Produce", 9, asked)
    return int(answer["responses"][0]["partitionResponses"][0]["errorCode"])


def fetched(connection: Connection) -> int:
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    topics = [{"topic": TOPIC, "partitions": [partition]}]
    asked = {"replica_id": -1, "max_wait_ms": 10, "max_bytes": 1000, "topics": topics,
             "session_epoch": -1}  # fmt: skip
    answer = connection.ask("Fetch", 12, asked)
    return int(answer["responses"][0]["partitions"][0]["errorCode"])


def test_an_open_connection_loses_what_its_user_loses(secured: SecuredBroker) -> None:
    create_target(secured.port)
    wait_for_leaders(secured.port, TOPIC)
    with logged_in(secured.sasl, "bob", "bob-secret") as bob:
        assert (produced(bob), fetched(bob)) == (DENIED, DENIED)
        grant(secured.port, acl(WRITE), acl(READ))
        eventually(lambda: (produced(bob), fetched(bob)) == (0, 0), "rights", seconds=10)
        revoke(secured.port, acl(WRITE))
        eventually(lambda: produced(bob) == DENIED, "no right to write", seconds=10)
        assert fetched(bob) == 0, "one of two was removed"
        grant(secured.port, acl(READ, DENY))
        eventually(lambda: fetched(bob) == DENIED, "a deny that counts", seconds=10)
        revoke(secured.port, acl(READ, DENY))
        eventually(lambda: fetched(bob) == 0, "no deny any more", seconds=10)
        assert produced(bob) == DENIED
        revoke(secured.port, acl(READ))
        eventually(lambda: fetched(bob) == DENIED, "no rights at all", seconds=10)
