"""One Spark session for the whole run, and clusters to read from: ours, and Apache's as a peer.

Whatever uses ``spark`` runs in one process, one after another (the group ``spark`` of xdist): there
is one JVM, however many processes run tests.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.small_segments import Tiered
from tests.spark.topics import Topics
from tools.installed import IMPORT_PATH
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka
from tools.kafka_peer.spark_connector import jars

from ottla.spark.source.broker_reads import disconnect
from ottla.spark.worker_directory import quick_workers
from ottla.testing.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROJECT = Path(__file__).resolve().parents[2]

JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
"""Tests are short: little is worth the work of the second compiler."""
BROKER = {"log.retention.ms": "-1"}
"""Tests write records of years ago."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [IMPORT_PATH, str(PROJECT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    builder = SparkSession.Builder().master("local[2]").appName("ottla-tests")
    settings = {
        "spark.driver.extraJavaOptions": JAVA,
        "spark.jars": ",".join(str(path) for path in jars()),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stopTimeout": "60s",
        "spark.python.authenticate.socketTimeout": "300s",  # the machine may be busy
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with quick_workers(tmp_path_factory.mktemp("python")):
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["ottla", pytest.param("kafka", marks=pytest.mark.peer)])
def address(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "ottla":
        with Broker(config=BROKER) as broker:
            yield broker.bootstrap_servers
    else:
        program = apache_kafka(heap=("-Xmx512M",))
        with BrokerProcess(program, tmp_path_factory.mktemp("kafka"), BROKER) as process:
            yield process.bootstrap_servers


@pytest.fixture(scope="session")
def topics(address: str) -> Iterator[Topics]:
    made = Topics(address)
    yield made
    made.close()
    disconnect()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tiered]:
    """One whose files are looked at."""
    with Tiered(tmp_path_factory.mktemp("store")) as started:
        yield started


@pytest.fixture(scope="session")
def files(broker: Tiered) -> Iterator[Topics]:
    made = Topics(broker.bootstrap_servers)
    yield made
    made.close()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ignored = ("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
    for item in items:
        if "spark" not in getattr(item, "fixturenames", ()):
            continue
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("spark"))
            item.add_marker(pytest.mark.timeout(300))
            for rule in ignored:  # sockets that PySpark leaves to the garbage collector
                item.add_marker(pytest.mark.filterwarnings(rule))
