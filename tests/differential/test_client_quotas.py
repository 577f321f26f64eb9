"""Client quotas: who is answered what about them, and how long who is over one must wait.

Throttle times are compared between two sequences of the same requests. They depend on when each was
looked at, by some milliseconds: a rate is by the time that has passed.
"""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.differential.history import batch
from tests.differential.pair import Id, Pair, Side, partition_data
from tests.differential.wire import API_BY_NAME, Connection, ask, decode_answer, request_frame

from ottla.protocol.headers import encode_request_header
from ottla.protocol.primitives import Writer

Json = Any
EXACT, DEFAULT, ANY = 0, 1, 2
ANSWER_MS = 250
"""What two busy processes may differ by in when they look at a request."""


def entity(**parts: str | None) -> list[dict[str, Json]]:
    return [
        {"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in parts.items()
    ]


def op(key: str, value: float | None) -> dict[str, Json]:
    return {"key": key, "value": value or 0.0, "remove": value is None}


def entry(who: list[dict[str, Json]], *ops: dict[str, Json]) -> dict[str, Json]:
    return {"entity": who, "ops": list(ops)}


@pytest.fixture(autouse=True)
def without_quotas(sides: tuple[Side, Side]) -> Iterator[None]:
    """Whatever a test sets is gone after it."""
    yield
    for side in sides:
        found = ask(side.port, "DescribeClientQuotas", 1, components=[], strict=False)
        gone = [
            entry(
                [
                    {"entity_type": part["entityType"], "entity_name": part["entityName"]}
                    for part in each["entity"]
                ],
                *(op(value["key"], None) for value in each["values"]),
            )
            for each in found["entries"]
        ]
        ask(side.port, "AlterClientQuotas", 1, entries=gone, validate_only=False)


def test_quotas_that_are_refused(pair: Pair) -> None:
    rate = op("producer_byte_rate", 1000.0)

    def alter(what: str, *entries: dict[str, Json], **more: Json) -> None:
        pair.ask("AlterClientQuotas", what, entries=list(entries), validate_only=False, **more)

    alter("an unknown type", entry(entity(group="g"), rate))
    alter("no entity", entry([], rate))
    alter("an empty name", entry(entity(user=""), rate))
    alter("an empty client id", entry(entity(client_id=""), rate))
    alter("an address and a user", entry(entity(ip="1.2.3.4", user="u"), rate))
    alter("no address", entry(entity(ip="no address at all"), op("connection_creation_rate", 2.0)))
    alter("an unknown key", entry(entity(user="u"), op("no_such_rate", 1.0)))
    alter("a key of addresses", entry(entity(user="u"), op("connection_creation_rate", 1.0)))
    alter("a key of users", entry(entity(ip="1.2.3.4"), rate))
    alter("nothing at all", entry(entity(user="u"), op("producer_byte_rate", 0.0)))
    alter("less than nothing", entry(entity(user="u"), op("producer_byte_rate", -1.0)))
    alter("a part of a byte", entry(entity(user="u"), op("producer_byte_rate", 1.5)))
    alter("too much", entry(entity(user="u"), op("producer_byte_rate", 1e19)))
    alter("too many connections", entry(entity(ip="1.2.3.4"), op("connection_creation_rate", 3e9)))
    alter("good and bad", entry(entity(user="u"), rate, op("no_such_rate", 1.0)))
    alter("no entries")
    alter("no changes", entry(entity(user="u")))
    alter("to remove what is unknown", entry(entity(user="u"), op("no_such_rate", None)))
    alter("to remove what is not set", entry(entity(user="u"), op("producer_byte_rate", None)))
    pair.ask("DescribeClientQuotas", "none was set", components=[], strict=False)


def test_the_same_entity_twice(pair: Pair) -> None:
    first = entry(entity(user="u"), op("producer_byte_rate", 1000.0))
    other = entry(entity(user="u"), op("consumer_byte_rate", 1000.0))
    pair.ask("AlterClientQuotas", "twice", entries=[first, other], validate_only=False)
    pair.ask("DescribeClientQuotas", "after twice", components=[], strict=False)
    twice = [*entity(user="u"), *entity(user="v")]
    pair.ask("AlterClientQuotas", "two users in one", entries=[entry(twice, *first["ops"])])


def test_a_key_twice(pair: Pair) -> None:
    ops = op("producer_byte_rate", 1000.0), op("producer_byte_rate", 2000.0)
    pair.ask("AlterClientQuotas", "a key twice", entries=[entry(entity(user="u"), *ops)])
    pair.ask("DescribeClientQuotas", "after a key twice", components=[], strict=False)


def test_quotas_are_set_changed_and_removed(pair: Pair) -> None:
    def alter(what: str, *ops: dict[str, Json], validate_only: bool = False) -> None:
        for who in (
            entity(user="u"), entity(user=None), entity(client_id="c"), entity(client_id=None),
            entity(user="u", client_id="c"), entity(client_id="c", user=None),
        ):  # fmt: skip
            entries = [entry(who, *ops)]
            pair.ask("AlterClientQuotas", what, entries=entries, validate_only=validate_only)

    alter("set", op("producer_byte_rate", 1000.0), op("request_percentage", 12.5))
    alter("only to see", op("consumer_byte_rate", 1000.0), validate_only=True)
    alter("the same", op("producer_byte_rate", 1000.0))
    alter("another", op("producer_byte_rate", 2000.0), op("controller_mutation_rate", 0.5))
    for address in ("10.0.0.1", None, "::1"):
        entries = [entry(entity(ip=address), op("connection_creation_rate", 100000.0))]
        pair.ask("AlterClientQuotas", "an address", entries=entries, validate_only=False)
    _describe_all(pair)
    alter("removed", op("producer_byte_rate", None))
    _describe_all(pair)


def _describe_all(pair: Pair) -> None:
    for kinds in (["user"], ["client-id"], ["user", "client-id"], ["ip"], []):
        for match in (EXACT, DEFAULT, ANY):
            for strict in (True, False):
                names = {"user": "u", "client-id": "c", "ip": "10.0.0.1"}
                components = [
                    {
                        "entity_type": kind,
                        "match_type": match,
                        "match": names[kind] if match == EXACT else None,
                    }
                    for kind in kinds
                ]
                _describe(pair, f"{kinds} {match} {strict}", components, strict=strict)


def _describe(pair: Pair, what: str, components: list[Json], *, strict: bool) -> None:
    """The entries have no order."""
    for version in (0, 1):
        fields = {"components": components, "strict": strict}
        seen = [
            _in_order(ask(side.port, "DescribeClientQuotas", version, **fields))
            for side in (pair.ours, pair.theirs)
        ]
        pair.compare("DescribeClientQuotas", version, what, *seen)


def _in_order(answer: dict[str, Json]) -> dict[str, Json]:
    for each in answer["entries"] or []:
        each["entity"].sort(key=str)
        each["values"].sort(key=str)
    answer["entries"] = sorted(answer["entries"] or [], key=str)
    return {"all": str(answer["entries"]), "code": answer["errorCode"]}


def test_filters_that_are_refused(pair: Pair) -> None:
    def describe(what: str, *components: tuple[str, int, str | None]) -> None:
        named = [
            {"entity_type": kind, "match_type": how, "match": match}
            for kind, how, match in components
        ]
        pair.ask("DescribeClientQuotas", what, components=named, strict=False)

    describe("exact without a match", ("user", EXACT, None))
    describe("the default with a match", ("user", DEFAULT, "u"))
    describe("any with a match", ("user", ANY, "u"))
    describe("a type twice", ("user", ANY, None), ("user", DEFAULT, None))
    describe("an unknown way", ("user", 7, None))
    describe("an address and a user", ("ip", ANY, None), ("user", ANY, None))
    describe("an unknown type", ("group", ANY, None))
    describe("an unknown type and an address", ("group", ANY, None), ("ip", ANY, None))
    describe("exactly nothing", ("user", EXACT, ""))


# Throttle times


def limit(pair: Pair, client_id: str, **quotas: float) -> None:
    entries = [entry(entity(client_id=client_id), *(op(k, v) for k, v in quotas.items()))]
    for side in (pair.ours, pair.theirs):
        answer = ask(side.port, "AlterClientQuotas", 1, entries=entries, validate_only=False)
        assert [each["errorCode"] for each in answer["entries"]] == [0]
    time.sleep(0.5)


def frame_of(client_id: str, api: str, version: int, fields: dict[str, Json]) -> bytes:
    """A request of a client of that name."""
    whole = request_frame(api, version, fields)
    out = Writer()
    encode_request_header(
        out, api_key=API_BY_NAME[api].key, version=version, correlation_id=1, client_id=client_id
    )
    plain = Writer()
    encode_request_header(
        plain, api_key=API_BY_NAME[api].key, version=version, correlation_id=1, client_id="tests"
    )
    frame = out.getvalue() + whole[4 + len(plain.getvalue()) :]
    return struct.pack(">i", len(frame)) + frame


def sequence(side: Side, frames: list[bytes], api: str, version: int) -> list[tuple[int, float]]:
    """The throttle time of each answer, and how long it took to come, one after the other."""
    seen = []
    with Connection(side.port, timeout=30) as connection:
        for frame in frames:
            began = time.monotonic()
            connection.send(frame)
            answer = decode_answer(api, version, connection.receive())
            seen.append((answer["throttleTimeMs"], time.monotonic() - began))
    return seen


def compare_sequences(pair: Pair, make: Callable[[Side], list[bytes]], api: str, v: int) -> None:
    ours, theirs = (sequence(side, make(side), api, v) for side in (pair.ours, pair.theirs))
    for n, ((mine, mine_took), (other, other_took)) in enumerate(zip(ours, theirs, strict=True)):
        assert abs(mine - other) <= ANSWER_MS, (n, ours, theirs)
        assert abs(mine_took - other_took) <= ANSWER_MS / 1000, (n, ours, theirs)
    assert any(ms > 0 for ms, _ in ours), ours


def test_throttle_times_of_produce(pair: Pair) -> None:
    pair.create("quota-produce")
    limit(pair, "slow-producer", producer_byte_rate=10_000.0)
    records = batch(size=50_000)

    def frames(side: Side) -> list[bytes]:
        data = [side.resolve(partition_data("quota-produce", 0, records))]
        fields = {"acks": -1, "timeout_ms": 20_000, "topic_data": data}
        return [frame_of("slow-producer", "Produce", 13, fields)] * 4

    compare_sequences(pair, frames, "Produce", 13)


def test_throttle_times_of_fetch(pair: Pair) -> None:
    pair.create("quota-fetch")
    pair.produce("quota-fetch", batch(size=50_000))
    limit(pair, "slow-consumer", consumer_byte_rate=10_000.0)

    def frames(side: Side) -> list[bytes]:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        topics = [{"topic_id": Id("quota-fetch"), "partitions": [partition]}]
        fields = side.resolve(
            {
                "max_wait_ms": 100,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "session_epoch": -1,
                "topics": topics,
            }
        )
        return [frame_of("slow-consumer", "Fetch", 16, fields)] * 5

    compare_sequences(pair, frames, "Fetch", 16)


def test_throttle_times_of_new_topics(pair: Pair) -> None:
    """Two topics of ten partitions each; the last in an old version, which is not refused."""
    limit(pair, "maker", controller_mutation_rate=2.0)
    seen = []
    for side in (pair.ours, pair.theirs):
        answers = []
        with Connection(side.port, timeout=30) as connection:
            for n, version in ((0, 7), (1, 7)):
                fields = {"timeout_ms": 20_000, "topics": made(n)}
                connection.send(frame_of("maker", "CreateTopics", version, fields))
                answers.append(decode_answer("CreateTopics", version, connection.receive()))
        with Connection(side.port, timeout=30) as connection:
            fields = {"timeout_ms": 20_000, "topics": made(2)[:1]}
            connection.send(frame_of("maker", "CreateTopics", 5, fields))
            answers.append(decode_answer("CreateTopics", 5, connection.receive()))
        seen.append(
            [
                (a["throttleTimeMs"], sorted((t["name"], t["errorCode"]) for t in a["topics"]))
                for a in answers
            ]
        )
    ours, theirs = seen
    for (mine, codes), (other, other_codes) in zip(ours, theirs, strict=True):
        assert abs(mine - other) <= 3 * ANSWER_MS, seen
        assert [code for _, code in codes] == [code for _, code in other_codes], seen
    assert [code for _, code in ours[1][1]] == [0, 89], seen


def made(n: int) -> list[dict[str, Json]]:
    return [
        {"name": f"made-{n}-{each}", "num_partitions": 10, "replication_factor": 1}
        for each in ("a", "b")
    ]


def test_topics_made_on_demand_are_paid_for_by_the_client(pair: Pair) -> None:
    limit(pair, "asker", controller_mutation_rate=0.1)
    names = [f"on-demand-{n}" for n in range(4)]
    seen = []
    for side in (pair.ours, pair.theirs):
        for name in names:
            with Connection(side.port, timeout=30) as connection:
                fields = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
                connection.send(frame_of("asker", "Metadata", 12, fields))
                connection.receive()
        time.sleep(1)
        found = ask(side.port, "Metadata", 12, topics=None)["topics"]
        seen.append([name for name in names if name in {each["name"] for each in found}])
    assert seen[0] == seen[1] == names[:2]
