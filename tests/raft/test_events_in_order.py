"""Events of the quorum one by one, each with all that follows from it; mistakes end the node."""

import errno
from collections.abc import Callable

import pytest
from tests.raft.cluster import Cluster
from tests.raft.quorums import Notes, Quorum, formatted

from ottla.raft.driver import RaftDriver
from ottla.raft.effects import FetchLog, RaftEffect
from ottla.raft.events import FetchAnswered, Flushed, RaftEvent, ReplicaFetched, Tick
from ottla.raft.log import MetadataLog
from ottla.raft.node import RaftNode
from ottla.storage.directories import LogDirFailed, LogUnavailable


class Watched(RaftDriver):
    """Notes when the effects of an event are not carried out to their end before the next."""

    left = 0

    def _take_event(self) -> list[RaftEffect]:
        assert self.left == 0, "an event before the last one was done with"
        effects = super()._take_event()
        self.left = len(effects)
        return effects

    def _execute(self, effect: RaftEffect) -> None:
        left = self.left
        super()._execute(effect)
        if not self.is_down:
            assert self.left == left, "effects within an effect"
            self.left -= 1


@pytest.mark.parametrize("seed", range(4))
def test_no_event_comes_between_the_effects_of_another(seed: int) -> None:
    cluster = Cluster(seed, driver_class=Watched)
    cluster.elect()
    cluster.loss = 10
    for _ in range(20):
        cluster.append()
        cluster.run_for(0.2)
    leader = cluster.elect()
    cluster.partition({leader.node_id})
    cluster.run_for(5)
    cluster.converge()


class Busy(Notes):
    """A listener that appends whenever it hears of something."""

    driver: RaftDriver | None = None
    is_called = False

    def became_leader(self, epoch: int) -> None:
        super().became_leader(epoch)
        self._append(b"led")

    def committed(self, high_watermark: int) -> None:
        super().committed(high_watermark)
        if high_watermark < 10:
            self._append(b"more")

    def _append(self, value: bytes) -> None:
        assert not self.is_called, "called in the middle of a call"
        assert self.driver is not None
        self.is_called = True
        before = self.driver.end_offset
        self.driver.append([value], 5)
        assert self.driver.end_offset == before + 1
        self.is_called = False


def test_a_listener_that_appends_is_not_called_again_before_it_returns() -> None:
    quorum = Quorum(formatted(), listener=Busy())
    assert isinstance(quorum.notes, Busy)
    quorum.notes.driver = quorum.driver
    quorum.lead()
    assert quorum.scheduler.run_until(lambda: quorum.notes.high_watermark >= 10, 10)


def test_a_leader_that_stood_still_finds_that_it_leads_no_more_when_its_append_is_done() -> None:
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.run_for(1)
    cluster.scheduler.now += 60  # it stood still for so long
    led: list[bool] = []

    def append() -> None:
        leader.driver.append([b"late"], 5)
        led.append(leader.driver.is_leader)

    leader.scheduler.turn.run(append)
    assert led == [True]
    assert not leader.driver.is_leader


def test_an_append_behind_what_ends_its_epoch_is_of_that_epoch() -> None:
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.run_for(1)
    driver = leader.driver
    epoch = driver.epoch
    cluster.scheduler.now += 60  # it stood still for so long

    def append() -> None:
        driver.tell(Tick(driver.now))
        leader.append(b"late")

    leader.scheduler.turn.run(append)
    assert not driver.is_leader
    assert (driver.node.log_end_offset, driver.node.log_end_epoch) == (driver.end_offset, epoch)
    cluster.converge()


def test_a_node_whose_disk_fails_while_it_stops_comes_to_its_end() -> None:
    cluster = Cluster(3)
    leader = cluster.elect()
    leader.may_fail = True
    cluster.partition({leader.node_id})
    leader.append(b"last")
    cluster.disks[leader.node_id].fail = lambda what, _path: (
        OSError(errno.EIO, "broken") if what == "sync" else None
    )
    stopped = leader.driver.stop()
    cluster.run_for(20)
    assert leader.driver.is_down
    assert stopped.done


