"""The driver of a quorum of one: what it writes, when it commits, what it does after a fault."""

import contextlib
import errno

import pytest
from tests.raft.quorums import (
    DIRECTORY,
    VOTERS,
    Notes,
    Quorum,
    Silence,
    formatted,
    settings,
    snapshot_batches,
)

from ottla.common.errors import NotController
from ottla.common.promise import Promise
from ottla.raft.control import QuorumUnknown
from ottla.raft.divergence import Agreement, compare, truncation_point
from ottla.raft.effects import FetchLog, FetchSnapshot
from ottla.raft.events import EpochBegun, FetchAnswered, SnapshotAnswered
from ottla.raft.log import LogBatch, OffsetAndEpoch
from ottla.raft.quorum_state import decode_quorum_state
from ottla.raft.replaying import Replaying
from ottla.raft.snapshots import SnapshotId, SnapshotRetention
from ottla.raft.stopping import STOP_SECONDS, in_time
from ottla.raft.voters import LeaderInfo
from ottla.records.batch import batches
from ottla.records.builder import BatchBuilder
from ottla.records.control import ControlType, read_control_type
from ottla.storage.directories import LogDirFailed
from ottla.testing.files import MemoryFilesystem

NO_OP = bytes([1, 20, 0, 0])
LOG = f"{DIRECTORY}/00000000000000000000.log"


def log_batches(filesystem: MemoryFilesystem) -> list[LogBatch]:
    data = filesystem.read(LOG)
    return [LogBatch(data[start : start + size]) for start, size in batches(data)]


def control_types(batch: LogBatch) -> list[ControlType]:
    return [read_control_type(record.key) for record in batch.records()]


def test_a_new_dynamic_quorum_begins_with_leader_version_and_voters() -> None:
    filesystem = formatted()
    quorum = Quorum(filesystem).lead()
    (first,) = log_batches(filesystem)
    assert control_types(first) == [
        ControlType.LEADER_CHANGE,
        ControlType.KRAFT_VERSION,
        ControlType.KRAFT_VOTERS,
    ]
    assert (first.epoch, first.last_offset) == (1, 2)
    assert quorum.driver.kraft_version == 1
    assert quorum.driver.voters == VOTERS
    state = decode_quorum_state(filesystem.read(f"{DIRECTORY}/quorum-state"))
    assert (state.epoch, state.leader_id, state.voted) == (1, 1, None)


def test_a_static_quorum_begins_with_its_leader_alone() -> None:
    filesystem = formatted(dynamic=False)
    config = settings(
        controller_quorum_voters="1@localhost:9093", controller_quorum_bootstrap_servers=""
    )
    quorum = Quorum(filesystem, config=config).lead()
    assert control_types(log_batches(filesystem)[0]) == [ControlType.LEADER_CHANGE]
    assert quorum.driver.kraft_version == 0
    assert b'"data_version":0' in filesystem.read(f"{DIRECTORY}/quorum-state")


def test_without_voters_there_is_no_quorum() -> None:
    with pytest.raises(QuorumUnknown, match="--standalone"):
        Quorum(formatted(dynamic=False)).driver.start()


def test_a_restart_begins_an_epoch_and_brings_back_what_was_committed() -> None:
    filesystem = formatted()
    first = Quorum(filesystem).lead()
    first.commit(b"a", b"b")
    first.commit(b"c")
    first.stop()
    second = Quorum(filesystem).lead()
    assert second.notes.values == [b"a", b"b", b"c"]
    assert second.notes.offsets == [3, 4, 5]
    assert second.notes.epochs == [2]
    assert second.notes.shown == 1, "a log of many batches is shown as one state"
    last = log_batches(filesystem)[-1]
    assert (last.epoch, control_types(last)) == (2, [ControlType.LEADER_CHANGE])


def test_nothing_is_committed_before_the_disk_has_it() -> None:
    filesystem = formatted()
    quorum = Quorum(filesystem).lead()
    synced: list[str] = []
    filesystem.after = lambda operation, path: synced.append(path) if operation == "sync" else None
    end = quorum.append(b"a")
    assert quorum.notes.high_watermark < end
    assert quorum.scheduler.run_until(lambda: quorum.notes.high_watermark >= end, 10)
    assert LOG in synced


