"""Offsets of partitions, in the JSON that spark-sql-kafka writes into checkpoints.

``{"topic":{"0":23,"1":345}}``: the offset that comes next in each partition, topics and partitions
in order, because Spark compares two of them as text. Behind them stands which topics these are,
``"topic#<topic id>":{}``: no topic has such a name, and to spark-sql-kafka a topic that has no
partitions is nothing, so that a checkpoint passes to it and back; it writes no ids itself.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from ottla.client.offsets import EARLIEST, LATEST
from ottla.common.identifiers import uuid_from_text, uuid_text
from ottla.common.topic_partition import TopicPartition
from ottla.spark.errors import BadOption

Offsets = dict[TopicPartition, int]
TopicIds = dict[str, bytes]
OffsetsJson = dict[str, dict[str, int]]

WORDS: Final = {"earliest": EARLIEST, "latest": LATEST}
NAMES: Final = {number: word for word, number in WORDS.items()}
GROUP: Final = "group"
_ID: Final = "#"


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The same end of every partition: EARLIEST or LATEST."""

    at: int


@dataclass(frozen=True, slots=True)
class OfGroup:
    """Where the consumer group stands; partitions for which it has no offset from their start."""


@dataclass(frozen=True, slots=True)
class Specific:
    """An offset, EARLIEST or LATEST for each partition, or for all partitions of a topic."""

    offsets: tuple[tuple[TopicPartition, int], ...]
    topics: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first record of each partition that is not older."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """A time for each partition."""

    timestamps: tuple[tuple[TopicPartition, int], ...]


Limit = Everywhere | OfGroup | Specific | AtTimestamp | AtTimestamps


def to_json(
    offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, bytes] | None = None
) -> OffsetsJson:
    """``topic_ids`` of more topics than there are offsets of do no harm."""
    shape: OffsetsJson = {}
    for (topic, partition), offset in sorted(offsets.items()):
        shape.setdefault(topic, {})[str(partition)] = offset
    known = topic_ids or {}
    names = [f"{topic}{_ID}{uuid_text(known[topic])}" for topic in shape if topic in known]
    return shape | {name: {} for name in names}


def topic_ids_of(shape: Mapping[str, object]) -> TopicIds:
    """Which topics the offsets are of, as far as it stands there."""
    found: TopicIds = {}
    for name in shape:
        topic, mark, text = name.partition(_ID)
        if mark:
            with suppress(ValueError):
                found[topic] = uuid_from_text(text)
    return found


def from_json(shape: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in sorted(shape.items())
        for partition, offset in sorted(partitions.items(), key=lambda item: int(item[0]))
    }


def parse_limit(text: str, option: str) -> Limit:
    """``earliest``, ``latest``, ``group``, or JSON with an offset for each partition."""
    word = text.strip().lower()
    if word in WORDS:
        return Everywhere(WORDS[word])
    if word == GROUP:
        return OfGroup()
    offsets: Offsets = {}
    topics: dict[str, int] = {}
    for topic, value in _topics(text, option).items():
        if isinstance(value, str) and value.lower() in WORDS:
            topics[topic] = WORDS[value.lower()]
        else:
            offsets.update(_numbers(topic, value, option))
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise BadOption(f"{option}: {offset} is no offset of {partition}")
    return Specific(tuple(sorted(offsets.items())), tuple(sorted(topics.items())))


def parse_timestamps(text: str, option: str) -> AtTimestamps:
    stamps: dict[TopicPartition, int] = {}
    for topic, value in _topics(text, option).items():
        stamps.update(_numbers(topic, value, option))
    for partition, stamp in stamps.items():
        if stamp < 0:
            raise BadOption(f"{option}: {stamp} is no time of {partition}")
    return AtTimestamps(tuple(sorted(stamps.items())))


def parse_partitions(text: str, option: str) -> tuple[TopicPartition, ...]:
    """``{"topic":[0,1]}``."""
    found: list[TopicPartition] = []
    for topic, value in _topics(text, option).items():
        if not isinstance(value, list) or not all(type(each) is int for each in value):
            raise BadOption(f'{option}: expected {{"{topic}":[0,1]}}, got {json.dumps(value)}')
        found += [TopicPartition(topic, partition) for partition in value]
    return tuple(sorted(set(found)))


def _topics(text: str, option: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not found:
        raise BadOption(f'{option}: expected JSON such as {{"topic":{{"0":23}}}}, got {text!r}')
    return found


def _numbers(topic: str, value: Any, option: str) -> dict[TopicPartition, int]:
    """The numbers of one topic's partitions."""
    if not isinstance(value, dict):
        raise BadOption(f'{option}: expected {{"{topic}":{{"0":23}}}}, got {json.dumps(value)}')
    found: dict[TopicPartition, int] = {}
    for partition, number in value.items():
        if not partition.isdecimal() or type(number) is not int:
            raise BadOption(f"{option}: {partition}: {number!r} of topic {topic} is no number")
        found[TopicPartition(topic, int(partition))] = number
    return found
