"""``ottla storage``: what Apache's kafka-storage does."""

from typing import Final

import click

from ottla.cli.files import parse_assignments, read_properties
from ottla.cli.output import Output, output_options

_QUORUM: Final = "--standalone, --initial-controllers, or --no-initial-controllers"


@click.group()
def storage() -> None:
    """Prepare the directories of a node, as kafka-storage does."""


@storage.command("random-uuid")
def random_uuid_command() -> None:
    """Print a cluster id that nobody has yet."""
    from ottla.common.chance import Chance
    from ottla.common.identifiers import random_uuid, uuid_text

    click.echo(uuid_text(random_uuid(Chance())))


@storage.command("format")
@click.option("-t", "--cluster-id", required=True, help="The id of the cluster.")
@click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The server.properties file of the node.",
)
@click.option("-s", "--standalone", is_flag=True, help="A quorum of this controller alone.")
@click.option(
    "-N", "--no-initial-controllers", is_flag=True, help="This node joins a quorum later."
)
@click.option(
    "-I",
    "--initial-controllers",
    default=None,
    metavar="LIST",
    help="The controllers of a new quorum, as id@host:port:directory-id, ...",
)
@click.option("-g", "--ignore-formatted", is_flag=True, help="Pass over what is formatted already.")
@click.option(
    "-f",
    "--feature",
    "features",
    multiple=True,
    metavar="NAME=LEVEL",
    help="The level of a feature; may be repeated.",
)
@click.option(
    "-r",
    "--release-version",
    default=None,
    metavar="VERSION",
    help="The release whose features are used.",
)
@click.option(
    "-S",
    "--add-scram",
    multiple=True,
    metavar="CREDENTIAL",
    help="A user to begin with, as SCRAM-SHA-256=[name=NAME,password=PASSWORD]; may be repeated.",
)
def format_command(
    *,
    cluster_id: str,
    path: str,
    standalone: bool,
    no_initial_controllers: bool,
    initial_controllers: str | None,
    ignore_formatted: bool,
    features: tuple[str, ...],
    release_version: str | None,
    add_scram: tuple[str, ...],
) -> None:
    """Format the directories of a node for a cluster.

    With ottla.processes=N in the file, those of all N processes: the first as the options say, the
    others as brokers of the same cluster.
    """
    from ottla.cli.node_config import configs_of_file
    from ottla.cli.system import system_chance, wall_ms
    from ottla.server.format import format_processes
    from ottla.storage.files import OsFilesystem

    if standalone + no_initial_controllers + (initial_controllers is not None) > 1:
        raise click.UsageError(f"only one of {_QUORUM} can be given")
    lines = format_processes(
        OsFilesystem(),
        configs_of_file(path),
        cluster_id,
        standalone=standalone,
        no_initial_controllers=no_initial_controllers,
        initial_controllers=initial_controllers,
        features=_levels(features),
        release_version=release_version,
        ignore_formatted=ignore_formatted,
        add_scram=add_scram,
        chance=system_chance(),
        now_ms=wall_ms(),
    )
    for line in lines:
        click.echo(line)


def _levels(features: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for name, level in parse_assignments(features, "--feature").items():
        if not level.isascii() or not level.isdecimal():
            raise click.UsageError(f"--feature takes a number as level, not {level!r}")
        levels[name] = int(level)
    return levels


@storage.command()
@click.option(
    "-c",
    "--config",
    "path",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    help="The server.properties file of the node.",
)
@output_options
def info(path: str, output: Output) -> None:
    """Show what the directories of a node say of themselves, of all its processes."""
    from ottla.cli.node_config import configs_of_file
    from ottla.storage.checkpoints import META_PROPERTIES
    from ottla.storage.files import OsFilesystem

    filesystem = OsFilesystem()
    found = []
    directories = [
        directory
        for config in configs_of_file(path)
        for directory in dict.fromkeys((*config.log_dirs, config.metadata_log_dir))
    ]
    for directory in directories:
        file = f"{directory}/{META_PROPERTIES}"
        if not filesystem.is_directory(directory):
            output.error("NO_DIRECTORY", "not found", directory=directory)
        elif not filesystem.exists(file):
            output.error("NOT_FORMATTED", "not formatted", directory=directory)
        else:
            found.append({"directory": directory, **read_properties(file)})
    _show(output, found)
    if output.failed:
        raise SystemExit(1)


def _show(output: Output, found: list[dict[str, str]]) -> None:
    from ottla.cli.output import Column

    columns = [
        Column("directory"),
        Column("cluster.id"),
        Column("node.id"),
        Column("directory.id"),
        Column("version", wide=True),
    ]
    output.rows("directories", columns, found)