def test_appends_that_come_during_a_sync_share_the_next_one() -> None:
    filesystem = formatted()
    quorum = Quorum(filesystem).lead()
    syncs = 0

    def count(operation: str, path: str) -> None:
        nonlocal syncs
        syncs += operation == "sync" and path == LOG

    filesystem.after = count
    for value in range(100):
        quorum.append(b"%d" % value)
    end = quorum.driver.end_offset
    assert quorum.scheduler.run_until(lambda: quorum.notes.high_watermark >= end, 10)
    assert syncs == 2, "one for the first append, one for all that came meanwhile"


def test_who_does_not_lead_cannot_append() -> None:
    quorum = Quorum(formatted()).lead()
    quorum.stop()
    with pytest.raises(NotController):
        quorum.append(b"a")
    assert quorum.notes.lost == [1]


def test_what_is_written_when_a_node_stops_is_on_disk() -> None:
    filesystem = formatted()
    quorum = Quorum(filesystem).lead()
    quorum.append(b"not yet committed")
    quorum.stop()
    filesystem.crash()
    assert Quorum(filesystem).lead().notes.values == [b"not yet committed"]


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_disk_that_fails_ends_the_leadership(operation: str) -> None:
    filesystem = formatted()
    quorum = Quorum(filesystem).lead()
    filesystem.fail = lambda what, path: (
        OSError(errno.EIO, "broken") if what == operation and path == LOG else None
    )
    with contextlib.suppress(LogDirFailed):
        quorum.append(b"a")
    quorum.scheduler.run_for(1)
    assert quorum.notes.lost == [1]
    assert len(quorum.failures) == 1
    assert not quorum.driver.is_leader


def test_a_snapshot_takes_the_place_of_the_log_before_it() -> None:
    filesystem = formatted()
    first = Quorum(filesystem).lead()
    first.commit(b"a")
    end = first.commit(b"b")
    written = first.driver.write_snapshot(SnapshotId(end, 1), snapshot_batches([NO_OP], epoch=1))
    assert first.scheduler.run_until(lambda: written.done, 10)
    first.commit(b"c")
    first.stop()
    second = Quorum(filesystem).lead()
    assert second.notes.snapshot == SnapshotId(end, 1)
    assert second.notes.values == [b"c"]
    assert second.driver.kraft_version == 1


def test_a_log_that_ends_before_its_snapshot_begins_again_behind_it() -> None:
    filesystem = formatted()
    first = Quorum(filesystem).lead()
    first.stop()
    first.driver.snapshots.write(SnapshotId(1000, 7), snapshot_batches([NO_OP], epoch=7))
    second = Quorum(filesystem).lead()
    assert second.notes.snapshot == SnapshotId(1000, 7)
    assert second.driver.end_offset == 1001
    assert second.notes.epochs == [8]


def test_old_snapshots_and_the_log_before_them_go() -> None:
    filesystem = formatted()
    config = settings(internal_metadata_log_segment_bytes="1024")
    quorum = Quorum(filesystem, config=config).lead()
    for number in range(1, 4):
        for _ in range(20):
            quorum.commit(bytes(100))
        snapshot_id = SnapshotId(quorum.driver.end_offset, 1)
        quorum.driver.snapshots.write(snapshot_id, snapshot_batches([NO_OP], epoch=1))
        assert quorum.driver.snapshots.latest() == snapshot_id
        assert len(quorum.driver.snapshots.ids()) == number + 1
    quorum.driver.clean(SnapshotRetention(-1, -1))
    assert len(quorum.driver.snapshots.ids()) == 4, "no bound, nothing goes"
    quorum.driver.clean(SnapshotRetention(1, -1))
    (last,) = quorum.driver.snapshots.ids()
    assert last.end_offset == quorum.driver.end_offset
    logs = [name for name in filesystem.list_directory(DIRECTORY) if name.endswith(".log")]
    assert min(logs) > "00000000000000000000.log"
    quorum.commit(b"after")
    quorum.stop()
    again = Quorum(filesystem, config=config).lead()
    assert again.notes.snapshot == last
    assert again.notes.values == [b"after"]


