"""Commands that documents tell are commands that there are, with options that they take."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from ottla.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SPAN = re.compile(r"`(ottla [^`\n]+)`")
LINE = re.compile(r"^(?:.*[|(] ?)?(ottla [a-z][^|#\n]*)", re.MULTILINE)
BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        text = page.read_text("utf-8")
        blocks = BLOCK.findall(text)
        found = [line for block in blocks for line in LINE.findall(block)]
        found += SPAN.findall(BLOCK.sub("", text))
        for command in dict.fromkeys(found):
            yield page.name, command.strip()


def words(command: str) -> list[str]:
    return shlex.split(re.sub(r"\s{2,}.*", "", command).rstrip(");"))


def problems(command: str) -> list[str]:
    """What of it nobody knows: a command, or an option of one."""
    _, *rest = words(command)
    at: click.Command = cli
    context = click.Context(cli, info_name="ottla")
    options = {"--help", "--version"}
    found = []
    for word in rest:
        if word.startswith("--") or re.fullmatch(r"-[a-zA-Z]", word):
            name = word.partition("=")[0]
            found += [] if name in options else [f"no option {name}"]
        elif isinstance(at, click.Group):
            name = word.partition("|")[0]
            known = at.get_command(context, name)
            if known is None:
                return [f"no command {name}"] if re.fullmatch(r"[a-z-]+", name) else []
            at, context = known, click.Context(known, info_name=name, parent=context)
            for option in at.params:
                options |= {*option.opts, *option.secondary_opts}
    return found


ALL = list(commands())


def test_there_are_commands() -> None:
    assert len(ALL) > 80


@pytest.mark.parametrize(("page", "command"), ALL)
def test_a_command_is_known_with_its_options(page: str, command: str) -> None:
    assert problems(command) == []


def test_a_wrong_command_is_seen() -> None:
    assert problems("ottla topic list") == ["no command topic"]
    assert problems("ottla topics list --wrong") == ["no option --wrong"]
    assert problems("ottla offsets delete") == ["no command delete"]
