"""Plans of reassignments as JSON, in the form that kafka-reassign-partitions reads and writes."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from ottla.common.topic_partition import TopicPartition


def plan_document(assignment: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    """Replicas of partitions, in whichever directory each broker likes."""
    return {
        "version": 1,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": list(replicas),
                "log_dirs": ["any"] * len(replicas),
            }
            for partition, replicas in sorted(assignment.items())
        ],
    }


def write_plan(path: str, assignment: Mapping[TopicPartition, Sequence[int]]) -> None:
    Path(path).write_text(json.dumps(plan_document(assignment)) + "\n", "utf-8")


def read_plan(path: str) -> dict[TopicPartition, list[int]]:
    """The replicas that a file names; ``-`` is standard input."""
    text = sys.stdin.read() if path == "-" else Path(path).read_text("utf-8")
    try:
        content = json.loads(text)
        version = content["version"]
        listed = [_partition(item) for item in content["partitions"]]
    except (ValueError, KeyError, TypeError) as error:
        raise click.UsageError(f"{path} is no plan of a reassignment: {error}") from None
    if version != 1:
        raise click.UsageError(f"{path} has version {version}, only 1 is known")
    plan = dict(listed)
    if not plan:
        raise click.UsageError(f"{path} names no partition")
    if len(plan) < len(listed):
        raise click.UsageError(f"{path} names a partition twice")
    return plan


def _partition(item: Any) -> tuple[TopicPartition, list[int]]:
    topic, partition, replicas = item["topic"], item["partition"], item["replicas"]
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError(f"not a partition: {topic!r} {partition!r}")
    if not replicas or not all(isinstance(each, int) for each in replicas):
        raise ValueError(f"{topic}-{partition} has the replicas {replicas!r}")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"{topic}-{partition} names a broker twice: {replicas!r}")
    return TopicPartition(topic, partition), list(replicas)