def test_what_a_crash_left_unfinished_is_removed() -> None:
    filesystem = formatted()
    for name in (
        "00000000000000000009-0000000001.checkpoint.part",
        "00000000000000000009-0000000001-12.checkpoint.part",
        "00000000000000000009-0000000001.checkpoint.deleted",
    ):
        filesystem.write(f"{DIRECTORY}/{name}", b"half")
    Quorum(filesystem).lead()
    assert [n for n in filesystem.list_directory(DIRECTORY) if "checkpoint." in n] == []


def download(
    quorum: Quorum, snapshot_id: SnapshotId, leader: LeaderInfo, *, end: int | None = None
) -> list[FetchSnapshot]:
    """Begin to follow ``leader``, and get a snapshot from it; nothing more happens yet.

    It comes up to ``end``; return what is asked for next.
    """
    driver = quorum.driver
    effects = driver.step(EpochBegun(driver.now, leader))
    (fetch,) = (effect for effect in effects if isinstance(effect, FetchLog))
    effects = driver.step(FetchAnswered(driver.now, fetch, 0, leader, snapshot_id=snapshot_id))
    (asked,) = (effect for effect in effects if isinstance(effect, FetchSnapshot))
    return receive(quorum, asked, leader, 0, end)


def receive(
    quorum: Quorum, asked: FetchSnapshot, leader: LeaderInfo, start: int, end: int | None
) -> list[FetchSnapshot]:
    data = b"".join(snapshot_batches([NO_OP], epoch=1))
    now, part = quorum.driver.now, data[start:end]
    effects = quorum.driver.step(
        SnapshotAnswered(now, asked, 0, leader, asked.snapshot_id, len(data), start, part)
    )
    return [effect for effect in effects if isinstance(effect, FetchSnapshot)]


def parts(quorum: Quorum) -> list[str]:
    names = quorum.filesystem.list_directory(DIRECTORY)
    return [name for name in names if name.endswith(".part")]


def voter_of_three(seed: int = 1) -> Quorum:
    config = settings(
        controller_quorum_voters="1@localhost:9093,2@localhost:9094,3@localhost:9095",
        controller_quorum_bootstrap_servers="",
    )
    quorum = Quorum(formatted(dynamic=False), seed=seed, config=config, channel=Silence())
    quorum.driver.start()
    return quorum


@pytest.mark.parametrize("seed", range(6))
def test_a_snapshot_that_comes_again_while_it_is_checked_is_installed_once(seed: int) -> None:
    """Seed 52 of the simulation: the later of two checks found no file, and the node ended."""
    quorum = voter_of_three(seed)
    snapshot_id = SnapshotId(1000, 1)
    download(quorum, snapshot_id, LeaderInfo(1, 2))
    download(quorum, snapshot_id, LeaderInfo(2, 3))
    quorum.scheduler.run_for(0.1)
    assert quorum.failures == []
    assert quorum.notes.snapshot == snapshot_id
    assert quorum.driver.end_offset == 1000


def test_a_download_that_has_begun_anew_is_not_judged_by_the_check_of_the_first() -> None:
    quorum = voter_of_three()
    snapshot_id = SnapshotId(1000, 1)
    download(quorum, snapshot_id, LeaderInfo(1, 2))
    (asked,) = download(quorum, snapshot_id, LeaderInfo(2, 3), end=70)
    quorum.scheduler.run_for(0.1)
    assert quorum.notes.snapshot is None
    receive(quorum, asked, LeaderInfo(2, 3), 70, None)
    quorum.scheduler.run_for(0.1)
    assert quorum.failures == []
    assert quorum.notes.snapshot == snapshot_id


def test_what_has_come_of_a_download_goes_when_it_is_given_up() -> None:
    quorum = voter_of_three()
    for epoch, end in ((1, 70), (31, None)):
        download(quorum, SnapshotId(1000 * epoch, 1), LeaderInfo(epoch, 2), end=end)
        assert len(parts(quorum)) == 1
        quorum.driver.step(EpochBegun(quorum.driver.now, LeaderInfo(epoch + 10, 3)))
        quorum.driver.step(EpochBegun(quorum.driver.now, LeaderInfo(epoch + 20, 2)))
        quorum.scheduler.run_for(0.1)
        assert parts(quorum) == []
    assert quorum.failures == []


