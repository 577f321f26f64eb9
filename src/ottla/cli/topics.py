"""``ottla topics``: list, describe, create, change and delete."""

import click

from ottla.cli.completing import complete_settings, complete_topics
from ottla.cli.consent import confirm
from ottla.cli.files import parse_assignments
from ottla.cli.names import expand, has_pattern
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import progress_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options


@click.group()
def topics() -> None:
    """List, describe, create, change and delete topics."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Kafka's own topics too.")
@output_options
@connection_options
def list_command(*, internal: bool, output: Output, client: ClientSettings) -> None:
    """List the topics."""
    from ottla.cli.clients import open_admin

    with open_admin(client) as admin:
        known = admin.cluster.refresh(None).topics.values()
    rows = [
        {
            "name": topic.name,
            "partitions": len(topic.partitions),
            "replicas": max((len(each.replicas) for each in topic.partitions.values()), default=0),
            "internal": topic.internal,
        }
        for topic in sorted(known, key=lambda topic: topic.name)
        if internal or not topic.internal
    ]
    names = ("name", "partitions", "replicas")
    columns = [*map(Column, names), Column("internal", wide=True)]
    output.rows("topics", columns, rows)


@topics.command()
@click.argument("names", nargs=-1, shell_complete=complete_topics)
@progress_options
@output_options
@connection_options
def describe(
    *, names: tuple[str, ...], quiet: bool, output: Output, client: ClientSettings
) -> None:
    """Show partitions, leaders, replicas, sizes, own settings; of all topics when none is named.

    'test-*' names all that begin so. The local size of a partition is that of its leader's
    replica; what its topic has in the remote store is read from the metadata of that.
    """
    from ottla.cli.topic_descriptions import describe_topics, show_topics

    show_topics(output, describe_topics(names, client, output, quiet=quiet))
    finish(output)


@topics.command()
@click.argument("names", nargs=-1, required=True)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    default=None,
    help="[default: num.partitions of the broker]",
)
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1),
    default=None,
    help="[default: default.replication.factor of the broker]",
)
@click.option(
    "-c",
    "--config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="A setting of the topic; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="Pass over topics that exist.")
@click.option(
    "--dry-run", is_flag=True, help="Ask the broker whether it would, and change nothing."
)
@output_options
@connection_options
def create(
    *,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    settings: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Create topics."""
    from ottla.cli.clients import open_admin
    from ottla.client.descriptions import NewTopic
    from ottla.common.errors import ErrorCode
    from ottla.common.identifiers import uuid_text

    configs = parse_assignments(settings, "--config")
    wanted = [NewTopic(name, partitions or -1, replication_factor or -1, configs) for name in names]
    passed_over = {ErrorCode.TOPIC_ALREADY_EXISTS} if if_not_exists else set()
    with open_admin(client) as admin:
        created = report_refusals(
            output,
            "topic",
            lambda: admin.create_topics(wanted, validate_only=dry_run),
            passed_over=passed_over,
        )
    rows = [
        {
            "name": name,
            "partitions": topic.partitions,
            "replicas": topic.replication_factor,
            "topic_id": uuid_text(topic.topic_id),
            "dry_run": dry_run,
        }
        for name, topic in created.items()
    ]
    columns = [
        Column("name"),
        Column("partitions"),
        Column("replicas"),
        Column("topic_id", wide=True),
    ]
    output.rows("created", columns, rows)
    finish(output)


@topics.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@click.option(
    "-p",
    "--partitions",
    type=click.IntRange(1),
    required=True,
    help="The new number of partitions; it can only grow.",
)
@click.option(
    "--dry-run", is_flag=True, help="Ask the broker whether it would, and change nothing."
)
@output_options
@connection_options
def alter(
    *,
    names: tuple[str, ...],
    partitions: int,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Give topics more partitions."""
    from ottla.cli.clients import open_admin

    counts = dict.fromkeys(names, partitions)

    def raise_counts() -> dict[str, int]:
        admin.create_partitions(counts, validate_only=dry_run)
        return counts

    with open_admin(client) as admin:
        done = report_refusals(output, "topic", raise_counts)
    rows = [{"name": name, "partitions": partitions, "dry_run": dry_run} for name in done]
    output.rows("altered", [Column("name"), Column("partitions")], rows)
    finish(output)


@topics.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_topics)
@click.option("--if-exists", is_flag=True, help="Pass over topics that do not exist.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@output_options
@connection_options
def delete(
    *,
    names: tuple[str, ...],
    if_exists: bool,
    yes: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Delete topics with all their records.

    'test-*' names all topics that begin so, but none of Kafka's own.
    """
    from ottla.cli.clients import open_admin
    from ottla.common.errors import ErrorCode

    passed_over = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if if_exists else set()
    with open_admin(client) as admin:
        chosen = list(names)
        if has_pattern(names):
            chosen = expand(names, admin.list_topics(), "topic", output)

        def remove() -> dict[str, None]:
            if dry_run:
                return dict.fromkeys(admin.describe_topics(chosen))
            admin.delete_topics(chosen)
            return dict.fromkeys(chosen)

        done: dict[str, None] = {}
        if chosen:
            confirm(f"Delete {', '.join(chosen)} with all records?", yes=yes or dry_run)
            done = report_refusals(output, "topic", remove, passed_over=passed_over)
    rows = [{"name": name, "dry_run": dry_run} for name in done]
    output.rows("deleted", [Column("name")], rows)
    finish(output)
