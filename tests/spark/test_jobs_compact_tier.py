"""Remote history is compacted: what others read meanwhile, afterwards, and after a crash."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result
from tests.spark.kafka_reader import Read, read_committed
from tests.spark.small_segments import Tiered, Writer, fill, log_of, made
from tests.spark.test_jobs_killed import KILLS, SEED, Runs
from tests.spark.topics import Row, Topics
from tests.waiting import eventually

from ottla.cli.main import cli
from ottla.client.consumer import Consumer
from ottla.client.remote_segments import RemoteSegments
from ottla.common.chance import Chance
from ottla.common.errors import InvalidRequest
from ottla.spark.jobs.compact_tier import Compacted, Compaction, Tier, compact_steps
from ottla.spark.jobs.tier_plan import TierRun, find_runs, groups_of
from ottla.spark.jobs.verify_tier import find_segments, verify
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.broker_reads import connected
from ottla.tiered.layout import parse_key
from ottla.tiered.machine import RemotePartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 13


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    with Tiered(tmp_path_factory.mktemp("compacted")) as started:
        yield started


@pytest.fixture(scope="module")
def topics(tiered: Tiered) -> Iterator[Topics]:
    made = Topics(tiered.bootstrap_servers)
    yield made
    made.close()


def keyed(start: int, end: int) -> list[Row]:
    """Numbers by key; each eleventh is a tombstone."""
    return [
        Row(
            0, b"k%d" % (i % KEYS), b"%d" % i + bytes(40) if i % 11 else None, 1_700_000_000_000 + i
        )
        for i in range(start, end)
    ]


def history(topics: Topics, tiered: Tiered, **configs: str) -> str:
    """A topic whose records are in the remote store, but for the last."""
    settings = {"remote_storage_enable": "true", "local_retention_bytes": "1", **configs}
    topic = made(topics, **settings)
    fill(topics, topic, keyed(0, 400))
    writer = Writer(topics, topic, "writer")
    for number in range(4):
        writer.keyed([(b"k%d" % i, b"t%d-%d" % (number, i)) for i in range(20)], commit=number != 2)
    fill(topics, topic, keyed(400, 700))
    copied(tiered, topic)
    return topic


def copied(tiered: Tiered, topic: str) -> None:
    """Until the disk has the active segment alone."""
    eventually(lambda: len(list(log_of(tiered, topic).glob("*.log"))) == 1, seconds=60)


def runs_of(tiered: Tiered, topic: str) -> list[TierRun]:
    reads = connected(KafkaSettings(tiered.bootstrap_servers))
    return find_runs(reads, f"file://{tiered.store}", (), [topic])


def work_of(tiered: Tiered, topic: str) -> Compaction:
    (run,) = runs_of(tiered, topic)
    return Compaction(run, KafkaSettings(tiered.bootstrap_servers), 10_000)


def read(tiered: Tiered, topic: str) -> list[Read]:
    return read_committed(tiered.bootstrap_servers, topic, 0)


def expected(before: list[Read], run: TierRun) -> list[Read]:
    """Of the records that the run has the newest of each key, and all behind it."""
    end = run.segments[-1].segment.end_offset
    newest = {each.key: each.offset for each in before if each.offset <= end}
    return [each for each in before if each.offset > end or newest[each.key] == each.offset]


def stored(tiered: Tiered, run: TierRun) -> set[bytes]:
    """The ids of the segments of a partition that the store has anything of."""
    topic_id = run.owner.topic_id
    keys = [parse_key(str(path.relative_to(tiered.store))) for path in tiered.store.glob("*/*/*")]
    return {key.segment_id for key in keys if key and key.partition.topic_id == topic_id}


def invoked(tiered: Tiered, *arguments: str) -> Result:
    fixed = ["-b", tiered.bootstrap_servers, "--master", "none", "--quiet"]
    store = ["--remote-store", f"file://{tiered.store}"]
    return CliRunner().invoke(cli, ["jobs", "compact-tier", *arguments, *store, *fixed])


def settle(tiered: Tiered, topic: str) -> None:
    """Until the leader has removed all that nobody finds any more."""
    (run, *_) = runs_of(tiered, topic)
    with Consumer(tiered.bootstrap_servers) as consumer:
        remote = RemoteSegments(consumer, timeout_ms=30_000)

        def is_settled() -> bool:
            known = remote.read([run.owner])[run.owner].segments
            used = {each.segment_id for each in known if known.is_referenced(each)}
            return len(known) == len(used) and stored(tiered, run) == used

        eventually(is_settled, seconds=60)


def check(tiered: Tiered, topic: str, wanted: list[Read]) -> None:
    """Others read what is wanted, by the broker; segments are sound; the old ones go away."""
    settle(tiered, topic)
    reads = connected(KafkaSettings(tiered.bootstrap_servers))
    tier = find_segments(reads, f"file://{tiered.store}", (), [topic])
    assert [verdict.problem for verdict in verify(tier.places)] == [None] * len(tier.places)
    assert read(tiered, topic) == wanted


def test_the_newest_record_of_each_key_is_left(tiered: Tiered, topics: Topics) -> None:
    topic = history(topics, tiered)
    (run,) = runs_of(tiered, topic)
    assert len(run.segments) > 5
    before = read(tiered, topic)
    wanted = expected(before, run)
    assert "segments of 1 partitions" in invoked(tiered, topic, "--dry-run").output
    refused = invoked(tiered, topic)
    assert refused.exit_code == 2
    assert "--accept-compacted-history" in refused.output
    assert read(tiered, topic) == before
    done = invoked(tiered, topic, "--accept-compacted-history", "--json")
    assert done.exit_code == 0, done.output
    (told,) = json.loads(done.stdout)["partitions"]
    assert told["new_segments"] == 1
    assert told["new_bytes"] < told["bytes"] / 3
    check(tiered, topic, wanted)
    again = invoked(tiered, topic, "--accept-compacted-history", "--json")
    assert again.exit_code == 0, again.output
    check(tiered, topic, wanted)
    fill(topics, topic, keyed(700, 1000))
    copied(tiered, topic)
    (later,) = runs_of(tiered, topic)
    wanted = expected(read(tiered, topic), later)
    assert invoked(tiered, topic, "--accept-compacted-history").exit_code == 0
    check(tiered, topic, wanted)


def test_readers_see_a_consistent_log_while_segments_are_swapped(
    tiered: Tiered, topics: Topics
) -> None:
    topic = history(topics, tiered, segment_bytes=str(1 << 20))
    (run,) = runs_of(tiered, topic)
    before = read(tiered, topic)
    wanted = expected(before, run)
    stop = threading.Event()
    seen: list[list[Read]] = []

    def reader() -> None:
        while not stop.is_set():
            seen.append(read(tiered, topic))

    thread = threading.Thread(target=reader)
    thread.start()
    eventually(lambda: len(seen) > 0, seconds=60)
    done = invoked(tiered, topic, "--accept-compacted-history")
    count = len(seen)
    eventually(lambda: len(seen) > count + 2, seconds=60)
    stop.set()
    thread.join()
    assert done.exit_code == 0, done.output
    known = {each.offset: each for each in before}
    least = {each.offset for each in wanted}
    for records in seen:
        offsets = [each.offset for each in records]
        assert offsets == sorted(set(offsets))
        assert all(known[each.offset] == each for each in records)
        assert least <= set(offsets), "the newest record of each key is always there"
    check(tiered, topic, wanted)


def test_a_crash_after_any_step_leaves_a_log_that_the_next_run_completes(
    tiered: Tiered, topics: Topics
) -> None:
    topic = history(topics, tiered)
    (run,) = runs_of(tiered, topic)
    small = run._replace(settings=run.settings._replace(segment_bytes=run.size // 2))
    assert len(groups_of(small)) > 1
    before = read(tiered, topic)
    known = {each.offset: each for each in before}
    wanted = expected(before, run)
    least = {each.offset for each in wanted}
    steps = 0
    while True:
        (now,) = runs_of(tiered, topic)
        work = Compaction(
            now._replace(settings=small.settings), KafkaSettings(tiered.bootstrap_servers), 10_000
        )
        under_way = compact_steps(work)
        done = []
        for step in under_way:
            done.append(step)
            if len(done) > steps:
                break
        del under_way
        steps += 1
        records = read(tiered, topic)
        assert least <= {each.offset for each in records} <= set(known)
        assert all(known[each.offset] == each for each in records)
        if isinstance(done[-1], Compacted):
            break
    assert steps > 2
    check(tiered, topic, wanted)


def test_old_segments_are_there_until_the_new_one_counts(tiered: Tiered, topics: Topics) -> None:
    topic = history(topics, tiered)
    work = work_of(tiered, topic)
    old = set(work.run.ids)
    for step in compact_steps(work):
        if step in {"started", "uploaded"}:
            assert old <= stored(tiered, work.run)
    eventually(lambda: not old & stored(tiered, work.run), seconds=30)


class Late(Tier):
    """Of a job that has looked, and then stood still."""

    def __init__(self, work: Compaction) -> None:
        super().__init__(work)
        self._looked = super().known()

    def known(self) -> RemotePartition:
        return self._looked


def test_a_job_gives_up_no_copy_that_another_has_finished_meanwhile(
    tiered: Tiered, topics: Topics
) -> None:
    topic = history(topics, tiered)
    work = work_of(tiered, topic)
    wanted = expected(read(tiered, topic), work.run)
    steps = compact_steps(work)
    assert [next(steps), next(steps)] == ["started", "uploaded"]
    with Late(work) as other:
        assert next(steps) == "finished"
        assert other.give_up_copies() == 1
    assert isinstance(next(steps), Compacted)
    check(tiered, topic, wanted)


def test_tombstones_go_when_their_time_has_come_and_old_values_stay_away(
    tiered: Tiered, topics: Topics
) -> None:
    topic = history(topics, tiered, delete_retention_ms="0")
    (run,) = runs_of(tiered, topic)
    wanted = expected(read(tiered, topic), run)
    end = run.segments[-1].segment.end_offset
    assert any(each.value is None and each.offset <= end for each in wanted)
    assert invoked(tiered, topic, "--accept-compacted-history").exit_code == 0
    check(tiered, topic, wanted)
    assert invoked(tiered, topic, "--accept-compacted-history").exit_code == 0
    rest = [each for each in wanted if each.value is not None or each.offset > end]
    check(tiered, topic, rest)


def test_records_without_timestamps_expire_no_sooner_than_they_would_have(
    tiered: Tiered, topics: Topics
) -> None:
    settings = {"remote_storage_enable": "true", "local_retention_bytes": "1"}
    topic = made(topics, **settings, retention_ms="86400000")
    rows = [row._replace(timestamp=-1) for row in keyed(0, 400)]
    fill(topics, topic, rows)
    copied(tiered, topic)
    before = read(tiered, topic)
    work = work_of(tiered, topic)
    newest = max(each.segment.max_timestamp_ms for each in work.run.segments)
    assert newest > 1_700_000_000_000, "the time of the file"
    assert "finished" in list(compact_steps(work))
    settle(tiered, topic)
    (run,) = runs_of(tiered, topic)
    assert max(each.segment.max_timestamp_ms for each in run.segments) == newest
    check(tiered, topic, expected(before, work.run))


def test_a_transaction_that_ends_behind_the_segments_is_left_alone(
    tiered: Tiered, topics: Topics
) -> None:
    """Its marker is on the broker's disk: here nobody knows that it was aborted."""
    topic = made(topics, remote_storage_enable="true", local_retention_bytes="1")
    fill(topics, topic, keyed(0, 200))
    writer = Writer(topics, topic, "aborted")
    for number in range(6):
        writer.begin_keyed([(b"k1", b"never" + bytes(200))] * 10, begin=number == 0)
    writer.end(commit=False)
    copied(tiered, topic)
    (run,) = runs_of(tiered, topic)
    before = read(tiered, topic)
    wanted = expected(before, run)
    assert 150 < run.segments[-1].segment.end_offset < 200
    assert invoked(tiered, topic, "--accept-compacted-history").exit_code == 0
    check(tiered, topic, wanted)
    assert any(each.key == b"k1" for each in wanted)


