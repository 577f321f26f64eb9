"""The controller over its log: answers wait for the commit, images come in order, lives follow."""

import errno
from typing import NamedTuple

import pytest
from tests.controller.nodes import Node, formatted
from tests.raft.quorums import DIRECTORY, LOG_DIR, settings

from ottla.common.authorization import Principal
from ottla.common.errors import (
    BrokerIdNotRegistered,
    DelegationTokenAuthDisabled,
    NotController,
)
from ottla.controller import tasks
from ottla.controller.client import ControllerClient
from ottla.metadata.records import MetadataRecord, decode_record
from ottla.protocol.generated import metadata_records as r
from ottla.protocol.generated.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest
from ottla.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from ottla.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
)
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest
from ottla.raft.log import MetadataLog
from ottla.records.batch import batches, read_header
from ottla.records.record import iterate
from ottla.storage.directories import LogUnavailable
from ottla.testing.files import MemoryFilesystem

LOG = f"{DIRECTORY}/00000000000000000000.log"


def written(filesystem: MemoryFilesystem) -> list[list[MetadataRecord]]:
    """The batches of metadata records in the log."""
    data = filesystem.read(LOG)
    return [
        [decode_record(record.value or b"") for record in iterate(data, start)]
        for start, _ in batches(data)
        if not read_header(data, start).is_control
    ]


def kinds(records: list[MetadataRecord]) -> list[str]:
    return [type(record).__name__ for record in records]


def test_a_new_cluster_begins_with_the_records_that_kafka_begins_with() -> None:
    filesystem = formatted()
    node = Node(filesystem).start()
    node.start_broker()
    bootstrap, controller, registration, unfenced = written(filesystem)
    assert kinds(bootstrap) == [
        "BeginTransactionRecord",
        *["FeatureLevelRecord"] * 6,
        "ConfigRecord",
        "EndTransactionRecord",
    ]
    assert bootstrap[0] == r.BeginTransactionRecord(name="Bootstrap records")
    assert bootstrap[7] == r.ConfigRecord(
        resource_type=4, resource_name="", name="min.insync.replicas", value="1"
    )
    assert kinds(controller) == ["RegisterControllerRecord"]
    assert kinds(registration) == ["RegisterBrokerRecord"]
    assert unfenced == [r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=13, fenced=-1)]
    assert node.broker_epoch == 13, "where Kafka's own is, too"


