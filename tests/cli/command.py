"""``ottla`` in this process, against a broker."""

import json
from typing import Any

from click.testing import CliRunner

from ottla.cli.main import cli


class Command:
    """Runs commands against a cluster."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def __call__(self, *words: str, code: int = 0, stdin: str | bytes = "") -> tuple[str, str]:
        """What it says on standard output and on standard error."""
        result = CliRunner().invoke(
            cli, [*words, "-b", self.bootstrap], prog_name="ottla", input=stdin
        )
        assert result.exit_code == code, (result.output, result.exception)
        return result.stdout, result.stderr

    def out(self, *words: str, code: int = 0) -> str:
        return self(*words, code=code)[0]

    def document(self, *words: str, code: int = 0) -> dict[str, Any]:
        content = json.loads(self.out(*words, "--json", code=code))
        assert isinstance(content, dict)
        return content