def test_what_cannot_be_compacted_is_refused_and_left_as_it_is(
    tiered: Tiered, topics: Topics
) -> None:
    plain = made(topics)
    assert "no remote storage" in invoked(tiered, plain, "--dry-run").output
    assert "does not exist" in invoked(tiered, "no-such-topic").output
    topic = made(topics, remote_storage_enable="true", local_retention_bytes="1")
    fill(topics, topic, [row._replace(key=None) for row in keyed(0, 200)])
    copied(tiered, topic)
    before = read(tiered, topic)
    refused = invoked(tiered, topic, "--accept-compacted-history")
    assert refused.exit_code == 1
    assert "without a key" in refused.output
    check(tiered, topic, before)
    many = history(topics, tiered)
    refused = invoked(tiered, many, "--accept-compacted-history", "--keys", "5")
    assert refused.exit_code == 1
    assert "--keys" in refused.output


def test_nothing_is_made_of_segments_that_are_not_in_use(tiered: Tiered, topics: Topics) -> None:
    topic = history(topics, tiered)
    first, second = work_of(tiered, topic), work_of(tiered, topic)
    before = read(tiered, topic)
    late = compact_steps(second)
    assert next(late) == "started"
    assert list(compact_steps(first))[-2:-1] == ["finished"]
    wanted = expected(before, first.run)
    with pytest.raises(InvalidRequest, match=r"not swapped in|taken over"):
        list(late)
    check(tiered, topic, wanted)


