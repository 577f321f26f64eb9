"""A topic that is nearly all in the remote store, before real clients: nothing is missing there."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.admin import alter_topic, create_topic, delete_records, delete_topic
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import QUICK
from tests.tiered.s3_server import BUCKET, s3_server
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, ottla
from tools.kafka_peer.peer import run_tool

from ottla.client.admin import Admin
from ottla.common.topic_partition import TopicPartition
from ottla.tiered.driver.stores import open_store
from ottla.tiered.store import RemoteStore

COUNT = 12_000
SIZE = 2_000
FEW = 4_000
LAST_SEGMENT = COUNT // 20
"""Records that a segment of 1 MiB has at most: of ``COUNT`` records 95 % are remote."""
LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -4, -5
TIERED = {
    "remote.log.storage.system.enable": "true",
    "remote.log.manager.task.interval.ms": "200",
    "log.segment.delete.delay.ms": "100",
}
OF_TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": "1048576",
    "local.retention.bytes": "1",
}


class Tier:
    """A broker with a remote store, and the store itself."""

    def __init__(self, broker: BrokerProcess, store: RemoteStore) -> None:
        self.broker = broker
        self.store = store

    @property
    def servers(self) -> str:
        return self.broker.bootstrap_servers

    def offset(self, topic: str, timestamp: int) -> int:
        partition = TopicPartition(topic, 0)
        with Admin(self.servers) as admin:
            return admin.list_offsets({partition: timestamp})[partition].offset

    def segments(self, topic: str) -> list[str]:
        """The keys of the segments that the store has of a topic."""
        return [each.key for each in self.store.list(f"{topic}-") if each.key.endswith(".log")]

    def fill(self, topic: str, count: int = COUNT) -> list[Message]:
        """A topic of which all but the last segment is in the remote store alone."""
        create_topic(self.servers, topic, config=OF_TOPIC)
        now = int(time.time() * 1000)
        messages = [
            Message(b"%d" % number * 10 + bytes(SIZE), b"%d" % number, (), now + number)
            for number in range(count)
        ]
        CLIENTS[0].produce(self.servers, topic, messages)
        eventually(
            lambda: self.offset(topic, EARLIEST_LOCAL) >= count - LAST_SEGMENT,
            f"{topic} to be remote",
        )
        return messages


@contextlib.contextmanager
def tier_in(directory: Path, url: str = "", **settings: str) -> Iterator[Tier]:
    """By default a store that is a directory."""
    url = url or (directory / "store").as_uri()
    own = {**QUICK, **TIERED, **settings, "ottla.remote.store.url": url}
    with BrokerProcess(ottla(), directory / "broker", own) as broker:
        yield Tier(broker, open_store(url, settings))


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tier]:
    with tier_in(tmp_path_factory.mktemp("tier")) as made:
        yield made


@pytest.fixture(params=["directory", "s3"])
def each_tier(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tier]:
    if request.param == "directory":
        with tier_in(tmp_path) as made:
            yield made
        return
    with (
        s3_server() as server,
        tier_in(tmp_path, f"s3://{BUCKET}/prefix", **server.settings) as made,
    ):
        yield made


def test_every_record_comes_from_offset_0_on_and_again_after_a_crash(each_tier: Tier) -> None:
    tier = each_tier
    messages = tier.fill("history")
    assert tier.offset("history", EARLIEST) == 0
    assert tier.offset("history", LATEST) == COUNT
    local_start = tier.offset("history", EARLIEST_LOCAL)
    assert tier.offset("history", LATEST_TIERED) >= local_start - 1
    for number, client in enumerate(CLIENTS):
        received = client.consume(tier.servers, "history", COUNT)
        assert [each.offset for each in received] == list(range(COUNT))
        assert [each.message for each in received] == messages
        if number == 0:
            tier.broker.kill()
            tier.broker.start()
    found = tier.offset("history", messages[777].timestamp or 0)
    assert found == 777, "a time is found in the remote store"


def test_a_deleted_topic_leaves_nothing_in_the_store(tier: Tier) -> None:
    tier.fill("gone", FEW)
    assert tier.segments("gone")
    delete_topic(tier.servers, "gone")
    eventually(lambda: not list(tier.store.list("gone-")), "nothing left")


def test_retention_counts_both_tiers_and_the_log_begins_behind_what_goes(tier: Tier) -> None:
    tier.fill("kept", FEW)
    alter_topic(tier.servers, "kept", retention_bytes="3000000")
    eventually(lambda: tier.offset("kept", EARLIEST) > FEW // 2, "a later log start")
    first = tier.offset("kept", EARLIEST)
    assert first < FEW * 0.8, "not more than is too much"
    received = CLIENTS[0].consume(tier.servers, "kept", FEW - first, offset=first)
    assert [each.offset for each in received] == list(range(first, FEW))


def test_records_deleted_by_hand_are_gone_from_the_store_too(tier: Tier) -> None:
    tier.fill("cut", FEW)
    count = len(tier.segments("cut"))
    delete_records(tier.servers, "cut", FEW * 3 // 4)
    assert tier.offset("cut", EARLIEST) == FEW * 3 // 4
    eventually(lambda: len(tier.segments("cut")) < count // 2, "fewer segments")
    received = CLIENTS[0].consume(tier.servers, "cut", FEW // 4, offset=FEW * 3 // 4)
    assert [each.offset for each in received] == list(range(FEW * 3 // 4, FEW))


@pytest.mark.peer
def test_a_java_consumer_reads_a_topic_that_is_nearly_all_remote(tmp_path: Path) -> None:
    with tier_in(tmp_path) as tier:
        messages = tier.fill("history")
        done = run_tool(
            "kafka-console-consumer", "--bootstrap-server", tier.servers, "--topic", "history",
            "--from-beginning", "--max-messages", str(COUNT), "--timeout-ms", "60000",
            "--formatter-property", "print.offset=true", "--formatter-property", "print.key=true",
            "--formatter-property", "print.value=false",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        expected = [
            f"Offset:{number}\t{(message.key or b'').decode()}"
            for number, message in enumerate(messages)
        ]
        assert done.stdout.splitlines() == expected
