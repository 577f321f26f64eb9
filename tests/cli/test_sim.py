"""``ottla sim``: what it prints, its exit codes, and that a seed always gives the same run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tools.installed import IMPORT_PATH

from ottla.cli.main import cli

SOURCES = Path(__file__).parents[2] / "src"
SHORT = ["--time", "5", "--scenario", "kills"]


def run(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["sim", *arguments], prog_name="ottla")
    return result.exit_code, result.stdout, result.stderr


def test_a_seed_is_one_row() -> None:
    code, out, err = run("--seed", "3", *SHORT)
    assert code == 0, out + err
    title, row = out.splitlines()
    assert title.split()[:2] == ["SEED", "RESULT"]
    assert row.split()[:2] == ["3", "ok"]


def test_json_is_one_document() -> None:
    code, out, _ = run("--seed", "3", *SHORT, "--format", "json")
    assert code == 0
    (report,) = json.loads(out)["runs"]
    assert report["seed"] == 3
    assert report["result"] == "ok"
    assert report["progress"] > 0
    assert len(report["trace"]) == 64


def test_replay_tells_everything() -> None:
    code, out, _ = run("--replay", "3", *SHORT)
    assert code == 0
    lines = out.splitlines()
    assert any("node 1 starts" in line for line in lines)
    assert any(" node-1:" in line for line in lines), "deliveries"
    assert lines[-1].startswith("ok, trace ")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--seed", "1", "--replay", "1"],
        ["--seeds", "5-1"],
        ["--seeds", "x"],
        ["--seed", "1", "--scenario", "unheard-of"],
    ],
)
def test_what_makes_no_sense_is_refused_with_2(arguments: list[str]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Error" in err


def test_a_range_runs_in_processes_and_ends_with_a_sum() -> None:
    code, _, err = run("--seeds", "1-3", "--jobs", "2", *SHORT)
    assert code == 0, err
    assert "3 of 3 seeds" in err


def test_the_same_seed_gives_the_same_trace_whatever_the_hash_seed_compiled_or_not() -> None:
    command = [sys.executable, "-m", "ottla", "sim", "--seed", "11", "--time", "20"]
    traces = [
        json.loads(
            subprocess.run(
                [*command, "--format", "json"],
                env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path},
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )["runs"][0]["trace"]
        for hash_seed, path in (("1", IMPORT_PATH), ("2", str(SOURCES)))
    ]
    assert traces[0] == traces[1]


def test_a_run_imports_nothing_that_its_process_did_not_have_when_it_was_forked() -> None:
    program = (
        "import sys; from ottla.simulation.seeds import load_all, run_seed; load_all(); "
        "before = set(sys.modules); assert run_seed(1).is_ok; "
        "print(sorted(name for name in set(sys.modules) - before if name.startswith('ottla')))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": IMPORT_PATH},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ran.stdout.strip() == "[]"
