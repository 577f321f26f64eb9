"""Which offsets ``ottla groups reset-offsets`` means: of which partitions, and where to."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import click

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.groups import CommittedOffset
    from ottla.common.topic_partition import TopicPartition

_WAYS: Final = (
    "to_earliest",
    "to_latest",
    "to_offset",
    "to_datetime",
    "by_duration",
    "shift_by",
)
_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class Reset(NamedTuple):
    way: str
    value: object


def chosen_reset(choices: Mapping[str, object]) -> Reset:
    """The one way that was chosen."""
    named = [way for way in _WAYS if choices[way] not in (None, False)]
    if len(named) != 1:
        options = ", ".join(f"--{way.replace('_', '-')}" for way in _WAYS)
        raise click.UsageError(f"choose one of {options}")
    (way,) = named
    return Reset(way, choices[way])


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days, hours, minutes and seconds."""
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise click.UsageError(f"not a duration like P1DT2H30M: {text!r}")
    seconds = sum(float(match[unit]) * size for unit, size in _SECONDS.items() if match[unit])
    return int(seconds * 1000)


def chosen_partitions(
    admin: "Admin", group: str, choices: Mapping[str, object]
) -> list["TopicPartition"]:
    from ottla.common.topic_partition import TopicPartition

    topics = choices["topics"]
    assert isinstance(topics, tuple)
    if bool(topics) == bool(choices["all_topics"]):
        raise click.UsageError("choose --topic or --all-topics")
    if not topics:
        return list(admin.group_offsets(group))
    found = []
    for text in topics:
        name, _, numbers = text.partition(":")
        known = admin.cluster.topic(name).partitions
        chosen = sorted(known)
        if numbers:
            if not re.fullmatch(r"\d+(,\d+)*", numbers, re.ASCII):
                raise click.UsageError(f"not a list of partitions: {numbers!r}")
            chosen = [int(number) for number in numbers.split(",")]
        for index in chosen:
            if index not in known:
                raise click.UsageError(f"{name} has no partition {index}")
            found.append(TopicPartition(name, index))
    return found


def chosen_offsets(
    admin: "Admin",
    partitions: list["TopicPartition"],
    committed: Mapping["TopicPartition", "CommittedOffset"],
    reset: Reset,
) -> dict["TopicPartition", int]:
    from ottla.client.offsets import EARLIEST, LATEST

    if not partitions:
        return {}
    first = admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    last = admin.list_offsets(dict.fromkeys(partitions, LATEST))
    wanted: dict[TopicPartition, int] = {}
    at_time = _at_time(admin, partitions, reset)
    for partition in partitions:
        low, high = first[partition].offset, last[partition].offset
        match reset.way, reset.value:
            case "to_earliest", _:
                offset = low
            case "to_offset", int(value):
                offset = value
            case "shift_by", int(value):
                if partition not in committed:
                    raise click.UsageError(
                        f"{partition.topic}:{partition.partition} has no offset to shift"
                    )
                offset = committed[partition].offset + value
            case _:
                offset = at_time.get(partition, high)
        wanted[partition] = min(max(offset, low), high)
    return wanted


def _at_time(
    admin: "Admin", partitions: list["TopicPartition"], reset: Reset
) -> dict["TopicPartition", int]:
    """Where the records since a time begin; partitions that have none are left out."""
    from ottla.cli.consume import parse_time

    if reset.way == "to_datetime":
        time_ms = parse_time(str(reset.value))
    elif reset.way == "by_duration":
        time_ms = admin.cluster.clock.wall_ms() - duration_ms(str(reset.value))
    else:
        return {}
    found = admin.list_offsets(dict.fromkeys(partitions, max(time_ms, 0)))
    return {partition: each.offset for partition, each in found.items() if each.offset >= 0}
