"""``ottla quorum``: the controllers, as kafka-metadata-quorum shows and changes them."""

from typing import TYPE_CHECKING, Final

import click

from ottla.cli.output import Column, Output, output_options
from ottla.cli.settings import ClientSettings, connection_options, controller_option

if TYPE_CHECKING:
    from ottla.client.quorum import QuorumDescription, QuorumEndpoint, QuorumReplica

_STATUS: Final = (
    Column("node_id"),
    Column("directory_id"),
    Column("endpoints"),
    Column("status"),
    Column("lag"),
    Column("lag_ms", wide=True),
)
_REPLICATION: Final = (
    Column("node_id"),
    Column("directory_id"),
    Column("log_end_offset"),
    Column("lag"),
    Column("last_fetch_timestamp"),
    Column("last_caught_up_timestamp"),
    Column("status"),
)


@click.group()
def quorum() -> None:
    """Show the quorum of the controllers; add and remove voters."""


@quorum.command()
@click.option("--replication", is_flag=True, help="How far each copy of the metadata log is.")
@controller_option
@output_options
@connection_options
def describe(*, replication: bool, output: Output, client: ClientSettings) -> None:
    """Show who leads, who votes, who follows, and how far each is."""
    from ottla.cli.clients import open_admin
    from ottla.client.quorum import describe_quorum

    with open_admin(client) as admin:
        described = describe_quorum(admin.cluster)
        cluster_id = admin.cluster.metadata.cluster_id
    rows = _rows(described)
    if replication:
        output.rows("replicas", _REPLICATION, rows)
        return
    followers = [each for each in described.voters if each.node_id != described.leader_id]
    summary = {
        "cluster_id": cluster_id,
        "leader_id": described.leader_id,
        "leader_epoch": described.leader_epoch,
        "high_watermark": described.high_watermark,
        "max_follower_lag": max((described.lag(each) for each in followers), default=0),
        "max_follower_lag_ms": max((described.lag_ms(each) for each in followers), default=0),
    }
    if output.is_document:
        output.document({**summary, "replicas": rows})
        return
    if output.form != "tsv":
        for name, value in summary.items():
            output.line(f"{name.replace('_', '-') + ':':22}{value}")
        output.line("")
    output.rows("replicas", _STATUS, rows)


def _rows(described: "QuorumDescription") -> list[dict[str, object]]:
    def row(replica: "QuorumReplica", status: str) -> dict[str, object]:
        from ottla.common.identifiers import uuid_text

        return {
            "node_id": replica.node_id,
            "directory_id": uuid_text(replica.directory_id),
            "endpoints": [str(each) for each in described.endpoints.get(replica.node_id, [])],
            "log_end_offset": replica.log_end_offset,
            "lag": described.lag(replica),
            "lag_ms": described.lag_ms(replica),
            "last_fetch_timestamp": replica.last_fetch_ms,
            "last_caught_up_timestamp": replica.last_caught_up_ms,
            "status": status,
        }

    voters = sorted(described.voters, key=lambda each: (each != described.leader, each.node_id))
    rows = [row(each, "leader" if each == described.leader else "follower") for each in voters]
    return rows + [row(each, "observer") for each in sorted(described.observers)]


@quorum.command()
@click.option(
    "-c",
    "--config",
    "path",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    help="The server.properties file of the new controller, on its machine.",
)
@click.option("-i", "--node-id", type=click.IntRange(0), default=None, help="Without --config.")
@click.option("-d", "--directory-id", default=None, help="Without --config.")
@click.option(
    "-e",
    "--endpoint",
    "endpoints",
    multiple=True,
    metavar="NAME://HOST:PORT",
    help="Where it listens for controllers, without --config; may be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be asked for, and change nothing.")
