"""Jobs and pipelines on a secured cluster, as people start them; no secret is in what they write.

Their Spark keeps its event log and says all that it does.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.spark.committed import committed_records
from tests.spark.test_secured import everything_written, secrets
from tools.installed import IMPORT_PATH

from ottla.client.producer import Producer
from ottla.config.properties import format_properties
from ottla.testing.broker import Broker

WORDS = ("tea", "milk", "tea", "sugar")
COUNTS = {b"tea": b'{"word":"tea","count":2}', b"milk": b'{"word":"milk","count":1}'}

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(600)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(security="sasl_ssl") as made:
        yield made


class Shell:
    """Runs ``ottla`` as alice, who is told of by a file elsewhere; keeps all that it writes."""

    def __init__(self, broker: Broker, directory: Path, secret: Path) -> None:
        self.broker = broker
        self.directory = directory
        self.file = secret / "alice.properties"
        self.file.write_text(format_properties(broker.client_properties()))
        events = directory / "events"
        events.mkdir()
        self._spark = directory / "spark"
        self._spark.mkdir()
        (self._spark / "spark-defaults.conf").write_text(
            "spark.eventLog.enabled true\nspark.eventLog.compress false\n"
            f"spark.eventLog.dir file://{events}\nspark.ui.enabled false\n"
            "spark.log.level INFO\nspark.sql.shuffle.partitions 2\n"
            "spark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
            "spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m\n"
        )

    def run(self, *words: str) -> str:
        with (self.directory / "output").open("ab") as output:
            begin = output.tell()
            done = subprocess.run(
                [sys.executable, "-m", "ottla", *words],
                cwd=self.directory,
                env={
                    **os.environ,
                    "PYTHONPATH": IMPORT_PATH,
                    "PYSPARK_PYTHON": sys.executable,
                    "SPARK_CONF_DIR": str(self._spark),
                },
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        said = (self.directory / "output").read_bytes()[begin:].decode("utf-8", "replace")
        assert done.returncode == 0, said[-4000:]
        return said

    def check_no_secret(self) -> None:
        written = list(everything_written(self.directory))
        assert any("/events/" in path for path, _ in written)
        for secret in secrets(self.broker):
            shown = [path for path, text in written if secret in text]
            assert shown == [], (secret, shown)


@pytest.fixture
def shell(broker: Broker, tmp_path: Path) -> Shell:
    (tmp_path / "written").mkdir()
    return Shell(broker, tmp_path / "written", tmp_path)


def write(broker: Broker, topic: str) -> None:
    with Producer(broker.bootstrap_servers, security=broker.client_security()) as producer:
        for word in WORDS:
            producer.send(topic, word.encode(), key=word.encode())


def committed(broker: Broker, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found = committed_records(broker.bootstrap_servers, topic, broker.client_security())
    return [(each.key, each.value) for records in found.values() for each in records]


def test_jobs(broker: Broker, shell: Shell) -> None:
    write(broker, "drinks")
    named = ("-b", broker.bootstrap_servers, "--command-config", str(shell.file))
    exported = shell.directory / "exported"
    shell.run("jobs", "export", "drinks", str(exported), "--master", "local[2]", *named)
    assert list(exported.rglob("*.parquet"))
    shell.run("jobs", "repartition", "drinks", "wide", "--partitions", "3",
              "--groups", "all", "--master", "local[2]", *named)  # fmt: skip
    shell.run("jobs", "backfill", str(exported), "again", "--master", "local[2]", *named)
    for topic in ("wide", "again"):
        values = sorted(value or b"" for _, value in committed(broker, topic))
        assert values == sorted(word.encode() for word in WORDS), topic
    shell.check_no_secret()


@pytest.mark.parametrize("in_sql", [False, True], ids=["python", "sql"])
def test_a_pipeline(broker: Broker, shell: Shell, in_sql: bool) -> None:
    write(broker, "words")
    place = shell.directory / "pipeline"
    more = ["--sql"] if in_sql else []
    shell.run(
        "pipeline", "init", str(place), "--bootstrap-servers", broker.bootstrap_servers, *more
    )
    file = place / "pipeline.toml"
    file.write_text(f'client_config = "{shell.file}"\n{file.read_text()}')
    shell.run("pipeline", "run", str(place), "--once", "--master", "local[2]")
    assert COUNTS.items() <= dict(committed(broker, "counts")).items()
    shell.check_no_secret()
