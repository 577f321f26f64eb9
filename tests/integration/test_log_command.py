"""``ottla log`` with a running broker that cleans its logs."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Producer
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess, ottla

from ottla.cli.main import cli

RECORDS = 4000
SIZE = 900


def run(*words: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(cli, [*words, "--json"], prog_name="ottla")
    assert result.exit_code == code, (result.output, result.exception)
    content = json.loads(result.stdout)
    assert isinstance(content, dict)
    return content


def test_a_cleaned_log_is_clean_and_sound(tmp_path: Path) -> None:
    broker = BrokerProcess(ottla(), tmp_path / "broker", {"log.cleaner.backoff.ms": "100"})
    with broker:
        servers = broker.bootstrap_servers
        own = ("segment.bytes=1048576", "cleanup.policy=compact", "min.cleanable.dirty.ratio=0.2")
        words = [word for each in own for word in ("-c", each)]
        run("topics", "create", "compacted", "-p", "1", *words, "-b", servers)
        producer = Producer({"bootstrap.servers": servers, "batch.size": 20_000})
        for number in range(RECORDS):
            value = None if number % 10 == 0 else str(number).ljust(SIZE)
            producer.produce("compacted", value, str(number % 700))
            producer.poll(0)
        assert producer.flush(60) == 0

        def is_clean() -> bool:
            (partition,) = run("log", "segments", "compacted", "-b", servers)["partitions"]
            return partition["clean_offset"] is not None and partition["dirty_ratio"] < 0.2

        eventually(is_clean)
    where = ("--log-dir", str(broker.log_directory))
    content = run("log", "segments", "compacted", "--deep", *where)
    rows = content["segments"]
    assert rows[0]["cleaning"] == "clean"
    assert sum(row["records"] for row in rows) < RECORDS
    kept = [row for row in rows if row["cleaning"] == "clean" and row["tombstones"]]
    assert kept
    assert all(row["delete_horizon_ms"] > 0 for row in kept)
    assert run("log", "verify", "compacted", *where)["problems"] == []