def test_a_controller_tells_where_it_is_reached() -> None:
    filesystem = formatted()
    config = settings(listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:0")
    node = Node(filesystem, config=config)
    node.wait(node.driver.start({"CONTROLLER": 4711}))
    endpoint = node.metadata.image.controllers[1].listeners["CONTROLLER"]
    assert (endpoint.host, endpoint.port) == ("localhost", 4711)


def test_an_answer_waits_for_the_commit_and_the_image_comes_before_it() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    promise = node.create("t")
    assert not promise.done
    assert "t" not in node.metadata.image.topics.by_name
    seen: list[bool] = []
    promise.when_done(lambda _: seen.append("t" in node.metadata.image.topics.by_name))
    assert node.wait(promise).topics[0].error_code == 0
    assert seen == [True]


def test_a_request_sees_what_the_one_before_it_did_although_that_is_not_committed() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    first, second = node.create("t"), node.create("t")
    deleted = node.driver.submit(DeleteTopicsRequest(topic_names=["t"]))
    assert node.wait(first).topics[0].error_code == 0
    assert node.wait(second).topics[0].error_code == 36
    assert node.wait(deleted).responses[0].error_code == 0
    assert len(node.metadata.image.topics) == 0


def test_an_answer_without_records_waits_for_what_it_tells_of() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    created = node.create("t")
    listed = node.driver.submit(ListPartitionReassignmentsRequest())
    done = []
    listed.when_done(lambda _: done.append("listed"))
    created.when_done(lambda _: done.append("created"))
    assert done == []
    node.wait(created)
    assert sorted(done) == ["created", "listed"]
    again = node.driver.submit(ListPartitionReassignmentsRequest())
    assert again.done, "nothing is open, nothing is waited for"


def test_images_come_in_order_with_what_changed() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    del node.images[:]
    for name in ("a", "b", "c"):
        node.create(name)
    node.wait(node.create("d"))
    offsets = [image.offset for image, _ in node.images]
    assert offsets == sorted(offsets)
    for name, (image, delta) in zip("abcd", node.images, strict=True):
        assert [changed.name for changed in delta.topics.changed.values()] == [name]
        assert name in image.topics.by_name


def test_whoever_is_not_active_refuses() -> None:
    node = Node(formatted())
    with pytest.raises(NotController):
        node.wait(node.create("t"))
    node.start()
    node.start_broker()
    waiting = node.create("t")
    node.wait(node.driver.stop())
    with pytest.raises(NotController):
        waiting.result()


def test_a_restart_finds_everything_and_a_later_epoch() -> None:
    filesystem = formatted()
    first = Node(filesystem).start()
    first.start_broker()
    first.wait(first.create("t", 3))
    first.wait(first.driver.stop())
    second = Node(filesystem).start()
    assert second.metadata.image.topics == first.metadata.image.topics
    assert second.metadata.image.features == first.metadata.image.features
    assert second.driver.raft.epoch == 2
    second.start_broker(previous_epoch=first.broker_epoch)
    partition = second.metadata.image.topics.by_name["t"].partitions[0]
    assert (partition.leader, partition.isr, partition.leader_recovery_state) == (1, (1,), 0)


def test_a_broker_of_this_process_need_not_wait_for_its_earlier_session() -> None:
    filesystem = formatted()
    first = Node(filesystem).start()
    first.start_broker()
    first.wait(first.create("t"))
    filesystem.kill()
    second = Node(filesystem).start()
    before = second.scheduler.now
    second.start_broker()
    assert second.scheduler.now - before < 1.0
    assert second.metadata.image.topics.by_name["t"].partitions[0].leader_recovery_state == 1


def test_an_idle_controller_gives_a_sign_of_life() -> None:
    filesystem = formatted()
    node = Node(filesystem, config=settings(metadata_max_idle_interval_ms="500")).start()
    before = len(written(filesystem))
    node.scheduler.run_for(5.2)
    added = written(filesystem)[before:]
    assert 8 <= len(added) <= 10
    assert all(batch == [r.NoOpRecord()] for batch in added)


def test_no_sign_of_life_when_it_is_not_wanted() -> None:
    filesystem = formatted()
    node = Node(filesystem, config=settings(metadata_max_idle_interval_ms="0")).start()
    before = len(written(filesystem))
    node.scheduler.run_for(5)
    assert len(written(filesystem)) == before


def test_a_broker_that_falls_silent_is_fenced() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    node.wait(node.create("t"))
    node.scheduler.run_for(11)
    image = node.metadata.image
    assert image.brokers[1].fenced
    assert image.topics.by_name["t"].partitions[0].leader == -1
    assert not node.wait(node.driver.submit(node.heartbeat())).is_fenced
    assert node.metadata.image.topics.by_name["t"].partitions[0].leader == 1


def test_snapshots_are_taken_after_so_many_bytes_and_old_ones_go() -> None:
    filesystem = formatted()
    config = settings(
        metadata_log_max_record_bytes_between_snapshots="4000",
        metadata_max_retention_bytes="12000",
        internal_metadata_log_segment_bytes="4000",
        metadata_max_idle_interval_ms="0",
    )
    node = Node(filesystem, config=config).start()
    node.start_broker()
    for number in range(40):
        node.wait(node.create(f"topic-{number}", 5))
    node.scheduler.run_for(1)
    names = filesystem.list_directory(DIRECTORY)
    snapshots = [name for name in names if name.endswith(".checkpoint")]
    assert 1 <= len(snapshots) < 5
    assert min(name for name in names if name.endswith(".log")) > "00000000000000000000.log"
    image = node.metadata.image
    filesystem.crash()
    again = Node(filesystem, config=config).start()
    assert again.metadata.image.topics == image.topics
    assert again.metadata.image.brokers == image.brokers
    assert len(again.images) <= 4, "a snapshot, the log behind it, and what the start wrote"


def test_a_snapshot_of_what_has_one_already_is_not_taken_again() -> None:
    node = Node(formatted(), config=settings(metadata_max_idle_interval_ms="0")).start()
    node.wait(node.driver.take_snapshot())
    latest = node.driver.raft.snapshots.latest()
    assert latest is not None
    assert latest.end_offset == node.metadata.image.offset + 1
    node.wait(node.driver.take_snapshot())
    assert node.driver.raft.snapshots.latest() == latest


def test_a_disk_that_fails_ends_the_controller() -> None:
    filesystem = formatted()
    node = Node(filesystem).start()
    node.start_broker()
    filesystem.fail = lambda what, path: (
        OSError(errno.EIO, "broken") if what == "sync" and path == LOG else None
    )
    with pytest.raises(NotController):
        node.wait(node.create("t"))
    assert len(node.failures) == 1
    assert not node.driver.is_active
    assert "t" not in node.metadata.image.topics.by_name


@pytest.mark.parametrize("lacking", [1, 2])
def test_a_controller_that_could_not_write_its_first_records_does_not_lead_without_them(
    lacking: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(formatted())
    append, count = MetadataLog.append, 0

    def scarce(log: MetadataLog, batch: bytearray, now_ms: int) -> None:
        nonlocal count
        count += 1
        if 2 <= count < 2 + lacking:  # the first one tells of the election
            raise LogUnavailable(LOG_DIR, OSError(errno.EMFILE, "Too many open files"))
        append(log, batch, now_ms)

    monkeypatch.setattr(MetadataLog, "append", scarce)
    node.start()
    assert node.metadata.image.features.metadata_version > 0
    assert node.failures == []
    assert node.wait(node.driver.stop()) is None


def test_a_disk_that_fails_during_the_start_ends_the_start() -> None:
    filesystem = formatted()
    node = Node(filesystem)
    started = node.driver.start()
    filesystem.fail = lambda what, path: (
        OSError(errno.EIO, "broken") if what == "write" and path == LOG else None
    )
    with pytest.raises(NotController):
        node.wait(started)
    assert len(node.failures) == 1


def test_the_quorum_is_described() -> None:
    node = Node(formatted()).start()

    def ask(topic: str) -> DescribeQuorumRequest:
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        return DescribeQuorumRequest(
            topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=[partition])]
        )

    response = node.wait(node.driver.submit(ask("__cluster_metadata")))
    (partition,) = response.topics[0].partitions
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, 1)
    assert partition.high_watermark == node.driver.raft.high_watermark
    (voter,) = partition.current_voters
    assert (voter.replica_id, voter.replica_directory_id) == (1, node.directory_id)
    assert [(each.name, each.port) for each in response.nodes[0].listeners] == [
        ("CONTROLLER", 9093)
    ]
    other = node.wait(node.driver.submit(ask("x"))).topics[0].partitions[0]
    assert other.error_code == 3
    node.wait(node.driver.stop())
    stopped = node.wait(node.driver.submit(ask("__cluster_metadata")))
    assert stopped.topics[0].partitions[0].error_code == 6


