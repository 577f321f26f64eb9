"""Jobs on the log: what they find, what they write, by command and on Spark."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyspark.sql.types import StructType
from tests.spark.small_segments import Tiered, Writer, fill, log_of, made
from tests.spark.table_formats import elsewhere
from tests.spark.topics import Row, Topics, numbered
from tests.waiting import eventually

from ottla.cli.job_runs import reason
from ottla.cli.main import cli
from ottla.client.remote_segments import RemoteSegments
from ottla.spark.errors import DataLoss
from ottla.spark.jobs import export as export_jobs
from ottla.spark.jobs.export import Target
from ottla.spark.jobs.tasks import run_on_spark
from ottla.spark.jobs.verify_tier import find_segments, verify, verify_segment
from ottla.spark.kafka_settings import KafkaSettings
from ottla.spark.source.broker_reads import connected
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.reader import plan_batch, read_range
from ottla.spark.source.segment_files import RemoteSegment
from ottla.spark.tables.commits import Snapshot
from ottla.spark.tables.delta_log import DeltaLog
from ottla.spark.tables.iceberg_log import IcebergLog
from ottla.spark.tables.spec import TableSpec
from ottla.tiered.layout import object_key
from ottla.tiered.machine import RemotePartition
from ottla.tiered.segments import EpochStart, TopicIdPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def topic(files: Topics, broker: Tiered) -> str:
    """With several segments in the remote store, transactions in them."""
    name = made(files, remote_storage_enable="true", local_retention_bytes="1")
    fill(files, name, numbered(0, 200))
    writer = Writer(files, name, "writer")
    for number in range(4):
        writer.transaction([b"%d in %d" % (i, number) for i in range(30)], commit=number % 2 == 0)
    fill(files, name, numbered(200, 400))
    eventually(lambda: int(min(log_of(broker, name).glob("*.log")).stem) > 350, seconds=30)
    return name


def places_of(broker: Tiered, topic: str) -> list[RemoteSegment]:
    reads = connected(KafkaSettings(broker.bootstrap_servers))
    tier = find_segments(reads, f"file://{broker.store}", (), [topic])
    assert tier.missing == []
    return sorted(tier.places, key=lambda place: place.base_offset)


def invoked(broker: Tiered, *arguments: str) -> Result:
    runner = CliRunner()
    fixed = ["-b", broker.bootstrap_servers, "--master", "none", "--quiet"]
    return runner.invoke(cli, ["jobs", *arguments, *fixed], catch_exceptions=False)


def test_sound_segments_are_told_with_what_they_have(broker: Tiered, topic: str) -> None:
    places = places_of(broker, topic)
    found = list(verify(places))
    assert [verdict.problem for verdict in found] == [None] * len(places)
    assert len(places) > 3
    assert any(place.object(".index") for place in places)
    assert any(place.aborted() for place in places)
    behind = [verdict.end_offset + 1 for verdict in found]
    assert [verdict.start_offset for verdict in found] == [0, *behind[:-1]]
    assert sum(verdict.records for verdict in found) == behind[-1]


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", ".json"])
def test_a_bit_that_flipped_is_found_in_any_object(broker: Tiered, topic: str, suffix: str) -> None:
    place = next(each for each in places_of(broker, topic) if each.object(".index"))
    path = broker.store / object_key(place.segment, suffix)
    sound = path.read_bytes()
    damaged = bytearray(sound)
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    try:
        assert verify_segment(place).problem is not None
        path.unlink()
        assert "cannot be read" in (verify_segment(place).problem or "")
    finally:
        path.write_bytes(sound)
    assert verify_segment(place).problem is None


def test_a_segment_that_is_not_what_the_metadata_says_is_found(broker: Tiered, topic: str) -> None:
    place = places_of(broker, topic)[1]
    start, end = place.segment.start_offset, place.segment.end_offset
    for changed in (
        place.segment._replace(end_offset=end + 1),
        place.segment._replace(leader_epochs=(EpochStart(3, start),)),
    ):
        verdict = verify_segment(replace(place, segment=changed))
        assert "in the manifest" in (verdict.problem or "")


def test_a_tier_that_nothing_is_known_of_is_no_sound_one(
    broker: Tiered, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgotten(
        _: RemoteSegments, owners: Iterable[TopicIdPartition]
    ) -> dict[TopicIdPartition, RemotePartition]:
        return {owner: RemotePartition(owner) for owner in owners}

    monkeypatch.setattr(RemoteSegments, "read", forgotten)
    done = invoked(broker, "verify-tier", topic, "--remote-store", f"file://{broker.store}")
    assert done.exit_code == 1
    assert "are in no finished segment" in done.output


def test_the_command_verifies_and_fails_when_something_is_wrong(broker: Tiered, topic: str) -> None:
    store = ["--remote-store", f"file://{broker.store}"]
    told = invoked(broker, "verify-tier", topic, *store, "--dry-run")
    assert "would be verified" in told.output
    sound = invoked(broker, "verify-tier", topic, *store, "--json")
    assert sound.exit_code == 0, sound.output
    segments = json.loads(sound.stdout)["segments"]
    assert [each["problem"] for each in segments] == [None] * len(segments)
    (place, *_) = places_of(broker, topic)
    path = broker.store / object_key(place.segment, ".log")
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    try:
        assert invoked(broker, "verify-tier", topic, *store).exit_code == 1
    finally:
        path.write_bytes(data)


def test_a_topic_is_exported_to_parquet_and_again_without_doubles(
    broker: Tiered, topic: str, tmp_path: Path
) -> None:
    options = ["--option", "readFrom=remote", "--option", f"remoteStore=file://{broker.store}"]
    options += ["--option", "kafka.isolation.level=read_committed"]
    assert (
        "would be written"
        in invoked(broker, "export", topic, str(tmp_path), *options, "--dry-run").output
    )
    assert not list(tmp_path.iterdir())
    for _ in range(2):
        done = invoked(broker, "export", topic, str(tmp_path), *options)
        assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path).sort_by("offset").to_pydict()
    plain = [b"%d" % i for i in range(400)]
    assert [value for value in rows["value"] if b" in " not in value] == plain
    assert sum(b" in " in value for value in rows["value"]) == 60
    assert set(rows["topic"]) == {topic}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["export", "no-such-topic", "PLACE"], "topic no-such-topic does not exist"),
        (["export", "no-such-topic", "PLACE", "--to", "delta"], "topic no-such-topic does not"),
        (["verify-tier", "no-such-topic", "--remote-store", "file://PLACE"], "does not exist"),
        (["compact-tier", "no-such-topic", "--remote-store", "file://PLACE"], "does not exist"),
        (["export", "TOPIC", "PLACE", "--master", "lokal"], "'lokal' is no place for Spark"),
        (["export", "TOPIC", "PLACE", "--master", "local["], "is no place for Spark"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    broker: Tiered, topic: str, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    named = [each.replace("PLACE", str(tmp_path)).replace("TOPIC", topic) for each in arguments]
    options = ["-b", broker.bootstrap_servers, "--quiet"]
    if "--master" not in named:
        options += ["--master", "none"]
    done = CliRunner().invoke(cli, ["jobs", *named, *options])
    assert done.exit_code in {1, 2}
    assert isinstance(done.exception, SystemExit), "no traceback"
    assert reason in done.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "t", "PLACE"],
        ["repartition", "t", "u"],
        ["verify-tier", "--remote-store", "file://PLACE"],
        ["compact-tier", "t", "--remote-store", "file://PLACE"],
        ["backfill", "PLACE", "t"],
    ],
)
def test_where_no_broker_is_that_is_said_soon(tmp_path: Path, arguments: list[str]) -> None:
    named = [each.replace("PLACE", str(tmp_path)) for each in arguments]
    options = ["-b", "127.0.0.1:1", "--master", "none", "--timeout", "0.5"]
    began = time.monotonic()
    done = CliRunner().invoke(cli, ["jobs", *named, *options])
    assert done.exit_code == 1
    assert "no broker is available (127.0.0.1:1" in done.output
    assert time.monotonic() - began < 20


def test_no_segment_to_verify_is_said(broker: Tiered, files: Topics) -> None:
    name = made(files)
    done = invoked(broker, "verify-tier", name, "--remote-store", f"file://{broker.store}")
    assert (done.exit_code, "there are no remote segments" in done.output) == (0, True)


def test_an_option_that_nobody_knows_is_refused(broker: Tiered, tmp_path: Path) -> None:
    done = invoked(broker, "export", "t", str(tmp_path), "--option", "readForm=auto")
    assert done.exit_code == 2
    assert "did you mean readFrom" in done.output


def test_segments_are_verified_and_read_on_spark(
    spark: "SparkSession", broker: Tiered, topic: str
) -> None:
    places = places_of(broker, topic)
    assert sorted(run_on_spark(spark, places, verify_segment)) == list(verify(places))

    def rows(read_from: str) -> list[tuple[object, ...]]:
        frame = (
            spark.read.format("ottla")
            .option("kafka.bootstrap.servers", broker.bootstrap_servers)
            .option("kafka.isolation.level", "read_committed")
            .option("subscribe", topic)
            .option("remoteStore", f"file://{broker.store}")
            .option("readFrom", read_from)
            .load()
        )
        return sorted(tuple(row) for row in frame.select("offset", "value").collect())

    assert rows("auto") == rows("broker")
    assert len(rows("remote")) == 460


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_topic_is_exported_into_a_table_each_offset_once(
    broker: Tiered, files: Topics, tmp_path: Path, kind: str
) -> None:
    name = made(files)
    fill(files, name, numbered(0, 50))
    place = str(tmp_path / "table")
    to = ["export", name, place, "--to", kind]
    told = invoked(broker, *to, "--dry-run")
    assert "50 offsets would be added" in told.output
    assert not Path(place).exists()
    for added in (50, 0):
        done = invoked(broker, *to, "--json")
        assert done.exit_code == 0, done.output
        assert sum(each["rows"] for each in json.loads(done.stdout)["files"]) == added
    fill(files, name, numbered(50, 70))
    assert invoked(broker, *to, "--option", "maxRecordsPerPartition=7").exit_code == 0
    rows = sorted(elsewhere(TableSpec(name, kind, place)), key=lambda row: row[2])
    assert [(row[0], row[2], row[4]) for row in rows] == [(name, i, b"%d" % i) for i in range(70)]
    refused = invoked(broker, *to, "--table-option", "regoin=x")
    assert refused.exit_code == 2
    assert "did you mean region" in refused.output


@pytest.mark.parametrize(("kind", "log"), [("delta", DeltaLog), ("iceberg", IcebergLog)])
def test_an_export_that_another_overtakes_adds_only_what_is_left(
    broker: Tiered,
    files: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    log: type[DeltaLog | IcebergLog],
) -> None:
    name = made(files)
    fill(files, name, numbered(0, 50))
    place = str(tmp_path / "table")
    to = ["export", name, place, "--to", kind]
    assert invoked(broker, *to).exit_code == 0
    fill(files, name, numbered(50, 70))
    first = ["--option", f'endingOffsets={{"{name}":{{"0":60}}}}']
    prepare = log.prepare

    def overtaken(self: "DeltaLog | IcebergLog", schema: StructType) -> Snapshot:
        monkeypatch.setattr(log, "prepare", prepare)
        assert invoked(broker, *to, *first).exit_code == 0
        return prepare(self, schema)  # type: ignore[arg-type]

    monkeypatch.setattr(log, "prepare", overtaken)
    assert invoked(broker, *to).exit_code == 0
    rows = elsewhere(TableSpec(name, kind, place))
    assert sorted(row[2] for row in rows) == list(range(70))


def test_two_attempts_at_one_file_do_not_write_into_each_other(
    files: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first stands still after its first rows, until another has written all."""
    name = made(files)
    files.fill(name, numbered(0, 100))
    options = SourceOptions.parse({"kafka.bootstrap.servers": files.address, "subscribe": name})
    (wanted,) = plan_batch(options)
    assert wanted.records == 100
    target = Target(str(tmp_path))
    read = read_range

    def stalls(*arguments: Any) -> Iterator[pa.RecordBatch]:
        monkeypatch.setattr(export_jobs, "read_range", read)
        whole = pa.Table.from_batches(read(*arguments, keep=True))
        yield whole.slice(0, 7).combine_chunks().to_batches()[0]
        assert export_jobs.export_range(wanted, options, target).rows == 100
        yield from whole.slice(7).to_batches()

    monkeypatch.setattr(export_jobs, "read_range", stalls)
    done = export_jobs.export_range(wanted, options, target)
    assert done.path is not None
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [Path(done.path)]
    assert pq.read_table(done.path).column("offset").to_pylist() == list(range(100))


