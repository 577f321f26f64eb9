"""Tables into topics: what other clients find there, and that a run goes on where one was ended."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from pyspark.sql.types import StructType
from tests.spark.iceberg_tables import OneTable
from tests.spark.kafka_reader import Read, read_topic
from tests.spark.topics import Topics

from ottla.cli.main import cli
from ottla.client.partitioner import partition_of_key
from ottla.client.system_time import SystemTime
from ottla.common.topic_partition import TopicPartition
from ottla.spark.jobs.backfill import Backfill, Shape, deal, fill_lane, plan_sum
from ottla.spark.jobs.file_tables import FileTable, find_table, parts_of, read_part
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.spark_writer import fitted_to
from ottla.spark.sink.writer import disconnect
from ottla.spark.tables.commits import Change
from ottla.spark.tables.data_files import WrittenFile
from ottla.spark.tables.logs import open_log
from ottla.spark.tables.spec import TableSpec


@pytest.fixture(scope="module", autouse=True)
def disconnected() -> Iterator[None]:
    yield
    disconnect()


def rows(start: int, end: int) -> pa.Table:
    names = [f"n{i}" if i % 5 else None for i in range(start, end)]
    return pa.table({"id": pa.array(range(start, end)), "name": pa.array(names, pa.string())})


def files(directory: Path, count: int, size: int = 40) -> Path:
    """Parquet files with ascending numbers."""
    directory.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        table = rows(number * size, (number + 1) * size)
        pq.write_table(table, directory / f"{number:03d}.parquet", row_group_size=10)
    return directory


def invoked(topics: Topics, *arguments: str) -> Result:
    fixed = ["-b", topics.address, "--master", "none", "--quiet"]
    return CliRunner().invoke(cli, ["jobs", "backfill", *arguments, *fixed])


def values(topics: Topics, topic: str, partitions: int = 2) -> list[Any]:
    found = [
        {"name": None, **json.loads(each.value or b"null")}  # JSON is written without nulls
        for records in read_topic(topics.address, topic, partitions)
        for each in records
    ]
    return sorted(found, key=lambda value: int(value["id"]))


def test_columns_become_keys_and_values_and_a_second_run_adds_nothing(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    table = files(tmp_path / "t", 5)
    arguments = [str(table), topic, "--key", "id", "--json"]
    assert "5 parts" in invoked(topics, *arguments, "--dry-run").output
    done = invoked(topics, *arguments)
    assert done.exit_code == 0, done.output
    assert [each["rows"] for each in json.loads(done.stdout)["parts"]] == [40] * 5
    assert json.loads(invoked(topics, *arguments).stdout) == {"parts": []}
    assert values(topics, topic) == rows(0, 200).to_pylist()
    for partition, records in enumerate(read_topic(topics.address, topic, 2)):
        for each in records:
            assert each.key is not None
            assert each.key == str(json.loads(each.value or b"")["id"]).encode()
            assert partition_of_key(each.key, 2) == partition


def test_what_was_exported_comes_back_as_it_was(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(1)
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    table = pa.table(
        {
            "key": pa.array([b"a", None], pa.binary()),
            "value": pa.array([None, b"\0x"], pa.binary()),
            "offset": pa.array([7, 9], pa.int64()),
            "timestamp": pa.array([1_700_000_000_123_000] * 2, pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None], headers),
        }
    )
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    done = invoked(topics, str(path), topic)
    assert done.exit_code == 0, done.output
    ((first, second),) = read_topic(topics.address, topic, 1)
    assert first == Read(first.offset, b"a", None, 1_700_000_000_123, (("h", b"1"),))
    assert second == Read(second.offset, None, b"\0x", 1_700_000_000_123, ())


@pytest.mark.parametrize("kind", ["parquet", "csv", "json", "delta", "iceberg"])
def test_every_format_is_read(topics: Topics, tmp_path: Path, kind: str) -> None:
    topic = topics.make(2)
    location = tmp_path / "table"
    location.mkdir()
    table = rows(1, 30)
    match kind:
        case "parquet":
            for day in range(2):
                (location / f"day={day}").mkdir()
                part = table.slice(day * 15, 15)
                pq.write_table(part, location / f"day={day}" / "x.parquet")
        case "csv":
            pyarrow.csv.write_csv(table, location / "x.csv")
        case "json":
            lines = [json.dumps(row) for row in table.to_pylist()]
            (location / "x.json").write_text("\n".join(lines))
        case "delta":
            deltalake.write_deltalake(str(location), table)
        case "iceberg":
            (location / "metadata").mkdir()
            made = OneTable(location).create(
                Schema(
                    NestedField(1, "id", LongType(), required=False),
                    NestedField(2, "name", StringType(), required=False),
                )
            )
            made.append(rows(0, 30))
            made.delete("id = 0")
    done = invoked(topics, str(location), topic, "--table-format", kind, "--key", "id")
    assert done.exit_code == 0, done.output
    found = values(topics, topic)
    if kind == "parquet":
        assert [row.pop("day") for row in found] == [int(row["id"] > 15) for row in found]
    if kind == "csv":  # it has no null
        found = [{**row, "name": row["name"] or None} for row in found]
    assert found == table.to_pylist()


def test_it_goes_on_where_a_run_was_ended(topics: Topics, tmp_path: Path) -> None:
    """Some lanes done, one amid its parts, one with a transaction that nobody ended."""
    topic = topics.make(2)
    table = find_table("parquet", str(files(tmp_path / "t", 40)), None)
    parts = parts_of(table)
    named = {"kafka.bootstrap.servers": topics.address, "topic": topic, "valueFormat": "json"}
    (first,) = rows(0, 1).to_batches()
    sink = fitted_to(SinkOptions.parse(named), Shape(("id",)).shaped(first))
    note = f"topic={topic} parts={plan_sum(parts)}"
    job = Backfill(f"{topic}-job", table, Shape(("id",)), sink, TopicPartition(topic, 0), note)
    lanes = deal(job, parts)
    assert {len(lane.parts) for lane in lanes} == {1, 2}
    fill_lane(lanes[1])
    fill_lane(lanes[0]._replace(parts=lanes[0].parts[:1]))
    broken = lanes[2]._replace(parts=(lanes[2].parts[0]._replace(path="gone"),))
    with pytest.raises(KeyError):
        fill_lane(broken)
    filled = [fill_lane(lane) for lane in lanes]
    assert [len(each.done) for each in filled[:3]] == [1, 0, 2]
    assert values(topics, topic) == rows(0, 1600).to_pylist()
    assert all(fill_lane(lane).done == () for lane in lanes)


def test_a_table_that_has_changed_is_refused_unless_it_has_versions(
    topics: Topics, tmp_path: Path
) -> None:
    topic = topics.make(2)
    plain = files(tmp_path / "t", 2)
    assert invoked(topics, str(plain), topic).exit_code == 0
    files(tmp_path / "t", 3)
    refused = invoked(topics, str(plain), topic)
    assert refused.exit_code == 1
    assert "files have changed" in refused.output
    lake = str(tmp_path / "delta")
    deltalake.write_deltalake(lake, rows(0, 10))
    arguments = [lake, topics.make(2), "--table-format", "delta"]
    assert invoked(topics, *arguments).exit_code == 0
    deltalake.write_deltalake(lake, rows(10, 20), mode="append")
    assert "already" in invoked(topics, *arguments).output, "the version of the first run"
    other = invoked(topics, *arguments, "--version", "1", "--job", f"{topic}-newer")
    assert other.exit_code == 0, other.output
    counted = Counter(value["id"] for value in values(topics, arguments[1]))
    assert counted == Counter([*range(10), *range(20)])


def test_only_what_counts_of_a_pipelines_table_is_written(topics: Topics, tmp_path: Path) -> None:
    topic = topics.make(2)
    location = tmp_path / "t"
    (location / "data").mkdir(parents=True)
    log = open_log(TableSpec("t", "parquet", str(location)), SystemTime())
    columns = StructType().add("id", "long").add("name", "string")
    for number in range(4):
        path = f"data/{number}.parquet"
        pq.write_table(rows(number * 10, number * 10 + 10), location / path)
        if number == 2:
            continue  # its writer was killed before it committed
        base = log.prepare(columns)
        removed = [each for each in base.files if each.path == "data/0.parquet"]
        log.commit(
            base, Change("append", [WrittenFile(path, 10, 1, (), b"")], removed, {"w": number})
        )
    done = invoked(topics, str(location), topic)
    assert done.exit_code == 0, done.output
    assert [row["id"] for row in values(topics, topic)] == [*range(10, 20), *range(30, 40)]
    assert "already" in invoked(topics, str(location), topic).output


def test_large_files_are_cut_between_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = find_table("parquet", str(files(tmp_path / "t", 2)), None)
    assert len(parts_of(table)) == 2
    monkeypatch.setattr("ottla.spark.jobs.file_tables.PART_BYTES", 300)
    parts = parts_of(table)
    assert len(parts) > 2
    read = [
        row["id"] for part in parts for batch in read_part(table, part) for row in batch.to_pylist()
    ]
    assert read == list(range(80))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere", "t"], "cannot be read as parquet"),
        (["TABLE", "t", "--table-format", "delta"], "cannot be read as delta"),
        (["TABLE", "t", "--table-format", "iceberg"], "no metadata of Iceberg"),
        (["TABLE", "t", "--version", "3"], "plain files have no versions"),
        (["TABLE", "t", "--key", "ident"], "no column ident"),
        (["TABLE", "t", "--timestamp", "name"], "must be a timestamp"),
        (["TABLE", "t", "--sink-option", "valueFromat=json"], "did you mean valueFormat"),
        (["PIPELINE", "t"], "nothing committed yet"),
    ],
)
def test_what_cannot_be_right_is_refused(
    topics: Topics, tmp_path: Path, arguments: list[str], reason: str
) -> None:
    named = {"TABLE": str(files(tmp_path / "t", 1)), "PIPELINE": str(tmp_path / "p")}
    (tmp_path / "p" / "_log").mkdir(parents=True)
    done = invoked(topics, *(named.get(each, each) for each in arguments))
    assert done.exit_code in {1, 2}
    assert reason in done.output


def test_types_are_those_that_formats_know(tmp_path: Path) -> None:
    odd = pa.table(
        {
            "a": pa.array(["x"], pa.large_string()),
            "b": pa.array([["y"]], pa.large_list(pa.dictionary(pa.int8(), pa.string()))),
            "c": pa.array([1_700_000_000_000_000_001], pa.timestamp("ns")),
            "d": pa.array([{"e": 7}], pa.struct([("e", pa.uint16())])),
        }
    )
    pq.write_table(odd, tmp_path / "odd.parquet")
    table = find_table("parquet", str(tmp_path), None)
    (batch,) = read_part(table, parts_of(table)[0])
    kinds = {field.name: str(field.type) for field in batch.schema}
    assert kinds == {
        "a": "string",
        "b": "list<element: string>",
        "c": "timestamp[us]",
        "d": "struct<e: int32>",
    }
    assert batch.to_pylist()[0]["d"] == {"e": 7}


def test_columns_are_chosen_by_name() -> None:
    table = pa.RecordBatch.from_pydict(
        {"a": [1], "b": [b"x"], "p": [3], "at": pa.array([5], pa.timestamp("ms", "UTC"))}
    )
    shaped = Shape(("a", "b"), "b", "at", "p").shaped(table).to_pylist()
    assert [row["key"] for row in shaped] == [{"a": 1, "b": b"x"}]
    assert [(row["value"], row["partition"]) for row in shaped] == [(b"x", 3)]
    assert Shape(("b",)).shaped(table).column("key").to_pylist() == [b"x"]
    whole = Shape(("a",)).shaped(table).to_pylist()
    assert whole[0]["value"].keys() == {"a", "b", "p", "at"}
    assert FileTable("parquet", "x").version is None