def test_an_open_transaction_of_an_earlier_controller_is_aborted() -> None:
    filesystem = formatted()
    first = Node(filesystem, config=settings(metadata_max_idle_interval_ms="0")).start()
    half: list[MetadataRecord] = [
        r.BeginTransactionRecord(name="x"),
        r.TopicRecord(name="half", topic_id=b"h" * 16),
    ]
    first.driver._append(half, atomic=True)
    first.wait(first.driver.stop())
    second = Node(filesystem).start()
    assert "half" not in second.metadata.image.topics.by_name
    assert [r.AbortTransactionRecord(reason="Controller failover")] in written(filesystem)
    second.start_broker()
    assert second.wait(second.create("t")).topics[0].error_code == 0


def test_a_snapshot_that_cannot_be_written_does_no_harm() -> None:
    filesystem = formatted()
    node = Node(filesystem, config=settings(metadata_max_idle_interval_ms="0")).start()
    node.start_broker()
    filesystem.fail = lambda what, path: (
        OSError(errno.ENOSPC, "full") if what == "write" and path.endswith(".part") else None
    )
    taken = node.driver.take_snapshot()
    assert node.scheduler.run_until(lambda: taken.done, 10)
    filesystem.fail = lambda _what, _path: None
    assert node.wait(node.create("t")).topics[0].error_code == 0
    node.wait(node.driver.take_snapshot())
    latest = node.driver.raft.snapshots.latest()
    assert latest is not None
    assert latest.end_offset > 0


def test_a_process_that_stood_still_does_not_fence_its_broker() -> None:
    node = Node(formatted()).start()
    node.start_broker()
    node.scheduler.now += 60.0  # stopped, or the machine was asleep
    node.scheduler.run_for(0.001)
    assert not node.metadata.image.brokers[1].fenced
    assert not node.wait(node.driver.submit(node.heartbeat())).is_fenced
    node.scheduler.run_for(11)
    assert node.metadata.image.brokers[1].fenced


def test_a_broker_asks_a_controller_without_knowing_where_it_is() -> None:
    node = Node(formatted()).start()
    client: ControllerClient = node.driver
    request = UnregisterBrokerRequest(broker_id=7)
    with pytest.raises(BrokerIdNotRegistered):
        node.wait(client.submit(request))


def test_a_thousand_partitions_are_one_batch() -> None:
    filesystem = formatted()
    node = Node(filesystem).start()
    node.start_broker()
    assert node.wait(node.create("big", 1000)).topics[0].num_partitions == 1000
    assert len(written(filesystem)[-1]) == 1001


class Alice(NamedTuple):
    principal: Principal = Principal("User", "alice")
    client_id: str | None = None
    peer_host: str = "10.0.0.9"
    request_name: str = "CreateDelegationToken"


def test_expired_tokens_are_removed_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "TOKENS_MAX", 3)
    config = settings(
        delegation_token_secret_key="secret", delegation_token_expiry_check_interval_ms="5000"
    )
    filesystem = formatted(config)
    node = Node(filesystem, config=config).start()
    for lifetime_ms in (*[1000] * 7, -1):
        request = CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms)
        node.wait(node.driver.submit(request, Alice()))
    node.scheduler.run_for(4.0)
    assert len(node.metadata.image.delegation_tokens) == 8
    node.scheduler.run_for(2.0)
    (left,) = node.metadata.image.delegation_tokens.values()
    assert left.owner == "User:alice"
    removals = [
        len(batch)
        for batch in written(filesystem)
        if isinstance(batch[0], r.RemoveDelegationTokenRecord)
    ]
    assert removals == [3, 3, 1]


def test_without_a_key_nothing_is_looked_for() -> None:
    node = Node(formatted()).start()
    refused = node.wait(node.driver.submit(CreateDelegationTokenRequest(), Alice()))
    assert refused.error_code == DelegationTokenAuthDisabled.code