def test_an_attempt_that_fails_leaves_no_file(
    files: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = made(files)
    fill(files, name, numbered(0, 10))
    options = SourceOptions.parse({"kafka.bootstrap.servers": files.address, "subscribe": name})
    (wanted,) = plan_batch(options)

    def fails(*arguments: Any) -> Iterator[pa.RecordBatch]:
        yield from read_range(*arguments)
        raise DataLoss("gone")

    monkeypatch.setattr(export_jobs, "read_range", fails)
    with pytest.raises(DataLoss):
        export_jobs.export_range(wanted, options, Target(str(tmp_path)))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_values_in_a_format_become_columns_of_a_table(
    broker: Tiered, files: Topics, tmp_path: Path
) -> None:
    name = made(files)
    fill(files, name, [Row(0, None, b'{"id": 1, "note": "a"}'), Row(0, None, b'{"id": 2}')])
    place = str(tmp_path / "table")
    options = ["--option", "valueFormat=json", "--option", "valueSchema=id bigint, note string"]
    done = invoked(broker, "export", name, place, "--to", "iceberg", *options)
    assert done.exit_code == 0, done.output
    values = [row[4] for row in elsewhere(TableSpec(name, "iceberg", place))]
    assert values == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]


def test_values_in_a_format_become_columns_of_parquet_files(
    broker: Tiered, files: Topics, tmp_path: Path
) -> None:
    name = made(files)
    fill(files, name, [Row(0, b"k", b'{"id": 1, "note": "a"}'), Row(0, None, b'{"id": 2}')])
    options = ["valueFormat=json", "valueSchema=id bigint, note string", "keyFormat=string"]
    given = [part for each in options for part in ("--option", each)]
    done = invoked(broker, "export", name, str(tmp_path), *given)
    assert done.exit_code == 0, done.output
    rows = pq.read_table(tmp_path).sort_by("offset").to_pydict()
    assert rows["value"] == [{"id": 1, "note": "a"}, {"id": 2, "note": None}]
    assert rows["key"] == ["k", None]


def test_of_a_workers_traceback_the_reason_is_said() -> None:
    text = """An exception was thrown from the Python worker:
    Traceback (most recent call last):
      File "/x.py", line 3, in f
        raise InvalidRequest("x: y")
    ottla.common.errors.InvalidRequest: t-0 has 3 records without a key
\tat org.apache.spark.api.python.BasePythonRunner.x(PythonRunner.scala:1)
    """
    assert reason(text) == "ottla.common.errors.InvalidRequest: t-0 has 3 records without a key"
    assert reason("lost") == "lost"
