"""``ottla elect-leaders``: what kafka-leader-election does."""

import click

from ottla.cli.completing import complete_topics
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options


@click.command("elect-leaders")
@click.option(
    "--preferred", "kind", flag_value="preferred", default=True, help="The first replica. [default]"
)
@click.option(
    "--unclean",
    "kind",
    flag_value="unclean",
    help="Any replica that lives, where none in sync does; records may be lost.",
)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="May be repeated.",
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(0),
    help="Of the one topic; may be repeated. [default: all]",
)
@click.option("--all", "of_all", is_flag=True, help="The partitions of all topics.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@connection_options
def elect_leaders(
    *,
    kind: str,
    topics: tuple[str, ...],
    partitions: tuple[int, ...],
    of_all: bool,
    yes: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Give partitions the leaders that they should have."""
    from ottla.cli.clients import open_admin
    from ottla.cli.consent import confirm
    from ottla.client.reassignments import ElectionType
    from ottla.client.reassignments import elect_leaders as elect
    from ottla.common.topic_partition import TopicPartition

    if of_all == bool(topics):
        raise click.UsageError("give --topic or --all")
    if partitions and len(topics) != 1:
        raise click.UsageError("--partition goes with one --topic")
    election = ElectionType[kind.upper()]
    if election is ElectionType.UNCLEAN:
        confirm("An unclean election may lose records. Go on?", yes=yes)
    with open_admin(client) as admin:
        asked = None
        if topics:
            asked = [
                TopicPartition(name, each.partition)
                for name, topic in admin.describe_topics(topics).items()
                for each in topic.partitions
                if not partitions or each.partition in partitions
            ]
            known = {each.partition for each in asked}
            asked += [TopicPartition(topics[0], each) for each in partitions if each not in known]
        done = report_refusals(output, "partition", lambda: elect(admin.cluster, election, asked))
        leaders = admin.cluster.refresh(sorted({each.topic for each in done}))
    rows = [
        {
            "topic": partition.topic,
            "partition": partition.partition,
            "leader": leaders.leader(partition),
            "elected": elected,
        }
        for partition, elected in sorted(done.items())
    ]
    names = ("topic", "partition", "leader", "elected")
    columns = [*map(Column, names)]
    output.rows("elections", columns, rows, none="no partition needs an election")
    finish(output)
