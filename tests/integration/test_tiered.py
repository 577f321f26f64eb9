"""Topics whose older part is in a remote store, with a real process and other people's clients."""

import re
from pathlib import Path

import pytest
from tests.integration.admin import alter_topic, create_topic, delete_topic, offsets
from tests.integration.clients import CLIENTS, Message
from tests.integration.conftest import TARGET, NewBroker
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess
from tools.kafka_peer.peer import run_tool

pytestmark = pytest.mark.skipif(
    TARGET == "kafka", reason="Apache Kafka brings no remote store of its own"
)

TIERED = {
    "remote_log_storage_system_enable": "true",
    "remote_log_manager_task_interval_ms": "200",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "2",
    "rlmm_config_remote_log_metadata_topic_replication_factor": "1",
}
TOPIC = {
    "remote.storage.enable": "true",
    "segment.bytes": str(1 << 20),
    "local.retention.ms": "1",
    "file.delete.delay.ms": "0",
}
COUNT = 4_000
SENT = [Message(b"%d " % number + b"x" * 1000) for number in range(COUNT)]


def started(new_broker: NewBroker, tmp_path: Path) -> BrokerProcess:
    """A broker with a topic of which more than half is in the remote store alone."""
    store = f"file://{tmp_path}/store"
    broker: BrokerProcess = new_broker(**TIERED, ottla_remote_store_url=store)
    create_topic(broker.bootstrap_servers, "tiered", config=TOPIC)
    CLIENTS[0].produce(broker.bootstrap_servers, "tiered", SENT)
    eventually(lambda: local_start(broker) > COUNT / 2, "segments leave this disk")
    return broker


def local_start(broker: BrokerProcess, topic: str = "tiered") -> int:
    found = sorted((broker.log_directory / f"{topic}-0").glob("*.log"))
    return int(found[0].stem)


def test_everything_is_read_from_both_tiers_also_after_a_kill(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    broker = started(new_broker, tmp_path)
    for client in CLIENTS:
        read = client.consume(broker.bootstrap_servers, "tiered", COUNT)
        assert [message.value for message in read] == [message.value for message in SENT]
    assert offsets(broker.bootstrap_servers, "tiered") == (0, COUNT)
    broker.kill()
    broker.start()
    read = CLIENTS[0].consume(broker.bootstrap_servers, "tiered", COUNT)
    assert [message.value for message in read] == [message.value for message in SENT]


def test_deleted_and_disabled_topics_leave_nothing_in_the_store(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    broker = started(new_broker, tmp_path)
    store = tmp_path / "store"
    create_topic(broker.bootstrap_servers, "other", config=TOPIC)
    CLIENTS[0].produce(broker.bootstrap_servers, "other", SENT[:2500])
    eventually(lambda: any(store.glob("other-*/0/*.json")), "the other topic is copied")
    eventually(lambda: local_start(broker, "other") > 0, "its first segment leaves this disk")
    delete_topic(broker.bootstrap_servers, "tiered")
    eventually(lambda: not any(store.glob("tiered-*/0/*")), "the deleted topic is gone")
    off = {"remote_storage_enable": "false", "remote_log_delete_on_disable": "true"}
    alter_topic(broker.bootstrap_servers, "other", **off)
    eventually(lambda: not any(store.glob("other-*/0/*")), "the disabled topic is gone")
    first, last = offsets(broker.bootstrap_servers, "other")
    assert 0 < first < last == 2500
    read = CLIENTS[0].consume(broker.bootstrap_servers, "other", last - first, offset=first)
    assert [message.value for message in read] == [message.value for message in SENT[first:last]]


@pytest.mark.peer
def test_apaches_tools_read_the_metadata_topic_and_the_records(
    new_broker: NewBroker, tmp_path: Path
) -> None:
    broker = started(new_broker, tmp_path)
    consumed = run_tool(
        "kafka-console-consumer", "--bootstrap-server", broker.bootstrap_servers,
        "--topic", "tiered", "--from-beginning", "--max-messages", str(COUNT),
        "--timeout-ms", "60000",
    )  # fmt: skip
    assert consumed.stdout.splitlines() == [(message.value or b"").decode() for message in SENT]
    broker.stop()
    files = sorted(broker.log_directory.glob("__remote_log_metadata-*/*.log"))
    dumped = run_tool(
        "kafka-dump-log", "--remote-log-metadata-decoder", "--files", ",".join(map(str, files))
    )
    assert dumped.returncode == 0, dumped.stderr
    begun = re.findall(
        r"RemoteLogSegmentMetadata\{.*?startOffset=(\d+), endOffset=(\d+)", dumped.stdout
    )
    finished = dumped.stdout.count("state=COPY_SEGMENT_FINISHED")
    assert len(begun) == finished >= 3
    assert [int(start) for start, _ in begun[1:]] == [int(end) + 1 for _, end in begun[:-1]]
