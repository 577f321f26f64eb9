"""``ottla groups`` against a broker."""

import itertools
import json
from collections.abc import Iterator

import confluent_kafka
import pytest
from tests.cli.command import Command

from ottla.cli.group_offsets import duration_ms

NUMBERS = itertools.count()


@pytest.fixture
def topic(ottla: Command) -> str:
    """Two partitions of ten records."""
    name = f"groups-{next(NUMBERS)}"
    ottla.out("topics", "create", name, "-p", "2", "-c", "retention.ms=-1")  # 1970 is long ago
    producer = confluent_kafka.Producer({"bootstrap.servers": ottla.bootstrap})
    for number in range(20):
        producer.produce(name, b"%d" % number, partition=number % 2, timestamp=1_000 + number)
    producer.flush()
    return name


@pytest.fixture(params=["classic", "consumer"])
def consumer(
    request: pytest.FixtureRequest, ottla: Command, topic: str
) -> Iterator[confluent_kafka.Consumer]:
    """A member of the group of the topic's name that has read everything and committed it."""
    member = confluent_kafka.Consumer(
        {
            "bootstrap.servers": ottla.bootstrap,
            "group.id": topic,
            "group.protocol": request.param,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([topic])
    read = 0
    while read < 20:
        message = member.poll(20)
        assert message is not None
        assert message.error() is None, message.error()
        read += 1
    member.commit(asynchronous=False)
    yield member
    member.close()


def test_a_group_is_listed_described_reset_and_deleted(
    ottla: Command, topic: str, consumer: confluent_kafka.Consumer
) -> None:
    (listed,) = [
        each for each in ottla.document("groups", "list")["groups"] if each["group"] == topic
    ]
    assert listed["state"] == "Stable"
    assert listed["type"] in {"classic", "consumer"}
    (group,) = ottla.document("groups", "describe", topic)["groups"]
    assert (group["state"], group["size"], group["lag"]) == ("Stable", 1, 0)
    assert group["members"][0]["assignment"] == [f"{topic}:0", f"{topic}:1"]
    assert [each["offset"] for each in group["partitions"]] == [10, 10]
    assert "rdkafka" in ottla.out("groups", "describe", topic, "--members")
    assert "Stable" in ottla.out("groups", "describe", topic, "--state")
    assert topic in ottla.out("groups", "describe", topic)
    reset = ("groups", "reset-offsets", topic, "--all-topics")
    refused = ottla.document(*reset, "--to-earliest", code=1)["errors"]
    assert refused[0]["error"] == "NON_EMPTY_GROUP"
    assert ottla.document("groups", "delete", topic, "-y", code=1)["errors"]

    consumer.close()

    shown = ottla.document(*reset, "--to-earliest")["offsets"]
    assert [(each["old_offset"], each["new_offset"]) for each in shown] == [(10, 0), (10, 0)]
    (group,) = ottla.document("groups", "describe", topic)["groups"]
    assert (group["state"], group["lag"]) == ("Empty", 0)  # it was only shown

    def offsets(*words: str) -> list[int]:
        rows = ottla.document(*reset, *words, "--execute")["offsets"]
        (now,) = ottla.document("groups", "describe", topic)["groups"]
        assert [each["offset"] for each in now["partitions"]] == [
            each["new_offset"] for each in rows
        ]
        return [each["new_offset"] for each in rows]

    assert offsets("--to-offset", "4") == [4, 4]
    assert offsets("--shift-by", "-2") == [2, 2]
    assert offsets("--shift-by", "-99") == [0, 0]
    assert offsets("--to-datetime", "1010") == [5, 5]
    assert offsets("--by-duration", "PT1H") == [10, 10]
    assert offsets("--to-earliest") == [0, 0]
    assert offsets("--to-latest") == [10, 10]
    one = ("groups", "reset-offsets", topic, "--topic", f"{topic}:1", "--to-offset", "3")
    assert len(ottla.document(*one, "--execute")["offsets"]) == 1
    (group,) = ottla.document("groups", "describe", topic)["groups"]
    assert [each["lag"] for each in group["partitions"]] == [0, 7]

    assert ottla.out("groups", "delete", topic, "-y").split() == ["GROUP", topic]
    assert topic not in ottla.out("groups", "list")
    assert ottla.document("groups", "describe", topic, code=1)["errors"]


def test_groups_are_filtered_by_state_and_type(ottla: Command, topic: str) -> None:
    reset = ("groups", "reset-offsets", topic, "--topic", topic, "--to-latest", "--execute")
    ottla.out(*reset)  # a group that has nothing but offsets
    assert topic in ottla.out("groups", "list", "--state", "Empty", "--type", "classic")
    assert topic not in ottla.out("groups", "list", "--state", "Stable")
    assert topic not in ottla.out("groups", "list", "--type", "consumer")


@pytest.mark.parametrize(
    "words",
    [
        ("--all-topics",),
        ("--to-earliest",),
        ("--all-topics", "--to-earliest", "--to-latest"),
        ("--all-topics", "--topic", "x", "--to-earliest"),
        ("--topic", "{topic}:9", "--to-earliest"),
        ("--topic", "{topic}:x", "--to-earliest"),
        ("--topic", "{topic}", "--shift-by", "1"),
        ("--topic", "{topic}", "--by-duration", "1 hour"),
    ],
)
def test_what_makes_no_sense_is_said(ottla: Command, topic: str, words: tuple[str, ...]) -> None:
    said = [word.format(topic=topic) for word in words]
    ottla.out("groups", "reset-offsets", f"{topic}-group", *said, code=2)


def test_durations() -> None:
    assert duration_ms("P1DT2H3M4.5S") == 93_784_500
    assert duration_ms("PT30M") == 1_800_000


# Reading as a member


def test_a_group_goes_on_where_it_was(ottla: Command, topic: str) -> None:
    group = f"reads-{topic}"
    out = ottla.out("consume", topic, "-g", group, "--from-beginning", "-n", "7")
    assert len(out.splitlines()) == 7
    rest = ottla.out("consume", topic, "-g", group, "-e")
    assert sorted(map(int, (out + rest).split())) == list(range(20))
    (described,) = ottla.document("groups", "describe", group)["groups"]
    assert (described["state"], described["lag"]) == ("Empty", 0)
    assert ottla.out("consume", topic, "-g", group, "-e", "--from-beginning") == "", (
        "it has offsets"
    )
    ottla.out("groups", "reset-offsets", group, "-t", topic, "--shift-by", "-2", "--execute")
    again = ottla.out("consume", topic, "-g", group, "-e", "--json")
    assert sorted(json.loads(line)["value"] for line in again.splitlines()) == (
        ["16", "17", "18", "19"]
    )


def test_a_new_group_begins_where_it_is_told(ottla: Command, topic: str) -> None:
    assert ottla.out("consume", topic, "-g", f"end-{topic}", "-e") == ""
    assert (
        ottla.out("groups", "describe", f"end-{topic}", "--format", "tsv").count("\t10\t10\t0") == 2
    )
    assert len(ottla.out("consume", topic, "-g", f"back-{topic}", "-e", "-o", "-3").split()) == 6
    assert ottla.out("consume", topic, "-g", f"at-{topic}", "-e", "-o", "@1018").split() == [
        "18",
        "19",
    ]


def test_a_group_excludes_partitions_and_needs_a_topic(ottla: Command, topic: str) -> None:
    ottla.out("consume", topic, "-g", "g", "-p", "0", code=2)
    ottla.out("consume", "no-such-topic", "-g", "g", code=1)
