"""Our broker and Apache Kafka's with the same history: each request goes to both."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tests.differential.comparing import Difference, Names, differences
from tests.differential.wire import (
    API_BY_NAME,
    Connection,
    ConnectionClosed,
    ask,
    decode_answer,
    raw_frame,
    request_frame,
)
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

Json = Any
API_VERSIONS_AFTERWARDS: Final = 77
SILENCE_SECONDS: Final = 3.0
PATIENCE_SECONDS: Final = 20.0


class Id(NamedTuple):
    """The id of a topic: each cluster has its own for the same name."""

    topic: str


class Side:
    """One of the two brokers, and what it calls its things."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.port = broker.port
        self._ids: dict[str, str] = {}

    def topic_id(self, name: str) -> str:
        """Asked of the broker once, then remembered, even when the topic has gone."""
        if name not in self._ids:
            found = ask(self.port, "Metadata", 12, topics=[{"name": name}])
            self._ids[name] = found["topics"][0]["topicId"]
        return self._ids[name]

    def forget_topic_id(self, name: str) -> None:
        self._ids.pop(name, None)

    def names(self, api: str) -> Names:
        words = {topic_id: f"<id of {name}>" for name, topic_id in self._ids.items()}
        words[str(self.broker.directory)] = "<directory>"
        words[str(self.broker.port)] = "<port>"
        words[str(self.broker.controller_port)] = "<controller port>"
        return Names(words, api)

    def resolve(self, value: Json) -> Json:
        if isinstance(value, Id):
            return self.topic_id(value.topic)
        if isinstance(value, dict):
            return {key: self.resolve(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.resolve(one) for one in value]
        return value

    def outcome(self, api: str, version: int, frame: bytes, *, answered: bool) -> Json:
        """The answer, or what came instead of one."""
        with Connection(self.port, timeout=SILENCE_SECONDS) as connection:
            connection.send(frame)
            if not answered:
                after = raw_frame("ApiVersions", 0, b"", correlation_id=API_VERSIONS_AFTERWARDS)
                connection.send(after)
            try:
                answer = connection.receive()
            except ConnectionClosed:
                return {"outcome": "closed"}
            except TimeoutError:
                return {"outcome": "silence"}
        if struct.unpack_from(">i", answer)[0] == API_VERSIONS_AFTERWARDS:
            return {"outcome": "no answer"}
        return {"outcome": "answered", "answer": decode_answer(api, version, answer)}


@dataclass(slots=True)
class Pair:
    """Sends to both, compares, and keeps what differs for the end of the test."""

    ours: Side
    theirs: Side
    found: list[Difference] = field(default_factory=list)
    asked: int = 0

    def ask(
        self,
        api: str,
        scenario: str,
        *,
        versions: Iterable[int] | None = None,
        answered: bool = True,
        **fields: Json,
    ) -> list[tuple[Json, Json]]:
        """The same request in every version; ``{v}`` in a text is the version."""
        row = API_BY_NAME[api]
        chosen = versions or range(row.lowest_version, row.highest_stable_version + 1)
        answers = []
        for version in chosen:
            frames = [
                request_frame(api, version, side.resolve(fields))
                for side in (self.ours, self.theirs)
            ]
            answers.append(self._both(api, version, scenario, frames, answered=answered))
        return answers

    def send_raw(self, api: str, version: int, scenario: str, frame: bytes) -> None:
        """A frame that is wrong in itself."""
        self._both(api, version, scenario, [frame, frame], answered=True)

    def _both(
        self,
        api: str,
        version: int,
        scenario: str,
        frames: list[bytes],
        *,
        answered: bool,
    ) -> tuple[Json, Json]:
        self.asked += 1
        ours, theirs = (
            side.outcome(api, version, frame, answered=answered)
            for side, frame in zip((self.ours, self.theirs), frames, strict=True)
        )
        self.compare(api, version, scenario, ours, theirs)
        return ours.get("answer"), theirs.get("answer")

    def compare(self, api: str, version: int, scenario: str, ours: Json, theirs: Json) -> None:
        """Keep what differs between two answers that were got in some other way."""
        left, right = (
            side.names(api).normalise(answer)
            for side, answer in ((self.ours, ours), (self.theirs, theirs))
        )
        for path, mine, other in differences(left, right, ""):
            self.found.append(
                Difference(api, version, scenario, path.removeprefix("."), mine, other)
            )

    def create(self, name: str, *, partitions: int = 1, **config: str) -> None:
        """A topic on both sides, with underscores for the dots of its configs."""
        configs = [{"name": k.replace("_", "."), "value": v} for k, v in config.items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "configs": configs,
        }
        for side in (self.ours, self.theirs):
            answer = ask(side.port, "CreateTopics", 7, topics=[topic], timeout_ms=20_000)
            assert answer["topics"][0]["errorCode"] == 0, answer
            side.forget_topic_id(name)
            wait_for_leaders(side.port, name)
            side.topic_id(name)

    def produce(self, topic: str, *batches: bytes, partition: int = 0) -> None:
        """Batches on both sides, of which each is expected to be taken."""
        for side in (self.ours, self.theirs):
            for batch in batches:
                answer = ask(
                    side.port, "Produce", 9, acks=-1, timeout_ms=20_000,
                    topic_data=[partition_data(topic, partition, batch)],
                )  # fmt: skip
                (given,) = answer["responses"][0]["partitionResponses"]
                assert given["errorCode"] == 0, given

    def unexplained(self) -> list[Difference]:
        return [each for each in self.found if each.explained_by is None]


def partition_data(topic: str, partition: int, records: bytes | None) -> dict[str, Json]:
    """A topic of a Produce request with one partition, by name and by id."""
    return {
        "name": topic,
        "topic_id": Id(topic),
        "partition_data": [{"index": partition, "records": records}],
    }


def wait_for_leaders(port: int, topic: str) -> None:
    """Metadata may know of a leader before the leader does: each partition is asked itself."""

    def is_ready() -> bool:
        found = ask(port, "Metadata", 12, topics=[{"name": topic}])["topics"][0]
        partitions = [
            {"partition_index": each["partitionIndex"], "timestamp": -1}
            for each in found["partitions"]
        ]
        if not partitions:
            return False
        asked = [{"name": topic, "partitions": partitions}]
        answer = ask(port, "ListOffsets", 7, replica_id=-1, topics=asked)
        return all(each["errorCode"] == 0 for each in answer["topics"][0]["partitions"])

    eventually(is_ready, f"leaders of {topic}")
