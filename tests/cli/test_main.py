"""The command line as a whole: help, exit codes, forms of output, and how fast it starts."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner
from tools.installed import IMPORT_PATH

import ottla
from ottla.cli.main import COMMANDS, LazyGroup, cli
from ottla.cli.output import Column, Output, output_options, time_text, yaml_lines
from ottla.common.errors import UnknownTopicOrPartition


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, list(words), prog_name="ottla")
    return result.exit_code, result.stdout, result.stderr


def test_ottla_alone_prints_help() -> None:
    code, text, _ = run()
    assert code == 0
    for name in COMMANDS:
        assert f"  {name} " in text


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    code, text, _ = run(name, "--help")
    assert code == 0
    assert f"Usage: ottla {name}" in text


def test_a_wrong_command_is_a_usage_error() -> None:
    code, _, complaint = run("frobnicate")
    assert code == 2
    assert "No such command 'frobnicate'" in complaint


@pytest.mark.parametrize(
    ("words", "meant"), [(["topcs", "list"], "topics"), (["topics", "lst"], "list")]
)
def test_a_misspelt_command_gets_a_did_you_mean(words: list[str], meant: str) -> None:
    code, _, complaint = run(*words)
    assert code == 2
    assert complaint.count(f"Did you mean '{meant}'?") == 1
    assert "mean" not in run("qqqqq")[2]


def test_version_says_what_it_is() -> None:
    code, text, _ = run("version")
    assert code == 0
    assert text.startswith(f"ottla {ottla.__version__} (speaks Apache Kafka 4.3.1)")
    code, text, _ = run("version", "--json")
    assert set(json.loads(text)) == {"version", "kafka", "python", "compiled", "uvloop"}
    assert run("--version")[1] == f"ottla {ottla.__version__}\n"


def test_version_loads_nothing_that_it_does_not_need() -> None:
    script = (
        "import sys\n"
        f"sys.path.insert(0, {IMPORT_PATH!r})\n"
        "from click.testing import CliRunner\n"
        "from ottla.cli.main import cli\n"
        "assert CliRunner().invoke(cli, ['version']).exit_code == 0\n"
        "print([n for n in sys.modules if n.startswith('ottla.') and '.cli' not in n])\n"
        "print([n for n in ('asyncio', 'logging', 'socket', 'ssl') if n in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "[]"]


@click.group(cls=LazyGroup)
def refusing() -> None:
    """A group whose one command fails as it is told."""


def refusal(error: Exception, form: str) -> tuple[int, str, str]:
    @click.command()
    @output_options
    def fail(output: Output) -> None:
        raise error

    group = LazyGroup("ottla", invoke_without_command=True)
    group.get_command = lambda ctx, cmd_name: fail  # type: ignore[method-assign]
    result = CliRunner().invoke(group, ["fail", "--format", form])
    return result.exit_code, result.stdout, result.stderr


def test_what_the_cluster_refuses_ends_with_1() -> None:
    error = UnknownTopicOrPartition("no such topic")
    assert refusal(error, "table") == (1, "", "no such topic\n")
    code, text, complaint = refusal(error, "json")
    assert (code, complaint) == (1, "")
    assert json.loads(text) == {
        "errors": [{"error": "UNKNOWN_TOPIC_OR_PARTITION", "message": "no such topic"}]
    }


def test_what_the_system_refuses_ends_with_1() -> None:
    assert refusal(ConnectionRefusedError("nobody there"), "table") == (1, "", "nobody there\n")


def shown(form: str) -> str:
    @click.command()
    @output_options
    def show(output: Output) -> None:
        rows = [
            {"name": "a", "partitions": 3, "internal": False, "note": None, "ids": [1, 2]},
            {"name": "long\tname", "partitions": 12, "internal": True, "note": "x: y", "ids": []},
        ]
        columns = [Column("name"), Column("partitions"), Column("internal"), Column("note")]
        output.rows("topics", [*columns, Column("ids", wide=True)], rows)

    result = CliRunner().invoke(show, ["--format", form])
    assert result.exit_code == 0
    return result.stdout


def test_a_table_is_aligned_and_leaves_wide_columns_out() -> None:
    assert shown("table").splitlines() == [
        "NAME       PARTITIONS  INTERNAL  NOTE",
        "a                   3  false     -",
        "long\tname          12  true      x: y",
    ]
    assert shown("wide").splitlines()[0].endswith("IDS")


def test_tsv_has_one_line_for_each_row() -> None:
    assert shown("tsv").splitlines() == [
        "name\tpartitions\tinternal\tnote\tids",
        "a\t3\tfalse\t-\t1,2",
        "long\\tname\t12\ttrue\tx: y\t",
    ]


def test_json_is_one_document_with_everything() -> None:
    assert json.loads(shown("json"))["topics"][1]["note"] == "x: y"


def test_yaml_is_one_document_with_everything() -> None:
    assert shown("yaml").splitlines() == [
        "topics:",
        "  - name: a",
        "    partitions: 3",
        "    internal: false",
        "    note: null",
        "    ids:",
        "      - 1",
        "      - 2",
        '  - name: "long\\tname"',
        "    partitions: 12",
        "    internal: true",
        '    note: "x: y"',
        "    ids: []",
    ]
    assert yaml_lines({"a": {}, "b": [[1]], "c": "yes", "d": "1"}) == [
        "a: {}",
        "b:",
        "  - - 1",
        'c: "yes"',
        'd: "1"',
    ]


def test_times_are_for_people_in_tables_and_numbers_elsewhere() -> None:
    row = {"last_timestamp": 1_700_000_000_123, "max-timestamp": 7, "start_ms": -1}
    columns = [Column("last_timestamp"), Column("max-timestamp"), Column("start_ms")]

    def shown_as(form: str) -> str:
        @click.command()
        def show() -> None:
            Output(form).rows("rows", columns, [row])

        return CliRunner().invoke(show).stdout

    for form in ("table", "wide"):
        assert shown_as(form).splitlines()[1].split() == ["2023-11-14T22:13:20.123Z", "7", "-"]
    assert shown_as("tsv").splitlines()[1] == "1700000000123\t7\t-1"
    assert json.loads(shown_as("json"))["rows"] == [row]
    assert time_text(1 << 62) == str(1 << 62)


def test_that_there_is_nothing_is_said_once() -> None:
    def said(noun: str, form: str = "table", **more: str) -> tuple[str, str]:
        @click.command()
        def show() -> None:
            Output(form).rows(noun, [Column("name")], [], **more)

        result = CliRunner().invoke(show)
        return result.stdout, result.stderr

    assert said("topics") == ("", "there are no topics\n")
    assert said("deleted") == ("", "nothing was deleted\n")
    assert said("hanging", none="no transaction hangs") == ("", "no transaction hangs\n")
    assert said("topics", "tsv") == ("name\n", "there are no topics\n")
    assert said("topics", "json") == ('{\n  "topics": []\n}\n', "")


def test_colours_are_for_terminals_only() -> None:
    assert "\x1b" not in shown("table")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_of_the_shell(shell: str) -> None:
    code, text, _ = run("completion", shell)
    assert code == 0
    assert "_OTTLA_COMPLETE" in text
    assert f"{shell}_complete" in text


def test_a_shell_is_told_the_commands() -> None:
    result = CliRunner().invoke(
        cli,
        [],
        prog_name="ottla",
        env={"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": "ottla ver", "COMP_CWORD": "1"},
    )
    assert result.stdout == "plain,version\n"