@pytest.mark.slow
def test_partitions_are_compacted_on_spark(
    spark: "SparkSession", tiered: Tiered, topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = history(topics, tiered)
    (run,) = runs_of(tiered, topic)
    wanted = expected(read(tiered, topic), run)
    monkeypatch.setattr(spark, "stop", lambda: None)  # it is everybody's
    arguments = [topic, "--accept-compacted-history", "--remote-store", f"file://{tiered.store}"]
    arguments += ["-b", tiered.bootstrap_servers, "--quiet", "--master", "local[2]"]
    done = CliRunner().invoke(cli, ["jobs", "compact-tier", *arguments])
    assert done.exit_code == 0, done.output
    check(tiered, topic, wanted)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_history_is_compacted_exactly_however_often_the_job_is_killed(
    tiered: Tiered, topics: Topics, tmp_path: Path
) -> None:
    chance = Chance(SEED)
    topic = history(topics, tiered)
    (run,) = runs_of(tiered, topic)
    before = read(tiered, topic)
    wanted = expected(before, run)
    least = {each.offset for each in wanted}
    arguments = ["compact-tier", topic, "--accept-compacted-history", "--master", "none"]
    runs = Runs(topics, tmp_path, *arguments, "--remote-store", f"file://{tiered.store}")
    for _ in range(KILLS):
        process = runs.start()
        eventually(
            lambda: process.poll() is not None or has_copies(tiered, run),  # noqa: B023
            seconds=120,
        )
        runs.kill(process, chance.between(0, 0.2))
        records = read(tiered, topic)
        assert least <= {each.offset for each in records} <= {each.offset for each in before}
    runs.finish()
    check(tiered, topic, wanted)


def has_copies(tiered: Tiered, run: TierRun) -> bool:
    return bool(stored(tiered, run) - set(run.ids))