def test_a_snapshot_that_is_written_late_goes_where_the_log_begins_with_a_later_one() -> None:
    quorum = voter_of_three()
    driver = quorum.driver
    late, newer = SnapshotId(10, 1), SnapshotId(1000, 2)
    written = driver.write_snapshot(late, snapshot_batches([NO_OP], epoch=1))
    download(quorum, newer, LeaderInfo(2, 3))
    quorum.scheduler.run_for(0.1)
    driver.snapshots.write(late, snapshot_batches([NO_OP], epoch=1))
    assert (written.done, driver.snapshots.ids()) == (True, [late, newer])
    # A replica that has exactly what lies before the log needs nothing but the log.
    assert compare(driver.log, driver.snapshots.ids(), 1000, 2) == Agreement()
    builder = BatchBuilder()
    builder.append(1, None, NO_OP)
    driver.log.append(builder.build(base_offset=1000, leader_epoch=3), 1)
    point = truncation_point(driver.log, driver.snapshots.ids(), OffsetAndEpoch(990, 1))
    assert point == OffsetAndEpoch(1000, 2)
    driver.clean(SnapshotRetention(-1, -1))
    assert driver.snapshots.ids() == [newer]


def test_a_long_log_is_replayed_in_turns_and_led_when_all_is() -> None:
    """Twenty megabytes, which is the default between two snapshots, took more than two seconds."""
    files = formatted()
    first = Quorum(files).lead()
    for number in range(50):
        first.commit(b"%d" % number * 20)
    first.stop()
    second = Quorum(files, replay_bytes=300)
    second.driver.start()
    replayed: list[int] = []
    while not second.notes.epochs:
        before = len(second.notes.values)
        steps = second.scheduler.steps
        second.scheduler.step()
        replayed.append((len(second.notes.values) - before) // (second.scheduler.steps - steps))
    assert len(second.notes.values) == 50
    assert max(replayed) <= 4
    assert second.notes.shown > 10, "what was replayed is shown in between"
    assert second.commit(b"after") == second.driver.high_watermark


def test_who_stops_in_the_middle_of_a_replay_replays_no_more() -> None:
    files = formatted()
    first = Quorum(files).lead()
    for number in range(50):
        first.commit(b"%d" % number * 20)
    first.stop()
    second = Quorum(files, replay_bytes=300)
    second.driver.start()
    while not second.notes.values and second.scheduler.now < 10:
        second.scheduler.step()
    second.stop()
    known = len(second.notes.values)
    second.scheduler.run_for(10)
    assert len(second.notes.values) == known
    assert not second.notes.epochs or known == 50


class Failing(Notes):
    """A listener that makes a mistake when it has heard of ten."""

    def replay(self, batch: LogBatch) -> None:
        if len(self.values) == 10:
            raise KeyError("a mistake")
        super().replay(batch)


def test_a_replay_that_ended_with_a_mistake_is_not_taken_for_one_that_is_done() -> None:
    """A broker with half of the image would count as caught up, and be let in."""
    quorum = Quorum(formatted()).lead()
    for number in range(50):
        quorum.commit(b"%d" % number * 20)
    failures: list[BaseException] = []
    done: list[bool] = []
    replaying = Replaying(
        quorum.driver.log,
        Failing(),
        quorum.scheduler,
        300,
        done=lambda: done.append(True),
        failed=failures.append,
    )
    assert not replaying.go_to(quorum.driver.high_watermark)
    quorum.scheduler.run_for(1)
    assert [type(each) for each in failures] == [KeyError]
    assert not done
    assert replaying.is_under_way


@pytest.mark.parametrize("seconds", [STOP_SECONDS - 1, STOP_SECONDS])
def test_a_stop_does_not_wait_for_ever_for_a_disk_that_hangs(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    quorum = Quorum(formatted()).lead()
    sync: Promise[None] = Promise(quorum.scheduler.turn)
    monkeypatch.setattr(quorum.scheduler, "run_in_background", lambda _work, _lane="": sync)
    quorum.append(b"a")
    quorum.scheduler.run_for(0.01)
    stopped = in_time(quorum.driver.stop(), quorum.scheduler, DIRECTORY)
    quorum.scheduler.run_for(seconds)
    if seconds < STOP_SECONDS:
        assert not stopped.done
        sync.fulfil(None)
        quorum.scheduler.run_for(0.1)
        stopped.result()
    else:
        with pytest.raises(LogDirFailed, match="no answer"):
            stopped.result()
        sync.fulfil(None)
        quorum.scheduler.run_for(1)
