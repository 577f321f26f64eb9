"""``ottla dev``: a broker for this moment, with nothing to configure."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.files import parse_assignments

if TYPE_CHECKING:
    from ottla.server.main import Running

DEFAULT_PORT: Final = 9092
NAMED: Final = Path(".ottla")
"""Where data with a name goes, below the current directory."""


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port to serve on.",
)
@click.option(
    "-n",
    "--nodes",
    type=click.IntRange(1, 9),
    default=1,
    show_default=True,
    help="So many brokers, each a process, on every second port.",
)
@click.option("--any-port", is_flag=True, help="Any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to serve on.")
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    default=None,
    help="Keep data in this directory. [default: a temporary one]",
)
@click.option("--name", default=None, help="Keep data in .ottla/NAME.")
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting of the broker; may be repeated.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show what the broker logs.")
@click.pass_context
def dev(
    ctx: click.Context,
    *,
    port: int,
    nodes: int,
    any_port: bool,
    host: str,
    data: str | None,
    name: str | None,
    overrides: tuple[str, ...],
    verbose: bool,
) -> None:
    """Start a broker at once and serve until Ctrl-C.

    Topics are created when they are used. Without --data or --name everything is gone afterwards.
    """
    from ottla.cli.server import checked_config
    from ottla.observability.logging import configure_logging
    from ottla.server.defaults import development_properties
    from ottla.server.main import run_server
    from ottla.server.prepare import prepare_storage

    if data is not None and name is not None:
        raise click.UsageError("--data and --name exclude each other")
    configure_logging("INFO" if verbose else "WARN")
    directory, temporary = _directory(data, name)
    if nodes == 1:
        _check_single(directory)
    else:
        from ottla.cli.dev_cluster import DevCluster

        wanted = parse_assignments(overrides, "--override")
        cluster = DevCluster(directory, nodes, host, None if any_port else port, wanted, verbose)
        try:
            ctx.exit(cluster.run(lambda servers: banner(servers, directory, temporary=temporary)))
        finally:
            if temporary:
                shutil.rmtree(directory, ignore_errors=True)
    properties = development_properties(directory, port=0 if any_port else port, host=host)
    written = parse_assignments(overrides, "--override")
    properties.update(written)
    try:
        config = checked_config(properties, written)
        prepare_storage(config)

        def ready(running: "Running") -> None:
            address = shown_address(host, running.node.port)
            click.echo(banner(address, directory, temporary=temporary))

        ctx.exit(run_server(config, ready=ready))
    finally:
        if temporary:
            shutil.rmtree(directory, ignore_errors=True)


def _directory(data: str | None, name: str | None) -> tuple[str, bool]:
    """Where the data goes, and whether it goes away with the broker."""
    if data is None and name is None:
        return tempfile.mkdtemp(prefix="ottla-dev-"), True
    directory = Path(data) if data is not None else NAMED / str(name)
    directory.mkdir(parents=True, exist_ok=True)
    return str(directory.resolve()), False


def _check_single(directory: str) -> None:
    """Data of several nodes is of no use to a single one."""
    there = len(list(Path(directory).glob("node-*/data/meta.properties")))
    if there:
        raise click.UsageError(f"{directory} is of {there} nodes: use -n {there}")


def shown_address(host: str, port: int) -> str:
    """As a client writes it."""
    shown = "127.0.0.1" if host in {"", "0.0.0.0"} else host  # noqa: S104
    return f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"


def banner(address: str, directory: str, *, temporary: bool) -> str:
    """Where it is, and lines to copy."""
    kept = "temporary" if temporary else "kept"
    return f"""\
ottla is ready   bootstrap.servers={address}   data {directory} ({kept})   Ctrl-C stops

  produce    echo hello | ottla produce events -b {address}
  consume    ottla consume events -b {address} --from-beginning
  kcat       kcat -b {address} -t events -C
  python     Producer({{"bootstrap.servers": "{address}"}}).produce("events", b"hello")
  spark      spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{address}")
"""
