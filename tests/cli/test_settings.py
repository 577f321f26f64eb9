"""Which of the places that say how to reach a cluster wins."""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ottla.cli.settings import ClientSettings, connection_options, resolve_settings

FILE = {
    "bootstrap.servers": "file",
    "client.id": "file",
    "acks": "1",
    "profile.test.bootstrap.servers": "profile",
    "profile.test.acks": "all",
}


def resolved(
    *,
    flag: str | None = None,
    extras: dict[str, str] | None = None,
    environment: dict[str, str] | None = None,
    profile: str | None = None,
) -> dict[str, str]:
    return resolve_settings(
        flags={"bootstrap.servers": flag},
        extras=extras or {},
        environment=environment or {},
        file=FILE,
        profile=profile,
    )


def test_each_place_goes_before_the_next() -> None:
    variables = {"OTTLA_BOOTSTRAP_SERVERS": "variable", "PATH": "/bin"}
    extras = {"bootstrap.servers": "extra"}
    name = "bootstrap.servers"
    assert resolve_settings(flags={}, extras={}, environment={}, file={}, profile=None)[name] == (
        "localhost:9092"
    )
    assert resolved()[name] == "file"
    assert resolved(profile="test")[name] == "profile"
    assert resolved(profile="test", environment=variables)[name] == "variable"
    assert resolved(profile="test", environment=variables, extras=extras)[name] == "extra"
    assert resolved(environment=variables, extras=extras, flag="flag")[name] == "flag"


def test_variables_of_kafkas_clients_are_taken_and_those_of_brokers_are_not() -> None:
    variables = {
        "KAFKA_BOOTSTRAP_SERVERS": "kafka",
        "KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
        "KAFKA_SASL_JAAS_CONFIG": "entry",
        "KAFKA_COMPRESSION_TYPE": "zstd",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
    }
    assert resolved(environment=variables) == {
        "bootstrap.servers": "kafka",
        "client.id": "file",
        "acks": "1",
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "entry",
    }
    both = {**variables, "OTTLA_BOOTSTRAP_SERVERS": "ottla"}
    assert resolved(environment=both)["bootstrap.servers"] == "ottla"


def test_other_settings_of_the_file_hold_too() -> None:
    assert resolved(profile="test") == {
        "bootstrap.servers": "profile",
        "client.id": "file",
        "acks": "all",
    }
    assert resolved()["acks"] == "1"


def test_a_profile_that_is_not_there_is_refused() -> None:
    with pytest.raises(click.UsageError, match=r"with profile\.other\.; there are test"):
        resolved(profile="other")
    with pytest.raises(click.UsageError, match=r"profile\.tes\.; there are test"):
        resolved(profile="tes")
    with pytest.raises(click.UsageError, match=r"there are none"):
        resolve_settings(flags={}, extras={}, environment={}, file={"acks": "1"}, profile="p")


def invoke(*words: str, environment: dict[str, str] | None = None) -> Result:
    @click.command()
    @connection_options
    def show(client: ClientSettings) -> None:
        """Show it."""
        click.echo(f"{client.bootstrap_servers} {client.client_id} {client.timeout}")

    return CliRunner().invoke(show, list(words), env=environment)


def test_a_command_gets_what_its_options_say(tmp_path: Path) -> None:
    file = tmp_path / "ottla.properties"
    file.write_text("bootstrap.servers=file:1\nprofile.p.client.id=me\n")
    variables = {"OTTLA_CONFIG": str(file), "HOME": str(tmp_path), "OTTLA_PROFILE": "p"}
    assert invoke(environment=variables).stdout == "file:1 me 10.0\n"
    assert invoke("-b", "h:1", "--timeout", "2", environment=variables).stdout == "h:1 me 2.0\n"
    assert invoke("-X", "client.id=x", environment=variables).stdout == "file:1 x 10.0\n"


@pytest.mark.parametrize("words", [("-X", "x"), ("-X", "=1"), ("--timeout", "0")])
def test_nonsense_is_a_usage_error(words: tuple[str, ...]) -> None:
    assert invoke(*words).exit_code == 2
