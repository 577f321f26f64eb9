"""``ottla tls init``: what it writes is what a listener and a client need."""

import stat
from pathlib import Path

from click.testing import CliRunner

from ottla.cli.files import read_properties
from ottla.cli.main import cli
from ottla.security.tls_contexts import ListenerContexts


def init(directory: Path, *words: str) -> str:
    result = CliRunner().invoke(cli, ["tls", "init", str(directory), *words], prog_name="ottla")
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_broker_and_a_client_can_be_started_with_what_it_writes(tmp_path: Path) -> None:
    shown = init(tmp_path, "--client", "alice", "--host", "broker.example")
    assert "broker.properties" in shown
    assert "alice.properties" in shown
    ListenerContexts(read_properties(str(tmp_path / "broker.properties"))).check_itself()
    client = read_properties(str(tmp_path / "alice.properties"))
    assert client["security.protocol"] == "SSL"
    assert ListenerContexts(client).has_keys


def test_a_client_without_a_name_only_trusts(tmp_path: Path) -> None:
    init(tmp_path)
    assert not ListenerContexts(read_properties(str(tmp_path / "client.properties"))).has_keys


def test_private_keys_are_nobody_elses_to_read(tmp_path: Path) -> None:
    init(tmp_path, "--client", "alice")
    for name in ("ca.key", "broker.pem", "alice.pem"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_the_authority_stays_when_the_rest_is_renewed(tmp_path: Path) -> None:
    init(tmp_path)
    names = ("ca.pem", "broker.pem")
    before = [(tmp_path / name).read_text() for name in names]
    init(tmp_path)
    after = [(tmp_path / name).read_text() for name in names]
    assert before[0] == after[0]
    assert before[1] != after[1]
