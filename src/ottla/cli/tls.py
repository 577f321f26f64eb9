"""``ottla tls``: an authority and certificates for development, as files and as settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.output import Column, Output, output_options

if TYPE_CHECKING:
    from ottla.security.certificates import Authority, Issued

_AUTHORITY: Final = "ca"
_FILES: Final = (Column("file"), Column("purpose"))
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@click.group()
def tls() -> None:
    """Make certificates for development. Production has an authority of its own."""


@tls.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="A name or address by which brokers are dialled, beside this machine's own; "
    "may be repeated.",
)
@click.option(
    "--client",
    "clients",
    multiple=True,
    metavar="NAME",
    help="Make a certificate for this client too, User:CN=NAME; may be repeated.",
)
@output_options
def init_command(
    directory: Path, *, hosts: tuple[str, ...], clients: tuple[str, ...], output: Output
) -> None:
    """Make an authority and a broker's certificate in DIRECTORY, and settings that use them.

    The same again keeps the authority, and renews what it has issued.
    """
    try:
        from ottla.security.certificates import Authority
    except ImportError as error:
        raise click.ClickException(
            "certificates are made by the cryptography package: pip install 'ottla[security]'"
        ) from error
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    directory.mkdir(parents=True, exist_ok=True)
    authority = _kept(directory) or Authority.create("ottla development", now)
    _write_private(directory / f"{_AUTHORITY}.key", authority.issued().key)
    (directory / f"{_AUTHORITY}.pem").write_text(authority.certificate)
    _write(directory, "broker", authority.issue("broker", [*_LOOPBACK, *hosts], now))
    for name in clients:
        _write(directory, name, authority.issue(name, [], now))
    shown = directory.resolve()
    (directory / "broker.properties").write_text(_settings(shown, "broker"))
    for name in clients or ("",):
        path = directory / f"{name or 'client'}.properties"
        path.write_text("security.protocol=SSL\n" + _settings(shown, name))
    made = [("ca.pem", "what clients and brokers are to trust")]
    made.append(("broker.properties", "settings for server.properties"))
    made += [
        (f"{name or 'client'}.properties", "settings for a client") for name in clients or ("",)
    ]
    output.rows(
        "files",
        _FILES,
        [{"file": str(directory / name), "purpose": purpose} for name, purpose in made],
    )


def _kept(directory: Path) -> "Authority | None":
    from ottla.security.certificates import Authority, Issued

    key, certificate = directory / f"{_AUTHORITY}.key", directory / f"{_AUTHORITY}.pem"
    if not key.exists() or not certificate.exists():
        return None
    return Authority.load(Issued(key.read_text(), certificate.read_text()))


def _write(directory: Path, name: str, issued: "Issued") -> None:
    """One file with key and certificate, as ``ssl.keystore.location`` wants it."""
    _write_private(directory / f"{name}.pem", issued.key + issued.certificate)


def _write_private(path: Path, text: str) -> None:
    """Nobody else may read it, from the first moment on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)


def _settings(directory: Path, name: str) -> str:
    lines = ["ssl.truststore.type=PEM", f"ssl.truststore.location={directory}/{_AUTHORITY}.pem"]
    if name:
        lines += ["ssl.keystore.type=PEM", f"ssl.keystore.location={directory}/{name}.pem"]
    return "".join(f"{line}\n" for line in lines)
