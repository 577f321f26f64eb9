"""Fetch: offsets, limits, waiting, epochs, sessions."""

from time import sleep
from typing import Any

from tests.differential.pair import Id, Pair
from tests.differential.wire import Connection, decode_answer, request_frame

ALL = range(4, 19)
SOME = (4, 7, 12, 13, 18)
MEBIBYTE = 1 << 20
Json = Any


def wanted(
    offset: int,
    *,
    topic: str = "plain",
    partition: int = 0,
    size: int = MEBIBYTE,
    **more: Json,
) -> dict[str, Json]:
    """A topic of a Fetch request with one partition, by name and by id."""
    asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": size, **more}
    return {"topic": topic, "topic_id": Id(topic), "partitions": [asked]}


def test_reading_from_offsets(pair: Pair) -> None:
    for offset in (0, 1, 3, 4, 9, 10):
        pair.ask("Fetch", f"from offset {offset}", max_wait_ms=10, topics=[wanted(offset)])
    for offset in (0, 19, 20, 79, 80):
        pair.ask("Fetch", f"compressed, from offset {offset}", max_wait_ms=10,
                 topics=[wanted(offset, partition=1)])  # fmt: skip
    pair.ask("Fetch", "an empty partition", max_wait_ms=10, topics=[wanted(0, partition=2)])


def test_offsets_out_of_range(pair: Pair) -> None:
    for offset in (11, -1, -2, 2**63 - 1, -(2**63)):
        pair.ask("Fetch", f"offset {offset}", max_wait_ms=10, topics=[wanted(offset)])
    for offset in (0, 6, 7, 20, 21):
        pair.ask("Fetch", f"trimmed, offset {offset}", max_wait_ms=10,
                 topics=[wanted(offset, topic="trimmed")])  # fmt: skip


def test_limits_of_size(pair: Pair) -> None:
    for size in (0, 1, 61, 150, 300, -1, 2**31 - 1):
        pair.ask("Fetch", f"partition limit {size}", max_wait_ms=10, topics=[wanted(0, size=size)])
        pair.ask("Fetch", f"request limit {size}", max_wait_ms=10, max_bytes=size,
                 topics=[wanted(0)])  # fmt: skip
    several = [wanted(0), wanted(0, partition=1), wanted(0, partition=3)]
    topic = {**several[0], "partitions": [each["partitions"][0] for each in several]}
    for size in (1, 200, 500, 1000):
        pair.ask("Fetch", f"several partitions within {size}", max_wait_ms=10, max_bytes=size,
                 topics=[topic])  # fmt: skip


def test_partitions_that_are_not_there(pair: Pair) -> None:
    for partition in (4, -1):
        pair.ask("Fetch", f"partition {partition}", max_wait_ms=10,
                 topics=[wanted(0, partition=partition)])  # fmt: skip
    nowhere = {**wanted(0), "topic": "nowhere", "topic_id": "zzzzzzzzzzzzzzzzzzzzzA"}
    pair.ask("Fetch", "an unknown topic", max_wait_ms=10, topics=[nowhere])
    pair.ask("Fetch", "known and unknown", max_wait_ms=10, topics=[wanted(0), nowhere])
    pair.ask("Fetch", "no topics", max_wait_ms=10, topics=[])
    pair.ask("Fetch", "the zero id", max_wait_ms=10, versions=range(13, 19),
             topics=[{"partitions": wanted(0)["partitions"]}])  # fmt: skip


def test_leader_epochs(pair: Pair) -> None:
    for epoch in (0, 1, 5, -2):
        pair.ask("Fetch", f"current leader epoch {epoch}", max_wait_ms=10, versions=range(9, 19),
                 topics=[wanted(0, current_leader_epoch=epoch)])  # fmt: skip
    for epoch in (0, 1, 5):
        pair.ask("Fetch", f"last fetched epoch {epoch}", max_wait_ms=10, versions=range(12, 19),
                 topics=[wanted(5, last_fetched_epoch=epoch)])  # fmt: skip


def test_isolation_levels_and_waiting(pair: Pair) -> None:
    for level in (0, 1, 2, -1):
        pair.ask("Fetch", f"isolation {level}", max_wait_ms=10, isolation_level=level,
                 topics=[wanted(0)], versions=SOME)  # fmt: skip
    pair.ask("Fetch", "more than there is", max_wait_ms=50, min_bytes=MEBIBYTE, topics=[wanted(0)],
             versions=SOME)  # fmt: skip
    pair.ask("Fetch", "a negative wait", max_wait_ms=-5, topics=[wanted(10)], versions=SOME)
    pair.ask("Fetch", "negative bytes", max_wait_ms=5, min_bytes=-5, topics=[wanted(10)],
             versions=SOME)  # fmt: skip


