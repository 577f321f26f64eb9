"""``ottla cluster``: the brokers, the features, and whether all is well."""

from typing import TYPE_CHECKING, Final

import click

from ottla.cli.output import Column, Output, output_options
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.connection import Address
    from ottla.client.quorum import QuorumDescription

_BROKERS: Final = (
    Column("node_id"),
    Column("host"),
    Column("port"),
    Column("rack"),
    Column("fenced"),
    Column("roles"),
)
_PROBLEMS: Final = (Column("kind"), Column("subject"), Column("message"))


@click.group()
def cluster() -> None:
    """Show the cluster and whether it is well; forget brokers that are gone."""


@cluster.command()
@output_options
@connection_options
def describe(*, output: Output, client: ClientSettings) -> None:
    """Show brokers with their racks, controllers, and the features that are switched on."""
    from ottla.cli.clients import open_admin
    from ottla.client.features import describe_features
    from ottla.client.quorum import describe_quorum

    with open_admin(client) as admin:
        described = admin.describe_cluster(fenced=True)
        quorum = describe_quorum(admin.cluster)
        features = describe_features(admin.cluster)
    brokers: list[dict[str, object]] = [
        {
            "node_id": broker.node_id,
            "host": broker.address.host,
            "port": broker.address.port,
            "rack": broker.rack,
            "fenced": broker.fenced,
            "roles": ["broker", *_controller_role(quorum, broker.node_id)],
        }
        for broker in described.brokers
    ]
    known = {broker.node_id for broker in described.brokers}
    brokers += [_controller(quorum, node_id) for node_id in _controllers(quorum, known)]
    levels = {each.name: each.level for each in features if each.level is not None}
    if output.is_document:
        output.document(
            {
                "cluster_id": described.cluster_id,
                "controller_id": quorum.leader_id,
                "nodes": brokers,
                "features": levels,
            }
        )
        return
    if output.form != "tsv":
        output.line(f"cluster-id:   {described.cluster_id}")
        output.line(f"controller:   {quorum.leader_id}, epoch {quorum.leader_epoch}")
        output.line(f"features:     {' '.join(f'{k}={v}' for k, v in levels.items())}")
        output.line("")
    output.rows("nodes", _BROKERS, brokers)


def _controller_role(quorum: "QuorumDescription", node_id: int) -> list[str]:
    if node_id == quorum.leader_id:
        return ["controller (active)"]
    return ["controller"] if any(each.node_id == node_id for each in quorum.voters) else []


def _controllers(quorum: "QuorumDescription", brokers: set[int]) -> list[int]:
    """Voters that are no brokers."""
    return sorted(each.node_id for each in quorum.voters if each.node_id not in brokers)


def _controller(quorum: "QuorumDescription", node_id: int) -> dict[str, object]:
    endpoints = quorum.endpoints.get(node_id, [])
    address = endpoints[0].address if endpoints else None
    return {
        "node_id": node_id,
        "host": None if address is None else address.host,
        "port": None if address is None else address.port,
        "rack": None,
        "fenced": None,
        "roles": _controller_role(quorum, node_id),
    }


@cluster.command()
@click.option(
    "--max-lag",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Seconds that a controller may be behind.",
)
@output_options
@connection_options
def health(*, max_lag: float, output: Output, client: ClientSettings) -> None:
    """Say what is wrong; end with 0 when nothing is, else with 1.

    Partitions that nobody leads, that have too few replicas in sync for acks=all, or fewer than
    all; brokers that are fenced or do not answer; directories that are offline; controllers that
    are behind.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.health import cluster_health

    with open_admin(client) as admin:
        found = cluster_health(admin, lag_ms_max=int(max_lag * 1000))
    problems = [problem._asdict() for problem in found.problems]
    counts = {
        "brokers": found.brokers,
        "topics": found.topics,
        "partitions": found.partitions,
    }
    if output.is_document:
        output.document({"healthy": found.is_well, **counts, "problems": problems})
    else:
        if output.form != "tsv":
            word = "healthy" if found.is_well else "unhealthy"
            listed = {**counts, "problems": len(problems)}.items()
            words = (f"{count} {noun if count != 1 else noun[:-1]}" for noun, count in listed)
            output.line(f"{word}: {', '.join(words)}")
        if problems or output.form == "tsv":
            output.rows("problems", _PROBLEMS, problems)
    raise SystemExit(0 if found.is_well else 1)


@cluster.command()
@click.argument("node_id", type=click.IntRange(0))
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Although it runs: it may have to be started anew.")
@output_options
@connection_options
def unregister(
    *, node_id: int, yes: bool, force: bool, output: Output, client: ClientSettings
) -> None:
    """Forget a broker that is stopped and will not come back."""
    from ottla.cli.clients import open_admin
    from ottla.cli.consent import confirm
    from ottla.client.reassignments import unregister_broker

    with open_admin(client) as admin:
        if not force and (address := _running(admin, node_id)) is not None:
            message = f"broker {node_id} runs, at {address}: stop it first, or use --force"
            output.refuse("BROKER_RUNS", message)
            raise SystemExit(1)
        confirm(f"Forget broker {node_id}?", yes=yes)
        unregister_broker(admin.cluster, node_id)
    output.rows("unregistered", [Column("node_id")], [{"node_id": node_id}])


def _running(admin: "Admin", node_id: int) -> "Address | None":
    """Where a broker answers; None for one that is fenced, or silent, or not known."""
    from ottla.client.errors import BrokerUnavailable
    from ottla.common.errors import ApiError

    for broker in admin.describe_cluster(fenced=True).brokers:
        if broker.node_id == node_id and not broker.fenced:
            try:
                admin.describe_log_dirs([node_id], partitions=[])
            except BrokerUnavailable:
                return None
            except ApiError:
                pass  # a refusal is an answer, too
            return broker.address
    return None
