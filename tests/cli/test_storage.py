"""``ottla storage`` and the reading of a node's settings; no broker is needed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.files import node_properties, read_properties
from ottla.cli.main import cli
from ottla.common.identifiers import uuid_from_text

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["storage", *words], prog_name="ottla")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def node(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=7\n"
        "listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\n"
        "controller.listener.names=CONTROLLER\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9093\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )
    return file


def test_a_random_id_is_one_of_kafkas() -> None:
    code, text, _ = run("random-uuid")
    assert code == 0
    assert len(uuid_from_text(text.strip())) == 16
    assert run("random-uuid")[1] != text


def test_a_node_is_formatted_once(node: Path) -> None:
    format_words = ("format", "-t", CLUSTER, "-c", str(node), "--standalone")
    code, text, _ = run(*format_words)
    assert code == 0
    assert "Formatting" in text
    code, _, complaint = run(*format_words)
    assert code == 1
    assert "already formatted" in complaint
    assert run(*format_words, "--ignore-formatted")[0] == 0


def test_info_shows_what_directories_say(node: Path) -> None:
    code, _, complaint = run("info", "-c", str(node))
    assert code == 1
    assert complaint.count("not found") == 2
    assert run("format", "-t", CLUSTER, "-c", str(node), "-s")[0] == 0
    code, text, _ = run("info", "-c", str(node), "--json")
    assert code == 0
    directories = json.loads(text)["directories"]
    assert [each["cluster.id"] for each in directories] == [CLUSTER, CLUSTER]
    assert {each["node.id"] for each in directories} == {"7"}
    (node.parent / "b" / "meta.properties").unlink()
    code, _, complaint = run("info", "-c", str(node))
    assert code == 1
    assert "not formatted" in complaint


@pytest.mark.parametrize(
    "words",
    [
        ("--standalone", "--no-initial-controllers"),
        ("--standalone", "--feature", "kraft.version"),
        ("--standalone", "--feature", "kraft.version=x"),
    ],
)
def test_options_that_contradict_are_usage_errors(node: Path, words: tuple[str, ...]) -> None:
    assert run("format", "-t", CLUSTER, "-c", str(node), *words)[0] == 2
    assert not (node.parent / "a").exists()


def test_a_quorum_must_be_named(node: Path) -> None:
    code, _, complaint = run("format", "-t", CLUSTER, "-c", str(node))
    assert code == 1
    assert "--standalone, --initial-controllers, or --no-initial-controllers" in complaint


def test_a_node_that_cannot_be_is_refused(node: Path) -> None:
    node.write_text(node.read_text() + "log.segment.bytes=1\n")
    code, _, complaint = run("format", "-t", CLUSTER, "-c", str(node), "-s")
    assert code == 1
    assert complaint == (
        "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576\n"
        f"{node}, line 7: log.segment.bytes=1\n"
    )


def test_settings_come_from_file_environment_and_overrides(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_text("a=file\nb=file\nc=file\n")
    environment = {"KAFKA_B": "variable", "KAFKA_C": "variable", "HOME": "/"}
    assert node_properties(str(file), ["c=override"], environment=environment) == {
        "a": "file",
        "b": "variable",
        "c": "override",
    }
    assert node_properties(str(file), []) == {"a": "file", "b": "file", "c": "file"}


def test_files_are_read_in_either_encoding(tmp_path: Path) -> None:
    file = tmp_path / "x.properties"
    file.write_bytes("log.dirs=/dätä".encode())
    assert read_properties(str(file)) == {"log.dirs": "/dätä"}
    file.write_bytes("log.dirs=/dätä".encode("latin-1"))
    assert read_properties(str(file)) == {"log.dirs": "/dätä"}


@pytest.fixture
def machine(node: Path) -> Path:
    """The file of a machine with three processes."""
    text = node.read_text().replace("CONTROLLER://127.0.0.1:0", "CONTROLLER://127.0.0.1:9093")
    node.write_text(f"{text}ottla.processes=3\n")
    return node


def formatted(machine: Path) -> dict[str, dict[str, str]]:
    """meta.properties of all directories, by their places below that of the file."""
    root = machine.parent
    files = sorted(root.rglob("meta.properties"))
    return {
        str(file.parent.relative_to(machine.parent)): read_properties(str(file)) for file in files
    }


def test_all_processes_of_a_machine_are_formatted_in_one_go(machine: Path) -> None:
    assert run("format", "-t", CLUSTER, "-c", str(machine), "-s")[0] == 0
    found = formatted(machine)
    assert {place: meta["node.id"] for place, meta in found.items()} == {
        "a": "7",
        "b": "7",
        "a/process.2": "1007",
        "b/process.2": "1007",
        "a/process.3": "2007",
        "b/process.3": "2007",
    }
    assert {meta["cluster.id"] for meta in found.values()} == {CLUSTER}
    assert len({meta["directory.id"] for meta in found.values()}) == 6
    # Only the first is a voter.
    snapshots = machine.parent.rglob("__cluster_metadata-0/*.checkpoint")
    assert [file.relative_to(machine.parent).parts[0:2] for file in snapshots] == [
        ("a", "__cluster_metadata-0")
    ]


def test_more_processes_are_formatted_for_the_same_cluster_only(machine: Path) -> None:
    three = machine.read_text()
    machine.write_text(three.replace("ottla.processes=3", "ottla.processes=1"))
    assert run("format", "-t", CLUSTER, "-c", str(machine), "-s")[0] == 0
    before = formatted(machine)
    assert len(before) == 2
    machine.write_text(three)
    words = ("-c", str(machine), "--no-initial-controllers")
    code, _, complaint = run("format", "-t", CLUSTER, *words)
    assert (code, "already formatted" in complaint) == (1, True)
    other = "4L6g3nShT-eMCtK--X86sw"
    code, _, complaint = run("format", "-t", other, *words, "--ignore-formatted")
    assert (code, f"is of the cluster {CLUSTER}, not of {other}" in complaint) == (1, True)
    assert formatted(machine) == before, "nothing was written"
    assert run("format", "-t", CLUSTER, *words, "--ignore-formatted")[0] == 0
    after = formatted(machine)
    assert len(after) == 6
    assert {place: after[place] for place in before} == before