def test_a_client_that_claims_to_be_a_replica(pair: Pair) -> None:
    for replica in (1, 2, -2):
        pair.ask("Fetch", f"replica {replica}", max_wait_ms=10, replica_id=replica,
                 topics=[wanted(0)], versions=range(4, 15))  # fmt: skip
        pair.ask("Fetch", f"replica {replica}", max_wait_ms=10, topics=[wanted(0)],
                 replica_state={"replica_id": replica}, versions=range(15, 19))  # fmt: skip
    pair.ask("Fetch", "another cluster", max_wait_ms=10, cluster_id="other", topics=[wanted(0)],
             versions=range(12, 19))  # fmt: skip


def test_sessions(pair: Pair) -> None:
    for version in range(7, 19):
        answers = pair.ask("Fetch", "a session begins", versions=[version], max_wait_ms=10,
                           session_epoch=0, topics=[wanted(0)])  # fmt: skip
        sessions = tuple(answer["sessionId"] for answer in answers[0])
        assert all(sessions), "no session was made"
        _continue_session(pair, version, sessions)


def _continue_session(pair: Pair, version: int, sessions: tuple[int, ...]) -> None:
    """Steps of one session; what is asked in each depends on the ids that each side gave."""
    steps: list[tuple[str, dict[str, Json]]] = [
        ("nothing new", {"session_epoch": 1}),
        ("the same again", {"session_epoch": 2, "topics": [wanted(0)]}),
        ("at the end", {"session_epoch": 3, "topics": [wanted(10)]}),
        ("still at the end", {"session_epoch": 4}),
        ("another partition", {"session_epoch": 5, "topics": [wanted(0, partition=1)]}),
        ("an error", {"session_epoch": 6, "topics": [wanted(99)]}),
        ("forgotten", {"session_epoch": 7, "forgotten_topics_data": [
            {"topic": "plain", "topic_id": Id("plain"), "partitions": [0]}]}),
        ("a wrong epoch", {"session_epoch": 20}),
        ("an unknown session", {"session_epoch": 8, "session_id": 1}),
        ("the end", {"session_epoch": -1}),
    ]  # fmt: skip
    for what, fields in steps:
        answers = []
        for side, session in zip((pair.ours, pair.theirs), sessions, strict=True):
            with Connection(side.port) as connection:
                request = {"max_wait_ms": 10, "session_id": session, **fields}
                answers.append(connection.ask("Fetch", version, side.resolve(request)))
        pair.compare("Fetch", version, f"session: {what}", *answers)


def test_two_requests_of_a_session_in_flight(pair: Pair) -> None:
    """On one connection in turn; one that another connection overtakes is refused."""
    for is_same in (True, False):
        outcomes = []
        for side in (pair.ours, pair.theirs):
            with Connection(side.port) as first, Connection(side.port) as other:
                begin = {"max_wait_ms": 10, "session_epoch": 0, "topics": [wanted(10)]}
                session = first.ask("Fetch", 12, side.resolve(begin))["sessionId"]
                waits = {"max_wait_ms": 1_500, "min_bytes": 1, "session_id": session}
                second = first if is_same else other
                first.send(request_frame("Fetch", 12, {**waits, "session_epoch": 1}))
                if not is_same:
                    # It must be there before the other one, of which nothing tells.
                    sleep(0.5)
                changed = {**waits, "session_epoch": 2, "topics": [wanted(9)]}
                second.send(request_frame("Fetch", 12, side.resolve(changed)))
                answers = [each.receive() for each in (first, second)]
                decoded = [decode_answer("Fetch", 12, each) for each in answers]
                for each in decoded:
                    each["sessionId"] = "<session>" if each["sessionId"] == session else "<another>"
                outcomes.append({"first": decoded[0], "second": decoded[1]})
        where = "one connection" if is_same else "two connections"
        pair.compare("Fetch", 12, f"a session in flight twice on {where}", *outcomes)


def test_sessions_that_are_not_there(pair: Pair) -> None:
    sevenplus = range(7, 19)
    for session, epoch in ((123, 1), (123, 0), (123, -1), (0, 1), (-5, 3), (0, 2**31 - 1)):
        pair.ask("Fetch", f"session {session} at epoch {epoch}", versions=sevenplus, max_wait_ms=10,
                 session_id=session, session_epoch=epoch, topics=[wanted(0)])  # fmt: skip
