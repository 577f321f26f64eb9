"""Who may do what: every API that is served, asked of both by people with and without ACLs.

Each cell of the matrix is a row of :mod:`tests.differential.access_rows`, a person and a listener.
A person has ACLs for that row alone, so all of them are made at once, before the first question.
The verdict, the code, and what is left out of an answer are compared, with all else in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pytest
from tests.differential.access_rows import HELD, OPEN, ROWS, SHUT, Need, Row
from tests.differential.comparing import report
from tests.differential.conftest import TARGET
from tests.differential.history import batch
from tests.differential.pair import Id, Pair, partition_data
from tests.differential.secured_side import ADMIN, Acl, Asker, SecuredSide, settings
from tests.differential.wire import API_BY_NAME
from tests.waiting import eventually
from tools.kafka_peer.broker_process import (
    BrokerProcess,
    apache_kafka,
    ottla,
    random_cluster_id,
)

from ottla.common.authorization import AclOperation, PatternType, Permission, ResourceType
from ottla.protocol.api import ApiKey
from ottla.requests.table import served

pytestmark = pytest.mark.timeout(600)

Json = Any
AT: Final = {"broker": False, "controller": True}
SUPER: Final = "super"
MODES: Final = (
    "none", "allow", "deny", "prefixed", "wildcard", "elsewhere", "everything", "from-here",
    "from-there", "not-described",
)  # fmt: skip


class Cell(NamedTuple):
    """A row and a person: ``without-2`` has all that is needed but the second."""

    number: int
    mode: str

    @property
    def row(self) -> Row:
        return ROWS[self.number]

    @property
    def name(self) -> str:
        return f"r{self.number}.{self.mode}"

    @property
    def user(self) -> str:
        return ADMIN if self.mode == SUPER else self.name

    def filled(self, value: Json) -> Json:
        """With the name of the cell where it belongs."""
        if isinstance(value, Id):
            return Id(self.filled(value.topic))
        if isinstance(value, dict):
            return {key: self.filled(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.filled(one) for one in value]
        return value.replace("{c}", self.name) if isinstance(value, str) else value

    def acls(self) -> Iterator[Acl]:
        for at, need in enumerate(self.row.needs):
            if self.mode != f"without-{at + 1}":
                yield from self._acls(need)

    def _acls(self, need: Need) -> Iterator[Acl]:
        name = self.filled(need.name)
        literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
        allow, deny = Permission.ALLOW, Permission.DENY
        is_cluster = need.kind is ResourceType.CLUSTER

        acl = Acl(need.kind, name, literal, f"User:{self.user}", need.operation, allow)
        short = acl._replace(resource_name=name if is_cluster else name[:2])
        if self.mode in {"allow", "deny", "not-described"} or self.mode.startswith("without"):
            yield acl
        if self.mode == "deny":
            yield short._replace(resource_pattern_type=prefixed, permission_type=deny)
        if self.mode == "prefixed":
            yield short._replace(resource_pattern_type=prefixed)
        if self.mode == "wildcard":
            yield acl._replace(resource_name=name if is_cluster else "*")
        if self.mode == "elsewhere" and not is_cluster:
            yield acl._replace(resource_name=f"{name}.", resource_pattern_type=prefixed)
        if self.mode == "everything":
            yield acl._replace(operation=AclOperation.ALL)
        if self.mode == "from-here":
            yield acl._replace(host="127.0.0.1")
        if self.mode == "from-there":
            yield acl._replace(host="127.0.0.2")
        if self.mode == "not-described":
            yield acl._replace(operation=AclOperation.DESCRIBE, permission_type=deny)


def cells() -> Iterator[Cell]:
    known = {ApiKey(key) for at in AT.values() for key in served(of_controller=at)}
    for number, row in enumerate(ROWS):
        if API_BY_NAME[row.api].key not in known:
            continue
        modes = MODES if row.needs else ("none",)
        for mode in modes:
            yield Cell(number, mode)
        if len(row.needs) > 1:
            yield from (Cell(number, f"without-{at + 1}") for at in range(len(row.needs)))
        yield Cell(number, SUPER)


CELLS: Final = tuple(cells())


def history(side: SecuredSide, *names: str) -> None:
    """The topics; a group with offsets of two of them, and a transaction with both."""
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    made = side.as_admin("CreateTopics", 7, topics=topics, timeout_ms=60_000)
    assert {each["errorCode"] for each in made["topics"]} == {0}, made
    for name in names:
        side.topic_id(name)
    eventually(lambda: _is_written(side), "a leader")
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    offsets = [{"name": name, "partitions": partitions} for name in (OPEN, SHUT)]
    commit = {"group_id": HELD, "generation_id_or_member_epoch": -1, "topics": offsets}
    for kind in (0, 1):
        side.as_admin("FindCoordinator", 4, key_type=kind, coordinator_keys=[HELD])
    eventually(lambda: _succeeds(side, "OffsetCommit", 9, **commit), "a group")
    eventually(lambda: _begins(side), "a transaction")
    member = {"group_id": "new-held", "member_id": "held", "member_epoch": 0,
              "rebalance_timeout_ms": 300_000, "topic_partitions": [],
              "subscribed_topic_names": [OPEN, SHUT]}  # fmt: skip
    eventually(lambda: _succeeds(side, "ConsumerGroupHeartbeat", 1, **member), "a member")


def _is_written(side: SecuredSide) -> bool:
    data = [partition_data(name, 0, batch()) for name in (OPEN, SHUT)]
    answer = side.as_admin("Produce", 9, acks=-1, timeout_ms=10_000, topic_data=data[:1])
    if answer["responses"][0]["partitionResponses"][0]["errorCode"]:
        return False
    side.as_admin("Produce", 9, acks=-1, timeout_ms=10_000, topic_data=data[1:])
    return True


def _succeeds(side: SecuredSide, api: str, version: int, **fields: Json) -> bool:
    answer = side.as_admin(api, version, **fields)
    codes = [answer.get("errorCode", 0)]
    codes += [p["errorCode"] for each in answer.get("topics", []) for p in each["partitions"]]
    return not any(codes)


def _begins(side: SecuredSide) -> bool:
    wanted: dict[str, Json] = {
        "transactional_id": HELD,
        "transaction_timeout_ms": 900_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    given = side.as_admin("InitProducerId", 4, **wanted)
    if given["errorCode"]:
        return False
    answer = side.as_admin(
        "AddPartitionsToTxn", 3, v3_and_below_transactional_id=HELD,
        v3_and_below_producer_id=given["producerId"],
        v3_and_below_producer_epoch=given["producerEpoch"],
        v3_and_below_topics=[{"name": name, "partitions": [0]} for name in (OPEN, SHUT)],
    )  # fmt: skip
    found = answer["resultsByTopicV3AndBelow"]
    return all(p["partitionErrorCode"] == 0 for t in found for p in t["resultsByPartition"])


@dataclass(slots=True)
class SecuredPair(Pair):
    ours: SecuredSide
    theirs: SecuredSide
    cells: list[Cell] = field(default_factory=list)


LITERAL_ONLY: Final = ("none", "allow", SUPER)


def those(*, everyone: bool) -> list[Cell]:
    """With ``everyone`` some resources must have no ACL at all: none is of many names."""
    return [
        cell
        for cell in CELLS
        if not everyone or cell.mode in LITERAL_ONLY or cell.mode.startswith("without")
    ]


@pytest.fixture(scope="module", params=["nobody", "everyone"])
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SecuredPair]:
    """What has no ACL is allowed to nobody, or, by ``allow.everyone.if.no.acl.found``, to all."""
    everyone = request.param == "everyone"
    cells = those(everyone=everyone)
    default = {"allow.everyone.if.no.acl.found": str(everyone).lower()}
    cluster_id = random_cluster_id()
    theirs = apache_kafka(heap=("-Xmx512M",))
    ours = theirs if TARGET == "kafka" else ottla()
    people = sorted({cell.user for cell in cells} - {ADMIN})
    brokers = [
        BrokerProcess(
            program, tmp_path_factory.mktemp(name), {**settings(people), **default}, cluster_id
        )
        for name, program in (("ours", ours), ("theirs", theirs))
    ]
    topics = {name for cell in cells for name in cell.filled(cell.row.topics)}
    somebody = Acl(2, "new-a", 3, "User:somebody", AclOperation.CREATE, Permission.ALLOW)
    acls = [somebody, *(acl for cell in cells if cell.mode != SUPER for acl in cell.acls())]
    try:
        for broker in brokers:
            broker.start()
        sides = SecuredSide(brokers[0]), SecuredSide(brokers[1])
        for side in sides:
            history(side, OPEN, SHUT, *sorted(topics))
            side.add(acls)
        yield SecuredPair(*sides, cells=cells)
    finally:
        for broker in brokers:
            broker.kill()


@dataclass
class Question:
    """One cell on one listener, asked of both in each version."""

    pair: SecuredPair
    cell: Cell
    at: str

    def ask(self) -> None:
        row = self.cell.row
        api = API_BY_NAME[row.api]
        is_served = api.key in served(of_controller=AT[self.at])
        if not is_served and self.cell.mode != SUPER:
            return
        sides = self.pair.ours, self.pair.theirs
        askers = [Asker(side.ports[self.at], self.cell.user) for side in sides]
        fields = self.cell.filled(dict(row.fields))
        versions = row.versions or range(api.lowest_version, api.highest_stable_version + 1)
        for version in versions if is_served else versions[-1:]:
            self.pair.asked += 1
            ours, theirs = (
                side.outcome_for(asker, row.api, version, fields, answered=row.answered)
                for side, asker in zip(sides, askers, strict=True)
            )
            scenario = f"{row.what}, {self.cell.mode}, {self.at}"
            self.pair.compare(row.api, version, scenario, ours, theirs)
        for asker in askers:
            asker.close()


def test_both_let_the_same_people_do_the_same(secured: SecuredPair) -> None:
    for cell in secured.cells:
        for at in cell.row.at:
            Question(secured, cell, at).ask()
    unexplained = secured.unexplained()
    lines = "\n  ".join(report(unexplained))
    assert not unexplained, (
        f"{len(unexplained)} differences in {secured.asked} requests:\n  {lines}"
    )


@pytest.mark.parametrize("at", AT)
def test_each_api_that_is_served_is_asked(at: str) -> None:
    asked = {row.api for row in ROWS if at in row.at}
    names = {api.name for api in API_BY_NAME.values() if api.key in served(of_controller=AT[at])}
    assert names <= asked