@controller_option
@output_options
@connection_options
def add(
    *,
    path: str | None,
    node_id: int | None,
    directory_id: str | None,
    endpoints: tuple[str, ...],
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Make a controller that has been formatted and started a voter.

    Its id, its directory and its endpoints come from its own server.properties and its formatted
    directory, or from the options.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.quorum import add_voter
    from ottla.common.identifiers import uuid_text

    if path is not None:
        if node_id is not None or directory_id is not None or endpoints:
            raise click.UsageError("--config says it all; leave out the other options")
        voter, directory, named = _of_config(path)
    elif node_id is None or directory_id is None or not endpoints:
        raise click.UsageError("give --config, or --node-id, --directory-id and --endpoint")
    else:
        voter, directory = node_id, _directory_id(directory_id)
        named = [_endpoint(text) for text in endpoints]
    if not dry_run:
        with open_admin(client) as admin:
            add_voter(admin.cluster, voter, directory, named)
    row = {
        "node_id": voter,
        "directory_id": uuid_text(directory),
        "endpoints": [str(each) for each in named],
        "dry_run": dry_run,
    }
    output.rows("added", _STATUS[:3], [row])


@quorum.command()
@click.argument("node_id", type=click.IntRange(0))
@click.option(
    "-d",
    "--directory-id",
    default=None,
    help="Of the voter. [default: asked of the cluster]",
)
@click.option("--dry-run", is_flag=True, help="Say who would be removed, and change nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@controller_option
@output_options
@connection_options
def remove(
    *,
    node_id: int,
    directory_id: str | None,
    dry_run: bool,
    yes: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Take the vote of a controller; it follows as an observer if it still runs."""
    from ottla.cli.clients import open_admin
    from ottla.cli.consent import confirm
    from ottla.client.quorum import describe_quorum, remove_voter
    from ottla.common.identifiers import uuid_text

    confirm(f"Remove voter {node_id} from the quorum?", yes=yes or dry_run)
    with open_admin(client) as admin:
        if directory_id is not None:
            directory = _directory_id(directory_id)
        else:
            directory = _directory_of(describe_quorum(admin.cluster), node_id)
        if not dry_run:
            remove_voter(admin.cluster, node_id, directory)
    row = {"node_id": node_id, "directory_id": uuid_text(directory), "dry_run": dry_run}
    output.rows("removed", _STATUS[:2], [row])


def _directory_of(described: "QuorumDescription", node_id: int) -> bytes:
    from ottla.common.errors import VoterNotFound

    found = [each.directory_id for each in described.voters if each.node_id == node_id]
    if not found:
        known = ", ".join(str(each.node_id) for each in described.voters)
        raise VoterNotFound(f"there is no voter {node_id}, only {known}")
    if len(found) > 1:
        raise click.UsageError(f"voter {node_id} has several directories: give --directory-id")
    return found[0]


def _directory_id(text: str) -> bytes:
    from ottla.common.identifiers import uuid_from_text

    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise click.UsageError(f"--directory-id: {error}") from None


def _endpoint(text: str) -> "QuorumEndpoint":
    from ottla.client.cluster import parse_addresses
    from ottla.client.quorum import QuorumEndpoint

    name, separator, address = text.partition("://")
    try:
        if not separator or not name:
            raise ValueError(f"not NAME://HOST:PORT: {text!r}")
        return QuorumEndpoint(name.upper(), parse_addresses(address)[0])
    except ValueError as error:
        raise click.UsageError(f"--endpoint: {error}") from None


def _of_config(path: str) -> tuple[int, bytes, list["QuorumEndpoint"]]:
    """Who the new controller is, by its file and by the directory that it was formatted with."""
    from ottla.cli.node_config import config_of_file
    from ottla.client.connection import Address
    from ottla.client.quorum import QuorumEndpoint
    from ottla.inspection.read_only import FILES
    from ottla.server.format import this_voter
    from ottla.storage.checkpoints import META_PROPERTIES, MetaProperties

    config = config_of_file(path)
    if not config.is_controller:
        raise click.UsageError(f"{path}: process.roles has no controller")
    meta = MetaProperties.decode(FILES.read(f"{config.metadata_log_dir}/{META_PROPERTIES}"))
    if meta.node_id != config.node_id:
        raise click.UsageError(
            f"{path} is of node {config.node_id}, {config.metadata_log_dir} of {meta.node_id}"
        )
    if meta.directory_id is None:
        raise click.UsageError(f"{config.metadata_log_dir} has no directory.id: format it anew")
    voter = this_voter(config, meta.directory_id)
    endpoints = [
        QuorumEndpoint(each.name, Address(each.host, each.port)) for each in voter.endpoints
    ]
    return config.node_id, meta.directory_id, endpoints
