"""``ottla topics``, ``configs`` and ``offsets`` against a broker."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.command import Command

from ottla.cli.main import cli

NUMBERS = itertools.count()


@pytest.fixture
def topic(ottla: Command) -> str:
    name = f"topic-{next(NUMBERS)}"
    ottla("topics", "create", name, "-p", "2")
    return name


def test_a_topic_is_created_listed_described_and_deleted(ottla: Command) -> None:
    name = f"topic-{next(NUMBERS)}"
    out, _ = ottla("topics", "create", name, "-p", "3", "-c", "retention.ms=70000")
    assert out.split() == ["NAME", "PARTITIONS", "REPLICAS", name, "3", "1"]
    (row,) = [each for each in ottla.document("topics", "list")["topics"] if each["name"] == name]
    assert row == {"name": name, "partitions": 3, "replicas": 1, "internal": False}
    (described,) = ottla.document("topics", "describe", name)["topics"]
    assert described["configs"] == {"retention.ms": "70000"}
    assert [each["partition"] for each in described["partitions"]] == [0, 1, 2]
    assert described["partitions"][0]["replicas"] == [1]
    text, _ = ottla("topics", "describe", name)
    heading = f"{name}  {described['topic_id']}  local size 0  retention.ms=70000\nTOPIC "
    assert text.startswith(heading)
    assert ottla("topics", "delete", name, "-y")[0] == f"NAME\n{name}\n"
    assert name not in ottla("topics", "list")[0]


def test_what_is_refused_is_said_and_the_rest_is_done(ottla: Command, topic: str) -> None:
    other = f"topic-{next(NUMBERS)}"
    content = ottla.document("topics", "create", topic, other, code=1)
    assert [each["name"] for each in content["created"]] == [other]
    (error,) = content["errors"]
    assert error == {
        "topic": topic,
        "error": "TOPIC_ALREADY_EXISTS",
        "message": f"Topic '{topic}' already exists.",
    }
    out, complaint = ottla("topics", "create", topic, code=1)
    assert out == ""
    assert complaint == f"{topic}: Topic '{topic}' already exists.\n"


def test_existing_and_missing_topics_can_be_passed_over(ottla: Command, topic: str) -> None:
    assert ottla("topics", "create", topic, "--if-not-exists") == ("", "nothing was created\n")
    gone = ottla("topics", "delete", "no-such-topic", "--if-exists", "-y")
    assert gone == ("", "nothing was deleted\n")
    ottla("topics", "delete", "no-such-topic", "-y", code=1)


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "delete", "kept"),
        ("groups", "delete", "kept"),
        ("offsets", "delete-records", "kept:0=end"),
        ("elect-leaders", "--unclean", "--all"),
        ("cluster", "unregister", "77"),
        ("quorum", "remove", "1"),
    ],
)
def test_without_a_terminal_what_loses_something_needs_a_yes(
    ottla: Command, words: tuple[str, ...]
) -> None:
    ottla("topics", "create", "kept", "-p", "1", "--if-not-exists")
    ottla("produce", "kept", stdin="x\n")
    _, complaint = ottla(*words, code=2)
    assert "There is no terminal to ask on: -y says yes" in complaint
    assert ottla("consume", "kept", "--from-beginning", "-n", "1")[0] == "x\n"


def test_topics_are_deleted_by_a_pattern(ottla: Command) -> None:
    names = [f"wild-{next(NUMBERS)}" for _ in range(3)]
    ottla("topics", "create", *names, "other-wild")
    would = ottla.document("topics", "delete", "wild-*", "--dry-run")["deleted"]
    assert [each["name"] for each in would] == names
    _, complaint = ottla("topics", "delete", "wild-*", code=2)
    assert f"Delete {', '.join(names)} with all records?" in complaint
    assert ottla("topics", "delete", "wild-*", "-y")[0].split() == ["NAME", *names]
    listed = [each["name"] for each in ottla.document("topics", "list")["topics"]]
    assert "other-wild" in listed
    assert not {*names} & {*listed}
    _, complaint = ottla("topics", "delete", "wild-*", "-y", code=1)
    assert complaint == "wild-*: no topic is called like it\n"
    document = ottla.document("topics", "delete", "other-wild", "wild-?", "-y", code=1)
    assert [each["name"] for each in document["deleted"]] == ["other-wild"]
    assert [each["topic"] for each in document["errors"]] == ["wild-?"]


def test_topics_are_described_by_a_pattern(ottla: Command, topic: str) -> None:
    found = ottla.document("topics", "describe", f"{topic[:-1]}?", topic)["topics"]
    assert topic in [each["name"] for each in found]
    assert len({each["name"] for each in found}) == len(found)
    assert ottla("topics", "describe", "qq*", code=1) == ("", "qq*: no topic is called like it\n")


def test_a_pattern_names_no_internal_topic(ottla: Command, topic: str) -> None:
    ottla("groups", "reset-offsets", topic, "-t", topic, "--to-earliest", "--execute")
    assert "__consumer_offsets" in ottla("topics", "list", "--internal")[0]
    ottla("topics", "delete", "__*", "-y", code=1)
    assert "__consumer_offsets" in ottla("topics", "list", "--internal")[0]


def test_groups_are_deleted_by_a_pattern(ottla: Command, topic: str) -> None:
    for name in ("wild-a", "wild-b", "tame", "wild-*"):
        ottla("groups", "reset-offsets", name, "-t", topic, "--to-earliest", "--execute")
    assert ottla("groups", "delete", "wild-*", "-y")[0].split() == ["GROUP", "wild-*"]
    assert ottla("groups", "delete", "wild-*", "-y")[0].split() == ["GROUP", "wild-a", "wild-b"]
    assert ottla("groups", "delete", "wild-*", "-y", code=1)[0] == ""
    assert "tame" in ottla("groups", "list")[0]


def test_a_dry_run_changes_nothing(ottla: Command, topic: str) -> None:
    name = f"topic-{next(NUMBERS)}"
    assert ottla.document("topics", "create", name, "--dry-run")["created"][0]["dry_run"] is True
    ottla("topics", "alter", topic, "-p", "5", "--dry-run")
    ottla("topics", "delete", topic, "--dry-run")
    ottla("configs", "alter", "topic", topic, "-s", "retention.ms=5000", "--dry-run")
    listed = {each["name"]: each for each in ottla.document("topics", "list")["topics"]}
    assert name not in listed
    assert listed[topic]["partitions"] == 2
    assert ottla.document("topics", "describe", topic)["topics"][0]["configs"] == {}


def test_a_topic_gets_more_partitions_and_never_fewer(ottla: Command, topic: str) -> None:
    ottla("topics", "alter", topic, "-p", "4")
    assert len(ottla.document("topics", "describe", topic)["topics"][0]["partitions"]) == 4
    _, complaint = ottla("topics", "alter", topic, "-p", "1", code=1)
    assert "would not be an increase" in complaint


def test_settings_are_changed_and_shown(ottla: Command, topic: str) -> None:
    ottla(
        "configs",
        "alter",
        "topic",
        topic,
        "-s",
        "retention.ms=5000",
        "--append",
        "cleanup.policy=compact",
    )
    own = ottla.document("configs", "describe", "topic", topic)["configs"]
    values = {each["name"]: each["value"] for each in own}
    assert values["retention.ms"] == "5000"
    assert values["cleanup.policy"] == "delete,compact"
    ottla(
        "configs",
        "alter",
        "topic",
        topic,
        "-d",
        "retention.ms",
        "--subtract",
        "cleanup.policy=delete",
    )
    (policy,) = ottla.document("configs", "describe", "topic", topic, "-k", "cleanup.policy")[
        "configs"
    ]
    assert policy["value"] == "compact"
    assert policy["source"] == "DYNAMIC_TOPIC_CONFIG"
    assert policy["type"] == "list"
    assert [each["name"] for each in policy["synonyms"]] == ["cleanup.policy", "log.cleanup.policy"]
    everything = ottla("configs", "describe", "topic", topic, "--all")[0]
    assert len(everything.splitlines()) == 34


def test_settings_of_brokers_are_changed_and_shown(ottla: Command) -> None:
    ottla("configs", "alter", "broker", "default", "-s", "log.cleaner.backoff.ms=20000")
    out, _ = ottla("configs", "describe", "broker", "default")
    assert "log.cleaner.backoff.ms" in out
    ottla("configs", "alter", "broker", "default", "-d", "log.cleaner.backoff.ms")
    _, complaint = ottla("configs", "alter", "broker", "1", "-s", "num.partitions=3", code=1)
    assert complaint == "1: Cannot update these configs dynamically: [num.partitions]\n"


def test_a_wrong_value_is_refused_with_the_brokers_words(ottla: Command, topic: str) -> None:
    content = ottla.document("configs", "alter", "topic", topic, "-s", "retention.ms=x", code=1)
    assert content["errors"] == [
        {
            "topic": topic,
            "error": "INVALID_CONFIG",
            "message": "Invalid value x for configuration retention.ms: Not a number of type LONG",
        }
    ]


def test_a_setting_that_nobody_knows_gets_a_did_you_mean(ottla: Command, topic: str) -> None:
    wrong = "retention.mss=5"
    _, complaint = ottla("configs", "alter", "topic", topic, "-s", wrong, code=1)
    assert complaint == (
        f"{topic}: Unknown topic config name: retention.mss; did you mean retention.ms?\n"
    )
    _, complaint = ottla("topics", "create", f"{topic}-x", "-c", wrong, code=1)
    assert "did you mean retention.ms?" in complaint
    _, told = ottla("configs", "alter", "broker", "default", "-s", "log.retention.mss=5")
    assert told == (
        "unknown setting log.retention.mss has no effect; did you mean log.retention.ms?\n"
    )
    assert ottla("configs", "alter", "broker", "default", "-d", "log.retention.mss")[1] == ""
    words = ("group", "g", "-s", "consumer.session.timeout=5")
    _, complaint = ottla("configs", "alter", *words, code=1)
    assert "did you mean consumer.session.timeout.ms?" in complaint


def test_changes_must_say_something(ottla: Command, topic: str) -> None:
    ottla("configs", "alter", "topic", topic, code=2)
    ottla("configs", "alter", "topic", topic, "-s", "nonsense", code=2)


def test_records_are_written_and_read(ottla: Command, topic: str) -> None:
    lines = "".join(f"k{index}:v{index}\n" for index in range(10))
    _, told = ottla("produce", topic, "-K", ":", "-H", "h=x", "-z", "lz4", stdin=lines)
    assert told == f"wrote 10 records to {topic}\n"
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "-K", ":")
    assert sorted(out.splitlines()) == sorted(lines.splitlines())
    out, _ = ottla("consume", topic, "-o", "beginning", "-n", "10", "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert {each["key"] for each in records} == {f"k{index}" for index in range(10)}
    assert records[0]["headers"] == [{"key": "h", "value": "x"}]
    assert records[0]["topic"] == topic
    out, _ = ottla("consume", topic, "-o", "-1", "-e", "-f", "%t-%p %k=%s %h %K/%S %%\\n")
    assert len(out.splitlines()) == 2
    key, _, rest = out.splitlines()[0].partition(" ")[2].partition("=")
    assert rest == f"v{key[1:]} h=x {len(key)}/{len(key)} %"


def test_json_goes_round(ottla: Command, topic: str) -> None:
    line = {
        "key": None,
        "value": {"base64": "/wA="},
        "headers": [{"key": "a", "value": None}],
        "timestamp": 1_700_000_000_000,
        "partition": 1,
    }
    ottla("produce", topic, "--from-json", stdin=json.dumps(line) + "\n" + '{"value": {"a": 1}}\n')
    out, _ = ottla("consume", topic, "-o", "beginning", "-e", "--json", "-p", "1")
    first = json.loads(out.splitlines()[0])
    assert first == {**line, "topic": topic, "offset": 0}
    out, _ = ottla("consume", topic, "-o", "@1700000000000", "-e", "--json")
    assert any(json.loads(each)["value"] == '{"a": 1}' for each in out.splitlines())


def test_what_was_consumed_is_produced_again_without_loss(ottla: Command, topic: str) -> None:
    lines: list[dict[str, Any]] = [
        {"key": "0x41", "value": "0xff", "headers": [{"key": "0x", "value": "0x00"}]},
        {"key": None, "value": "", "headers": [{"key": "a", "value": ""}]},
        {"key": "", "value": None, "headers": [{"key": "a", "value": None}]},
        {"key": {"base64": "/w=="}, "value": {"base64": "AAE="}, "headers": []},
    ]
    first, again = "".join(json.dumps({**each, "partition": 1}) + "\n" for each in lines), topic
    ottla("produce", topic, "--from-json", stdin=first)
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "--json")
    assert [{name: json.loads(each)[name] for name in lines[0]} for each in out.splitlines()] == (
        lines
    )
    ottla("topics", "create", f"{again}-again", "-p", "2")
    ottla("produce", f"{again}-again", "--from-json", stdin=out)
    copied, _ = ottla("consume", f"{again}-again", "--from-beginning", "-e", "--json")
    assert copied == out.replace(f'"{topic}"', f'"{again}-again"')


def test_a_line_of_json_that_is_no_record_is_refused(ottla: Command, topic: str) -> None:
    lines = '{"value": "x"}\n{"vlaue": "y"}\n'
    _, complaint = ottla("produce", topic, "--from-json", stdin=lines, code=2)
    assert 'line 2: unknown field "vlaue"; did you mean value?' in complaint
    assert "(what comes before it is written)" in complaint
    assert ottla("consume", topic, "--from-beginning", "-e")[0] == "x\n"


def test_large_records_are_written_if_the_topic_takes_them(ottla: Command, topic: str) -> None:
    large = "x" * (3 << 20) + "\n"
    _, complaint = ottla("produce", topic, "-p", "0", stdin=large, code=1)
    assert "exceeds the topic's limit of 1048588" in complaint
    ottla("configs", "alter", "topic", topic, "-s", f"max.message.bytes={4 << 20}")
    ottla("produce", topic, "-p", "0", stdin=f"a\n{large}b\n")
    out, _ = ottla("consume", topic, "--from-beginning", "-e")
    assert out == f"a\n{large}b\n"
    _, complaint = ottla("produce", topic, "-X", "max.request.size=1000", stdin=large, code=1)
    assert "exceeds max.request.size=1000" in complaint


def test_all_of_the_input_is_one_record(ottla: Command, topic: str) -> None:
    ottla("produce", topic, "--whole", "-p", "0", stdin=b"a\nb\r\n\xff")
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "--json")
    assert json.loads(out)["value"] == {"base64": "YQpiDQr/"}


def test_records_are_printed_as_yaml_and_as_rows(ottla: Command, topic: str) -> None:
    ottla("produce", topic, "-k", "k", "-p", "0", "-H", "h=x", stdin="a: b\n\n0xff\n")
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "--format", "yaml")
    records = [each.splitlines() for each in out.split("---\n")[1:]]
    assert [each[5] for each in records] == ['value: "a: b"', 'value: ""', 'value: "0xff"']
    assert records[0][:3] == [f"topic: {topic}", "partition: 0", "offset: 0"]
    assert records[0][4:] == ["key: k", 'value: "a: b"', "headers:", "  - key: h", "    value: x"]
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "--format", "tsv")
    rows = [line.split("\t") for line in out.splitlines()]
    assert [row[5] for row in rows] == ["a: b", "", "0x30786666"]
    assert rows[0][:3] == [topic, "0", "0"]


def test_null_values_are_written(ottla: Command, topic: str) -> None:
    ottla("produce", topic, "-k", "k", "-Z", "NULL", "-p", "0", stdin="NULL\nx\n")
    out, _ = ottla("consume", topic, "--from-beginning", "-e", "--json")
    assert [json.loads(line)["value"] for line in out.splitlines()] == [None, "x"]


def test_bytes_pass_through_as_they_are(ottla: Command, topic: str) -> None:
    ottla("produce", topic, "-p", "0", stdin=b"\xff\xfe\n")
    result = CliRunner().invoke(
        cli, ["consume", topic, "--from-beginning", "-e", "-b", ottla.bootstrap]
    )
    assert result.stdout_bytes == b"\xff\xfe\n"


def test_a_dry_run_writes_nothing(ottla: Command, topic: str) -> None:
    _, told = ottla("produce", topic, "--dry-run", stdin="a\nb\n")
    assert told == f"would write 2 records to {topic}\n"
    assert ottla("consume", topic, "--from-beginning", "-e")[0] == ""


def test_offsets_are_listed_and_records_deleted(ottla: Command, topic: str) -> None:
    ottla("produce", topic, "-p", "1", stdin="a\nb\nc\n")
    rows = ottla.document("offsets", "list", topic)["offsets"]
    assert rows == [
        {"topic": topic, "partition": 0, "earliest": 0, "latest": 0, "records": 0},
        {"topic": topic, "partition": 1, "earliest": 0, "latest": 3, "records": 3},
    ]
    out, _ = ottla("offsets", "delete-records", f"{topic}:1=2", "--dry-run")
    assert out.split()[-1] == "2"
    assert ottla.document("offsets", "list", topic, "-p", "1")["offsets"][0]["earliest"] == 0
    ottla("offsets", "delete-records", f"{topic}:1=2", "-y")
    assert ottla.document("offsets", "list", topic, "-p", "1")["offsets"][0]["records"] == 1
    out, _ = ottla("offsets", "delete-records", f"{topic}:1=end", "-y")
    assert out.split()[-1] == "3"
    ottla("offsets", "delete-records", f"{topic}:99=1", "-y", code=1)
    ottla("offsets", "delete-records", "nonsense", "-y", code=2)


def test_offsets_of_a_time_are_listed(ottla: Command, topic: str) -> None:
    line = json.dumps({"value": "x", "timestamp": 1_700_000_000_000, "partition": 0})
    ottla("produce", topic, "--from-json", stdin=line + "\n")
    (row,) = ottla.document(
        "offsets", "list", topic, "-p", "0", "-t", "max-timestamp", "-t", "2030-01-01T00:00:00"
    )["offsets"]
    assert row["max-timestamp"] == 0
    assert row["2030-01-01T00:00:00"] is None


def test_a_missing_topic_or_partition_is_said(ottla: Command, topic: str) -> None:
    _, complaint = ottla("consume", "no-such-topic", code=1)
    assert "no-such-topic" in complaint
    _, complaint = ottla("consume", topic, "-p", "9", code=1)
    assert complaint == f"{topic} has no partition 9\n"
    content = ottla.document("topics", "describe", topic, "no-such-topic", code=1)
    assert [each["name"] for each in content["topics"]] == [topic]
    assert content["errors"][0]["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    "words",
    [
        ("consume", "t", "-o", "x"),
        ("consume", "t", "-o", "@yesterday"),
        ("consume", "t", "-X", "isolation.level=x"),
        ("produce", "t", "-k", "a", "-K", ":"),
        ("produce", "t", "-H", "=x"),
        ("topics", "list", "-X", "security.protocol=TLS"),
        ("topics", "create", "t", "-p", "0"),
    ],
)
def test_nonsense_is_a_usage_error(ottla: Command, words: tuple[str, ...]) -> None:
    ottla(*words, code=2)


def test_an_unknown_setting_of_the_client_is_mentioned(ottla: Command) -> None:
    _, told = ottla("topics", "list", "-X", "foo.bar=1")
    assert told == "settings of the client that have no effect: foo.bar\n"


def test_a_broker_that_is_not_there_is_said() -> None:
    result = CliRunner().invoke(
        cli, ["topics", "list", "-b", "127.0.0.1:1", "--timeout", "0.3", "--json"]
    )
    assert result.exit_code == 1
    (error,) = json.loads(result.stdout)["errors"]
    assert error["error"] == "BrokerUnavailable"


def completed(bootstrap: str, words: str) -> list[str]:
    result = CliRunner().invoke(
        cli,
        [],
        prog_name="ottla",
        env={
            "_OTTLA_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "OTTLA_BOOTSTRAP_SERVERS": bootstrap,
        },
    )
    return [line.removeprefix("plain,") for line in result.stdout.split()]


def test_a_shell_completes_the_names_of_topics(ottla: Command, topic: str) -> None:
    assert topic in completed(ottla.bootstrap, f"ottla topics describe {topic[:-1]}")
    assert topic in completed(ottla.bootstrap, f"ottla configs describe topic {topic[:-1]}")
    assert completed(ottla.bootstrap, f"ottla configs describe broker {topic[:-1]}") == []


def test_a_shell_completes_paths_and_topics_where_logs_are_named(
    ottla: Command, topic: str, tmp_path: Path
) -> None:
    assert completed(ottla.bootstrap, f"ottla log verify {topic[:-1]}")[0] == f"file,{topic[:-1]}"
    assert topic in completed(ottla.bootstrap, f"ottla log verify {topic[:-1]}")[1:]
    assert completed("127.0.0.1:1", "ottla log segments ./da") == ["file,./da"]
    (tmp_path / "kept-0").mkdir()
    here = completed("127.0.0.1:1", f"ottla log segments --log-dir {tmp_path} ke")
    assert here == ["file,ke", "kept"]


def test_a_shell_completes_nothing_without_a_broker() -> None:
    assert completed("127.0.0.1:1", "ottla topics describe a") == []


def test_a_shell_completes_the_names_of_settings(bootstrap: str) -> None:
    assert completed(bootstrap, "ottla topics create t -c retention.") == [
        "retention.bytes=",
        "retention.ms=",
    ]
    assert "log.retention.ms=" in completed(bootstrap, "ottla configs alter broker 1 -s log.ret")
    assert completed(bootstrap, "ottla configs alter group g -d share.iso") == [
        "share.isolation.level"
    ]
    assert completed(bootstrap, "ottla configs alter broker-logger 1 -s ottla") == []
