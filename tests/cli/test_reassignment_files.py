"""Files of plans: what is written is read back, and what is no plan is refused in words."""

import json
from pathlib import Path

import click
import pytest

from ottla.cli.reassignment_files import read_plan, write_plan
from ottla.common.topic_partition import TopicPartition


def test_a_plan_is_read_back(tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    plan = {TopicPartition("t", 1): [3, 1], TopicPartition("t", 0): [1, 2]}
    write_plan(file, plan)
    assert read_plan(file) == plan
    assert json.loads(Path(file).read_text())["partitions"][0] == {
        "topic": "t",
        "partition": 0,
        "replicas": [1, 2],
        "log_dirs": ["any", "any"],
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "is no plan"),
        ("[]", "is no plan"),
        ('{"version": 2, "partitions": []}', "only 1 is known"),
        ('{"version": 1, "partitions": []}', "names no partition"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}', "'replicas'"),
        (
            '{"version": 1, "partitions": [{"topic": 1, "partition": 0, "replicas": [1]}]}',
            "not a partition",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}',
            "has the replicas",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}',
            "a broker twice",
        ),
        (
            '{"version": 1, "partitions": ['
            + ",".join(['{"topic": "t", "partition": 0, "replicas": [1]}'] * 2)
            + "]}",
            "a partition twice",
        ),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    with pytest.raises(click.UsageError, match=words):
        read_plan(str(file))