def test_two_answers_for_the_same_place_in_the_log_are_used_once() -> None:
    """A node that asks the leader, and by another address again, may hear both in one read."""
    cluster = Cluster(3)
    leader = cluster.elect()
    cluster.run_for(1)
    follower = next(each for each in cluster.nodes.values() if each is not leader)
    driver = follower.driver
    cluster.partition({follower.node_id})
    leader.append(b"new")
    cluster.run_for(0.01)
    node = driver.node
    end = (node.log_end_offset, node.log_end_epoch)
    records = leader.driver.read(end[0])
    assert records
    answers = []
    for number, destination in enumerate((leader.node_id, 99), 1_000):
        request = FetchLog(destination, number, driver.epoch, *end, node.high_watermark or 0)
        node.connections.sent(request, driver.now)
        answers.append(
            FetchAnswered(
                driver.now,
                request,
                error=0,
                leader=leader.driver.node.leader,
                high_watermark=end[0],
                records=records,
            )
        )

    def hear() -> None:
        for each in answers:
            driver.tell(each)

    follower.scheduler.turn.run(hear)
    assert not driver.is_down
    assert driver.end_offset == node.log_end_offset == leader.driver.end_offset
    cluster.converge()


def test_what_is_asked_for_in_a_turn_comes_behind_what_has_happened_before() -> None:
    quorum = Quorum(formatted()).lead()
    driver = quorum.driver

    def ask() -> None:
        driver.tell(Flushed(driver.now, driver.end_offset))
        driver.step(Tick(driver.now))

    quorum.scheduler.turn.run(ask)
    assert [type(event) for event in list(driver.events.last)[-2:]] == [Flushed, Tick]


class Mistaken(RaftNode):
    def step(self, event: RaftEvent) -> list[RaftEffect]:
        if isinstance(event, ReplicaFetched):
            raise KeyError("a mistake in the core")
        return super().step(event)


class MistakenDriver(RaftDriver):
    NODE = Mistaken


def test_a_mistake_of_ours_ends_the_node_and_leaves_no_half_of_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quorum = Quorum(formatted(), driver_class=MistakenDriver).lead()
    driver = quorum.driver
    assert driver.step(ReplicaFetched(driver.now, driver.key, 0)) == []
    assert [type(failure) for failure in quorum.failures] == [KeyError]
    assert driver.is_down
    assert not driver.is_leader
    assert quorum.notes.lost == quorum.notes.epochs
    assert "an internal error in the quorum" in caplog.text
    quorum.stop()


class MistakenListener(Notes):
    def committed(self, high_watermark: int) -> None:
        raise KeyError("a mistake in a listener")


def test_a_mistake_of_a_listener_ends_the_node() -> None:
    quorum = Quorum(formatted(), listener=MistakenListener()).lead()
    quorum.append(b"x")
    quorum.scheduler.run_for(1)
    assert [type(failure) for failure in quorum.failures] == [KeyError]
    assert quorum.driver.is_down


def test_what_lacks_a_descriptor_is_tried_again_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quorum = Quorum(formatted())
    append, lacking = quorum.driver.log.append, 3

    def scarce(batch: bytearray, now_ms: int) -> None:
        nonlocal lacking
        lacking -= 1
        if lacking >= 0:
            raise LogUnavailable("/data", OSError(errno.EMFILE, "Too many open files"))
        append(batch, now_ms)

    monkeypatch.setattr(type(quorum.driver.log), "append", lambda _, *args: scarce(*args))
    quorum.lead()
    assert lacking < 0
    lacking = 1
    with pytest.raises(LogUnavailable):
        quorum.append(b"refused")
    quorum.commit(b"taken")
    assert quorum.failures == []


def test_a_sync_that_lacks_a_descriptor_begins_later_and_the_append_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quorum = Quorum(formatted()).lead()
    prepare, lacking = quorum.driver.log.prepare_sync, 3

    def scarce() -> Callable[[], None]:
        nonlocal lacking
        lacking -= 1
        if lacking >= 0:
            raise LogUnavailable("/data", OSError(errno.EMFILE, "Too many open files"))
        return prepare()

    monkeypatch.setattr(type(quorum.driver.log), "prepare_sync", lambda _: scarce())
    quorum.commit(b"taken")
    assert lacking < 0
    assert quorum.failures == []


def test_a_disk_that_has_failed_before_a_sync_ends_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quorum = Quorum(formatted()).lead()

    def failed(_log: MetadataLog) -> Callable[[], None]:
        raise LogDirFailed("/data", OSError(errno.EIO, "input/output error"))

    monkeypatch.setattr(type(quorum.driver.log), "prepare_sync", failed)
    with pytest.raises(LogDirFailed):
        quorum.append(b"x")
    assert [type(failure) for failure in quorum.failures] == [LogDirFailed]
    assert quorum.notes.lost == [1]


def test_two_that_stop_a_node_are_both_told_of_its_end() -> None:
    quorum = Quorum(formatted()).lead()
    ends = [quorum.driver.stop(), quorum.driver.stop()]
    quorum.scheduler.run_for(5)
    assert [each.done for each in ends] == [True, True]
