"""One-record requests to a broker with 1,000 ACLs, to one with none, and to one without authorizer.

All are of one program, run beside each other and are asked by turns: what a busy machine takes, it
takes from each. The client has logged in, and its right to write is one ACL of the thousand; where
there is none, everybody may.
"""

import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.measures import OF_NO_ACLS, OF_NO_AUTHORIZER, Figures
from benchmarks.one_record import PARTITIONS, one_record_requests
from benchmarks.secured import AUTHORIZER, USER, SecuredBroker
from benchmarks.throughput import NONE, Settings
from benchmarks.topic import topic_on
from tools.kafka_peer.broker_process import Program

CONNECTIONS: Final = 32
TURN_SECONDS: Final = 0.5
"""Short, so that what troubles the machine for longer troubles all three."""
TOPIC: Final = "guarded"
TOPICS: Final = (TOPIC, *(f"topic-{number}" for number in range(99)))
USERS: Final = (*(f"user-{number}" for number in range(9)), USER)
_ROW: Final = f"one-record requests, {CONNECTIONS} connections"
NO_AUTHORIZER: Final = f"{_ROW}, no authorizer"
NO_ACLS: Final = f"{_ROW}, no ACLs"
ACLS: Final = f"{_ROW}, 1,000 ACLs"
SETTINGS: Final[dict[str, Settings]] = {
    NO_AUTHORIZER: NONE,
    NO_ACLS: {**AUTHORIZER, "allow.everyone.if.no.acl.found": "true"},
    ACLS: AUTHORIZER,
}


def guarded_requests(
    program: Program, directory: Path, *, warm_up_seconds: float, turns: int
) -> dict[str, Figures]:
    """The rows of :data:`SETTINGS`, each the median of several turns."""
    with ExitStack() as opened:
        brokers = {
            row: opened.enter_context(SecuredBroker(program, directory / f"{number}", settings))
            for number, (row, settings) in enumerate(SETTINGS.items())
        }
        brokers[ACLS].allow(TOPICS, USERS)
        for broker in brokers.values():
            opened.enter_context(topic_on(broker, TOPIC, PARTITIONS))
            _asked(broker, warm_up_seconds)
        found = [
            {row: _asked(broker, TURN_SECONDS) for row, broker in brokers.items()}
            for _ in range(turns)
        ]
    rows = {row: _median([turn[row] for turn in found]) for row in SETTINGS}
    rows[ACLS] |= {
        "of no ACLs": (_share(found, NO_ACLS), OF_NO_ACLS),
        "of no authorizer": (_share(found, NO_AUTHORIZER), OF_NO_AUTHORIZER),
    }
    return rows


def _share(turns: list[dict[str, Figures]], row: str) -> float:
    """What is left of the requests a second of another row, by the median of all turns."""
    return statistics.median(turn[ACLS]["requests"][0] / turn[row]["requests"][0] for turn in turns)


def _asked(broker: SecuredBroker, seconds: float) -> Figures:
    return one_record_requests(
        broker,
        TOPIC,
        connections=CONNECTIONS,
        seconds=seconds,
        leaders=[broker.sasl_port] * PARTITIONS,
        connect=lambda _: broker.log_in("PLAIN"),
    )


def _median(turns: list[Figures]) -> Figures:
    return {
        name: (statistics.median(turn[name][0] for turn in turns), measure)
        for name, (_, measure) in turns[0].items()
    }
