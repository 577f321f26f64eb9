"""``ottla dev``: a broker for this moment, with nothing to configure."""

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.files import parse_assignments
from ottla.cli.loading import loading
from ottla.config.keys.processes import PROCESSES_MAX

if TYPE_CHECKING:
    from ottla.server.local_cluster import NodePlace
    from ottla.server.main import Running

DEFAULT_PORT: Final = 9092
COUNT: Final = "ottla.processes"
NAMED: Final = Path(".ottla")
"""Where data with a name goes, below the current directory."""
_NAME: Final = re.compile(r"[\w-][\w.-]*")


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
@click.option(
    "-p",
    "--processes",
    type=click.IntRange(1, PROCESSES_MAX),
    default=1,
    show_default=True,
    help="So many processes of one machine, as ottla.processes; a process that ends starts again.",
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
    processes: int,
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
    from ottla.observability.logging import configure_logging

    if data is not None and name is not None:
        raise click.UsageError("--data and --name exclude each other")
    if name is not None and _NAME.fullmatch(name) is None:
        raise click.UsageError(f"--name takes letters, digits, . _ and -, not {name}; see --data")
    configure_logging("INFO" if verbose else "WARN")
    if nodes > 1 and processes > 1:
        raise click.UsageError("-n and -p exclude each other")
    written = parse_assignments(overrides, "--override")
    if COUNT in written:
        raise click.UsageError(f"{COUNT} is -p here")
    directory, temporary = _directory(data, name)
    wanted = None if any_port or port == 0 else port
    try:
        if processes > 1:
            from ottla.cli.dev_processes import run_dev_processes

            _check_no_nodes(directory)
            level = "INFO" if verbose else "WARN"
            code = run_dev_processes(
                directory,
                processes,
                host,
                wanted,
                written,
                level,
                lambda servers, http: banner(servers, directory, temporary=temporary, http=http),
            )
        elif nodes == 1:
            code = _single(directory, host, wanted, written, temporary=temporary)
        else:
            code = _several(directory, nodes, host, wanted, written, verbose, temporary=temporary)
    finally:
        if temporary:
            shutil.rmtree(directory, ignore_errors=True)
    ctx.exit(code)


def _single(
    directory: str, host: str, port: int | None, written: dict[str, str], *, temporary: bool
) -> int:
    with loading():
        from ottla.cli.node_config import checked_config
        from ottla.server.defaults import development_properties
        from ottla.server.local_cluster import NodePlace
        from ottla.server.main import run_server
        from ottla.server.prepare import prepare_storage

    _check_no_nodes(directory)
    _check_single(directory)
    if "listeners" not in written:
        _check_ports([NodePlace(1, Path(directory), port=port)], host)
    properties = development_properties(directory, port=port or 0, host=host)
    properties["ottla.http.listeners"] = f"HTTP://{bracketed(host)}:0"
    config = checked_config({**properties, **written}, written)
    prepare_storage(config)

    def ready(running: "Running") -> None:
        address = shown_address(host, running.node.port)
        http = running.node.ports.get("HTTP")
        shown = None if http is None else shown_address(host, http)
        click.echo(banner(address, directory, temporary=temporary, http=shown))

    return run_server(config, ready=ready)


def _several(
    directory: str,
    nodes: int,
    host: str,
    port: int | None,
    written: dict[str, str],
    verbose: bool,
    *,
    temporary: bool,
) -> int:
    from ottla.cli.dev_cluster import DevCluster
    from ottla.server.local_nodes import UnsuitablePlaces, check_free, local_places

    try:
        places = local_places(Path(directory), nodes, port)
    except UnsuitablePlaces as error:
        raise click.UsageError(str(error)) from error
    cluster = DevCluster(places, host, written, verbose)
    try:
        check_free(places)
        _check_ports(places, host)
        return cluster.run(lambda servers: banner(servers, directory, temporary=temporary))
    except UnsuitablePlaces as error:
        raise click.ClickException(str(error)) from error


def _check_ports(places: list["NodePlace"], host: str) -> None:
    from ottla.server.local_nodes import busy_ports

    busy = busy_ports(places, host)
    if busy:
        raise click.ClickException(
            f"port {busy[0]} of {host} is in use: is another broker running? "
            "Stop it, or use --port or --any-port"
        )


def _directory(data: str | None, name: str | None) -> tuple[str, bool]:
    """Where the data goes, and whether it goes away with the broker."""
    if data is None and name is None:
        return tempfile.mkdtemp(prefix="ottla-dev-"), True
    directory = Path(data) if data is not None else NAMED / str(name)
    directory.mkdir(parents=True, exist_ok=True)
    return str(directory.resolve()), False


def _check_no_nodes(directory: str) -> None:
    """Data of several nodes is of no use to a single machine."""
    there = len(list(Path(directory).glob("node-*/data/meta.properties")))
    if there:
        raise click.UsageError(f"{directory} is of {there} nodes: use -n {there}")


def _check_single(directory: str) -> None:
    """Nor is that of several processes to one."""
    there = len(list(Path(directory).glob("process.*/meta.properties")))
    if there:
        raise click.UsageError(f"{directory} is of {there + 1} processes: use -p {there + 1}")


def bracketed(host: str) -> str:
    """As it stands in an address with a port."""
    return f"[{host}]" if ":" in host else host


def shown_address(host: str, port: int) -> str:
    """As a client writes it."""
    shown = "127.0.0.1" if host in {"", "0.0.0.0"} else host  # noqa: S104
    return f"{bracketed(shown)}:{port}"


def banner(address: str, directory: str, *, temporary: bool, http: str | None = None) -> str:
    """Where it is, and lines to copy; ``http`` is where it shows how it is."""
    kept = "temporary" if temporary else "kept"
    status = f"  metrics    curl http://{http}/metrics   (/healthz, /readyz)\n" if http else ""
    return f"""\
ottla is ready   bootstrap.servers={address}   data {directory} ({kept})   Ctrl-C stops

  produce    echo hello | ottla produce events -b {address}
  consume    ottla consume events -b {address} --from-beginning
  kcat       kcat -b {address} -t events -C
  python     p = Producer({{"bootstrap.servers": "{address}"}}); p.produce("events", b"hello"); p.flush()
  spark      spark.readStream.format("ottla").option("kafka.bootstrap.servers", "{address}").option("subscribe", "events").load()
{status}"""  # noqa: E501 - lines to copy
