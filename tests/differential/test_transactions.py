"""One producer's story, told to both brokers: the same answers, step by step.

Each cluster has producer ids of its own, so a story is written as a function of one broker; what is
compared is what it answered: codes, epochs relative to the first, states.
"""

import base64
import time
from collections.abc import Callable
from typing import Any

from tests.differential.history import batch
from tests.differential.pair import Pair, Side
from tests.differential.wire import ask

Json = Any
CONCURRENT_TRANSACTIONS = 51
LOADING = (14, 15, 16)
PATIENCE_SECONDS = 20.0


class Story:
    """A transactional id on one broker, and what it was answered."""

    def __init__(self, side: Side, transactional_id: str, topic: str) -> None:
        self.port = side.port
        self.id = transactional_id
        self.topic = topic
        self.answers: list[tuple[str, Json]] = []
        self.producer_id = -1
        self.epoch = -1
        self.find()

    def find(self) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            found = ask(self.port, "FindCoordinator", 4, key_type=1, coordinator_keys=[self.id])
            if found["coordinators"][0]["errorCode"] == 0:
                return
            time.sleep(0.1)

    def note(self, what: str, answer: Json) -> None:
        self.answers.append((what, answer))

    def settled(self, call: Callable[[], int]) -> int:
        """The code of a request that is sent again while the transaction before it ends."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            code = call()
            waits = code == CONCURRENT_TRANSACTIONS or code in LOADING
            if not waits or time.monotonic() > deadline:
                return code
            time.sleep(0.05)

    def init(self, what: str, version: int = 5, **fields: Json) -> None:
        request = {"transactional_id": self.id, "transaction_timeout_ms": 60_000, **fields}
        answer: Json = {}

        def call() -> int:
            nonlocal answer
            answer = ask(self.port, "InitProducerId", version, **request)
            return int(answer["errorCode"])

        code = self.settled(call)
        same = answer["producerId"] == self.producer_id
        self.note(what, (code, answer["producerEpoch"], same))
        if code == 0:
            self.producer_id, self.epoch = answer["producerId"], answer["producerEpoch"]

    def who(self, **fields: Json) -> dict[str, Json]:
        named = {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }
        return {**named, **fields}

    def add(
        self, what: str, version: int = 3, partitions: tuple[int, ...] = (0,), **fields: Json
    ) -> None:
        who = {f"v3_and_below_{key}": value for key, value in self.who(**fields).items()}
        topics = [{"name": self.topic, "partitions": list(partitions)}]
        answer: Json = {}

        def call() -> int:
            nonlocal answer
            answer = ask(
                self.port, "AddPartitionsToTxn", version, v3_and_below_topics=topics, **who
            )
            first = answer["resultsByTopicV3AndBelow"][0]["resultsByPartition"][0]
            return int(first["partitionErrorCode"])

        self.settled(call)
        results = answer["resultsByTopicV3AndBelow"][0]["resultsByPartition"]
        self.note(
            what, sorted((each["partitionIndex"], each["partitionErrorCode"]) for each in results)
        )

    def verify(self, what: str, version: int = 5, **fields: Json) -> None:
        topics = [{"name": self.topic, "partitions": [0, 1]}]
        asked = [{**self.who(**fields), "verify_only": True, "topics": topics}]
        answer = ask(self.port, "AddPartitionsToTxn", version, transactions=asked)
        results = answer["resultsByTransaction"][0]["topicResults"][0]["resultsByPartition"]
        self.note(
            what, sorted((each["partitionIndex"], each["partitionErrorCode"]) for each in results)
        )

    def produce(self, what: str, version: int, sequence: int = 0, **fields: Json) -> None:
        who = self.who(**fields)
        data = batch(
            producer_id=who["producer_id"],
            producer_epoch=who["producer_epoch"],
            base_sequence=sequence,
            transactional=True,
        )
        records = base64.b64encode(data).decode()

        def call() -> int:
            answer = ask(
                self.port, "Produce", version, transactional_id=who["transactional_id"], acks=-1,
                timeout_ms=5000, topic_data=[{"name": self.topic, "partition_data": [
                    {"index": 0, "records": records}]}],
            )  # fmt: skip
            return int(answer["responses"][0]["partitionResponses"][0]["errorCode"])

        self.note(what, self.settled(call))

    def offsets(self, what: str, version: int, **fields: Json) -> None:
        partitions = [{"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}]
        request = self.who(
            group_id="g-" + self.id,
            topics=[{"name": self.topic, "partitions": partitions}],
            **fields,
        )

        def call() -> int:
            answer = ask(self.port, "TxnOffsetCommit", version, **request)
            return int(answer["topics"][0]["partitions"][0]["errorCode"])

        self.note(what, self.settled(call))

    def add_offsets(self, what: str, version: int = 4, **fields: Json) -> None:
        request = self.who(group_id="g-" + self.id, **fields)
        self.note(
            what,
            self.settled(
                lambda: int(ask(self.port, "AddOffsetsToTxn", version, **request)["errorCode"])
            ),
        )

    def end(self, what: str, version: int = 5, *, committed: bool = True, **fields: Json) -> None:
        request = self.who(committed=committed, **fields)
        answer: Json = {}

        def call() -> int:
            nonlocal answer
            answer = ask(self.port, "EndTxn", version, **request)
            return int(answer["errorCode"])

        code = self.settled(call)
        epoch = answer.get("producerEpoch", -1)
        self.note(what, (code, epoch, answer.get("producerId", -1) in (-1, self.producer_id)))
        if code == 0 and epoch >= 0 and not fields:
            self.producer_id, self.epoch = answer["producerId"], epoch

    def describe(self, what: str) -> None:
        def state() -> Json:
            answer = ask(self.port, "DescribeTransactions", 0, transactional_ids=[self.id])
            return answer["transactionStates"][0]

        deadline = time.monotonic() + PATIENCE_SECONDS
        found = state()
        while found["transactionState"].startswith("Prepare") and time.monotonic() < deadline:
            time.sleep(0.05)
            found = state()
        topics = [(each["topic"], sorted(each["partitions"])) for each in found["topics"]]
        self.note(
            what,
            (found["errorCode"], found["transactionState"], found["producerEpoch"],
             found["transactionTimeoutMs"], sorted(topics)),
        )  # fmt: skip


def tell(pair: Pair, name: str, story: Callable[[Story], None]) -> None:
    pair.create(name, partitions=2)
    told = [Story(side, name, name) for side in (pair.ours, pair.theirs)]
    for each in told:
        story(each)
    ours, theirs = (each.answers for each in told)
    assert ours == theirs


def test_version_1_from_the_beginning_to_the_end(pair: Pair) -> None:
    def story(one: Story) -> None:
        one.describe("nothing known")
        one.add("added before it began", producer_id=5, producer_epoch=0)
        one.end("ended before it began", 4, producer_id=5, producer_epoch=0)
        one.init("begins")
        one.describe("empty")
        one.end("commit of nothing", 4)
        one.end("abort of nothing", 4, committed=False)
        one.produce("not added, old", 9)
        one.produce("not added, newer", 11)
        one.add("a partition that is not", partitions=(0, 7))
        one.add("added")
        one.add("added again")
        one.verify("verified")
        one.describe("ongoing")
        one.produce("a batch", 11)
        one.produce("the same batch", 11)
        one.produce("out of order", 11, 9)
        one.offsets("offsets without their partition, old", 3)
        one.offsets("offsets without their partition", 4)
        one.add_offsets("offsets added")
        one.offsets("offsets", 3)
        one.offsets("offsets of a generation", 3, generation_id=4, member_id="m")
        one.end("commit", 4)
        one.describe("committed")
        one.end("commit again", 4)
        one.end("abort after commit", 4, committed=False)
        one.produce("after the end", 11, 1)
        one.verify("verified after the end")

    tell(pair, "version-one", story)


def test_version_2_from_the_beginning_to_the_end(pair: Pair) -> None:
    def story(one: Story) -> None:
        one.init("begins")
        one.end("commit of nothing")
        one.produce("a batch", 12)
        one.describe("ongoing")
        one.offsets("offsets", 5)
        before = one.epoch
        one.end("commit")
        one.describe("committed")
        one.end("commit again", producer_epoch=before)
        one.end("abort after commit", committed=False, producer_epoch=before)
        one.end("commit of nothing")
        one.produce("late", 12, 1, producer_epoch=before)
        one.produce("the next one", 12)
        one.end("late commit", producer_epoch=before)
        one.end("late abort", committed=False, producer_epoch=before)
        one.describe("still ongoing")
        one.end("abort", committed=False)
        one.describe("aborted")
        one.end("abort of nothing", committed=False)
        one.describe("aborted again")

    tell(pair, "version-two", story)


def test_an_abort_whose_additions_were_lost(pair: Pair) -> None:
    """They went to a coordinator that stood still; the abort comes to its successor."""

    def story(one: Story) -> None:
        for version in range(6):
            one.init(f"begins, {version}")
            one.end(f"abort of what is empty, {version}", version, committed=False)
            one.describe(f"was empty, {version}")
            one.add(f"late, {version}")
            one.describe(f"added late, {version}")
            one.end(f"commit, {version}", version)
            one.describe(f"committed, {version}")
            one.end(f"abort after a commit, {version}", version, committed=False)
            one.describe(f"was committed, {version}")
            one.add(f"added, {version}")
            one.end(f"abort, {version}", version, committed=False)
            one.end(f"abort after an abort, {version}", version, committed=False)
            one.describe(f"was aborted, {version}")
            one.init(f"goes on, {version}", producer_id=one.producer_id, producer_epoch=one.epoch)
            one.end(f"abort after going on, {version}", version, committed=False)
            one.describe(f"went on, {version}")

    tell(pair, "lost-additions", story)


def test_fencing(pair: Pair) -> None:
    def story(one: Story) -> None:
        for version in range(3, 6):
            one.init(f"begins {version}", version)
            one.produce(f"a batch {version}", 12)
            old = one.epoch
            one.init(f"a second one {version}", version)
            for api in range(6):
                one.end(f"fenced end {api}", api, producer_epoch=old)
            for api in range(4):
                one.add(f"fenced add {api}", api, producer_epoch=old)
            for api in range(5):
                one.add_offsets(f"fenced offsets {api}", api, producer_epoch=old)
            one.verify("fenced", producer_epoch=old)
            one.produce("fenced batch, old", 9, 1, producer_epoch=old)
            one.produce("fenced batch", 12, 1, producer_epoch=old)
            one.offsets("fenced commit, old", 3, producer_epoch=old)
            one.offsets("fenced commit", 5, producer_epoch=old)
            one.init(f"fenced {version}", version, producer_id=one.producer_id, producer_epoch=old)
            one.init("goes on", version, producer_id=one.producer_id, producer_epoch=one.epoch)
            one.init("another producer id", version, producer_id=77, producer_epoch=0)
            one.end("a higher epoch", producer_epoch=one.epoch + 9)
            one.end("another producer", producer_id=777)
            one.produce("another producer's batch", 12, producer_id=777)
            one.describe("after all")

    tell(pair, "fencing", story)


def test_a_producer_learns_of_the_abort_that_fenced_it(pair: Pair) -> None:
    def story(one: Story) -> None:
        one.init("begins")
        one.produce("a batch", 12)
        request = {"transactional_id": one.id, "transaction_timeout_ms": 60_000}
        concurrent = ask(one.port, "InitProducerId", 5, **request)
        one.note("the open one is aborted first", concurrent["errorCode"])
        one.describe("aborted")
        one.end("commit", producer_epoch=0)
        one.end("abort, version 1", 4, committed=False, producer_epoch=0)
        one.end("abort", committed=False)
        one.produce("goes on", 12)
        one.init("another one begins")
        one.describe("and is the newest")

    tell(pair, "aborted-by-another", story)


def test_what_may_not_be_asked(pair: Pair) -> None:
    def story(one: Story) -> None:
        for timeout in (0, -1, 900_001):
            one.init(f"timeout {timeout}", transaction_timeout_ms=timeout)
        one.init("no id", transactional_id="")
        one.end("no id", transactional_id="")
        one.add("no id", transactional_id="")
        one.add_offsets("no id", transactional_id="")
        one.init("half of a producer", producer_id=5)

    tell(pair, "refusals", story)


def test_lists_and_markers(pair: Pair) -> None:
    for filters in ({"state_filters": ["Nonsense"]}, {"producer_id_filters": [987654]},
                    {"transactional_id_pattern": "nobody"}, {"transactional_id_pattern": "("},
                    {"transactional_id_pattern": ""}):  # fmt: skip
        only: Json = {"state_filters": ["PrepareCommit"], "producer_id_filters": [], **filters}
        pair.ask("ListTransactions", str(filters), versions=[2], **only)
    pair.ask("DescribeTransactions", "nobody", transactional_ids=["nobody", ""])
    marker = {"producer_id": 999_999, "producer_epoch": 0, "transaction_result": False,
              "coordinator_epoch": 0}  # fmt: skip
    for topic, index in (("nowhere", 0), ("plain", 99)):
        topics = [{"name": topic, "partition_indexes": [index]}]
        pair.ask("WriteTxnMarkers", f"{topic}-{index}", markers=[{**marker, "topics": topics}])
