"""Pipelines that tests write, and what they leave behind."""

import json
from collections import Counter
from pathlib import Path

from tests.spark.committed import committed_records
from tests.spark.topics import Row, Topics

from ottla.spark.pipelines.model import Dataset, Kind, Pipeline, Place
from ottla.spark.pipelines.project import load
from ottla.spark.pipelines.stored import StoredTables
from ottla.spark.tables.spec import TableSpec

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as f

BROKERS = spark.conf.get("spark.ottla.bootstrap.servers")


@dp.temporary_view
def texts():
    return (
        spark.readStream.format("ottla").option("kafka.bootstrap.servers", BROKERS)
        .option("subscribe", "{source}").option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "{per_batch}")
        .load().select(f.col("value").cast("string").alias("word"), "partition", "offset")
    )


@dp.table
def words():
    return spark.readStream.table("texts")


@dp.materialized_view
def counts():
    return spark.table("words").groupBy("word").count()


dp.create_sink(
    "changes", "ottla", {{"kafka.bootstrap.servers": BROKERS, "topic": "{target}"}}
)


@dp.append_flow(target="changes")
def to_topic():
    return spark.readStream.table("counts").select(
        f.col("word").alias("key"), f.to_json(f.struct("word", "count")).alias("value")
    )


dp.create_sink("copies", "ottla", {{"kafka.bootstrap.servers": BROKERS, "topic": "{copies}"}})


@dp.append_flow(target="copies")
def copy():
    return spark.readStream.table("words").select(f.col("word").alias("value"))
"""

SQL = """
CREATE TEMPORARY VIEW texts AS
SELECT CAST(value AS STRING) AS word, partition, offset FROM STREAM(records);
CREATE STREAMING TABLE words AS SELECT * FROM STREAM(texts);
CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS count FROM words GROUP BY word;
CREATE FLOW to_topic AS INSERT INTO changes BY NAME
SELECT word AS key, to_json(struct(word, count)) AS value FROM STREAM(counts);
CREATE FLOW copy AS INSERT INTO copies BY NAME SELECT word AS value FROM STREAM(words);
"""

SQL_SETTINGS = """
[sources.records]
subscribe = "{source}"
startingOffsets = "earliest"
maxOffsetsPerTrigger = "{per_batch}"
[sinks.changes]
topic = "{target}"
[sinks.copies]
topic = "{copies}"
"""


class WordCount:
    """Topic of words -> table -> counts -> topic of changes; and the words to another topic."""

    def __init__(
        self,
        topics: Topics,
        directory: Path,
        *,
        in_sql: bool,
        per_batch: int,
        table_format: str = "parquet",
        keep: str = "10 minutes",
    ) -> None:
        self.topics = topics
        self.directory = directory
        self.source, self.target, self.copies = topics.make(2), topics.make(2), topics.make(2)
        self.written: Counter[str] = Counter()
        names = {
            "source": self.source,
            "target": self.target,
            "copies": self.copies,
            "per_batch": per_batch,
        }
        settings = f'name = "words"\nbootstrap_servers = "{topics.address}"\ntrigger = "100 ms"\n'
        settings += f'[tables]\nformat = "{table_format}"\nkeep = "{keep}"\n'
        if in_sql:
            settings += SQL_SETTINGS.format(**names)
            files = {"words.sql": SQL}
        else:
            files = {"words.py": PYTHON.format(**names)}
        (directory / "transformations").mkdir(parents=True)
        (directory / "pipeline.toml").write_text(settings)
        for name, text in files.items():
            (directory / "transformations" / name).write_text(text)

    @property
    def pipeline(self) -> Pipeline:
        return load(self.directory)

    def write_spec_of_spark(self) -> Path:
        """For ``spark-pipelines run``."""
        spec = self.directory / "spark-pipeline.yml"
        spec.write_text(
            f"""
name: words
storage: file://{self.directory}/spark-storage
libraries: [{{glob: {{include: transformations/**}}}}]
configuration:
  spark.ottla.bootstrap.servers: "{self.topics.address}"
  spark.sql.shuffle.partitions: "2"
"""
        )
        return spec

    def write(self, words: list[str]) -> None:
        self.written.update(words)
        rows = [Row(at % 2, None, word.encode()) for at, word in enumerate(words)]
        self.topics.fill(self.source, rows)

    def table(self, name: str) -> list[dict[str, object]]:
        """Rows of a table, by its log and its files: without Spark."""
        return read_rows(self.pipeline, name)

    def check(self) -> None:
        """All is there, once."""
        self.check_tables()
        assert self.copied() == self.written
        self._check_changes()

    def check_tables(self) -> None:
        words = self.table("words")
        assert Counter(row["word"] for row in words) == self.written
        assert len({(row["partition"], row["offset"]) for row in words}) == len(words)
        counts = self.table("counts")
        assert {row["word"]: row["count"] for row in counts} == self.written
        assert len(counts) == len(self.written)

    def copied(self) -> Counter[str]:
        """How often each word is in the topic of copies."""
        copied = committed_records(self.topics.address, self.copies)
        values = [each.value or b"" for some in copied.values() for each in some]
        return Counter(value.decode() for value in values)

    def _check_changes(self) -> None:
        """Each change once, counts only grow, and the last one is the count."""
        last: dict[str, int] = {}
        for records in committed_records(self.topics.address, self.target).values():
            for record in records:
                told = json.loads(record.value or b"")
                assert told["count"] > last.get(told["word"], 0), "a change came twice"
                last[told["word"]] = told["count"]
        assert last == self.written


def spec_of(pipeline: Pipeline, name: str) -> TableSpec:
    """Of a table whose definition says nothing special."""
    return StoredTables(pipeline).spec(Dataset(name, Kind.TABLE, Place("")))


def read_rows(pipeline: Pipeline, name: str) -> list[dict[str, object]]:
    import pyarrow.parquet as pq

    from ottla.client.system_time import SystemTime
    from ottla.spark.tables.logs import open_log

    spec = spec_of(pipeline, name)
    newest = open_log(spec, SystemTime()).newest()
    assert newest is not None
    return [
        row
        for file in newest.files
        for row in pq.read_table(f"{spec.location}/{file.path}").to_pylist()
    ]
