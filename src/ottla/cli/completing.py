"""Names that only the cluster knows, for shells to complete; silence when it does not answer."""

from typing import Final

import click
from click.shell_completion import CompletionItem

_SECONDS: Final = 1.0
KINDS: Final = {"topic": 2, "broker": 4, "broker-logger": 8, "client-metrics": 16, "group": 32}
"""What has settings, with the numbers of the protocol."""


def complete_topics(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The topics whose names begin so."""
    from ottla.cli.clients import security, timing
    from ottla.cli.settings import client_of_options
    from ottla.client.cluster import Cluster
    from ottla.common.errors import ApiError

    try:
        client = client_of_options(ctx.params)._replace(timeout=_SECONDS)
        with Cluster(
            client.bootstrap_servers, timing=timing(client), security=security(client)
        ) as cluster:
            names = sorted(cluster.refresh(None).topics)
    except (OSError, ApiError, ValueError, click.UsageError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_logs(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Paths, and the topics of the log directories that were named, or else of the cluster."""
    # What is plain must come behind: shells forget the names before a word about files.
    found = [CompletionItem(incomplete, type="file")]
    log_dirs = ctx.params.get("log_dirs") or ()
    if not log_dirs:
        return found if "/" in incomplete else found + complete_topics(ctx, parameter, incomplete)
    from ottla.inspection.log_place import places_below

    try:
        topics = sorted({place.topic for path in log_dirs for place in places_below(path)})
    except OSError:
        return found
    return found + [CompletionItem(name) for name in topics if name.startswith(incomplete)]


def complete_groups(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The groups whose ids begin so."""
    from ottla.cli.clients import security, timing
    from ottla.cli.settings import client_of_options
    from ottla.client.cluster import Cluster
    from ottla.client.groups import list_groups
    from ottla.common.errors import ApiError

    try:
        client = client_of_options(ctx.params)._replace(timeout=_SECONDS)
        with Cluster(
            client.bootstrap_servers, timing=timing(client), security=security(client)
        ) as cluster:
            names = [group.group_id for group in list_groups(cluster)]
    except (OSError, ApiError, ValueError, click.UsageError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_settings(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The settings of the kind of resource that was named, topics when none was.

    The sign that a value follows is left out where there is none, behind --delete.
    """
    from ottla.config.broker import BrokerConfig
    from ottla.config.client_metrics import ClientMetricsConfig
    from ottla.config.definition import ConfigSet
    from ottla.config.group import GroupConfig
    from ottla.config.topic import TopicConfig

    sets: dict[str, type[ConfigSet]] = {
        "topic": TopicConfig,
        "broker": BrokerConfig,
        "group": GroupConfig,
        "client-metrics": ClientMetricsConfig,
    }
    # Where an option still lacks its value, click leaves arguments unread in ctx.args.
    words = [ctx.params.get("kind"), *ctx.args]
    named = [word for word in words if word in KINDS]
    kind = sets.get(named[0] if named else "topic")
    sign = "" if parameter.name in {"deleted", "keys"} else "="
    return [
        CompletionItem(f"{name}{sign}", help=key.doc)
        for name, key in ({} if kind is None else kind.keys).items()
        if name.startswith(incomplete)
    ]


def complete_resources(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Names of topics, where topics are meant."""
    if ctx.params.get("kind") != "topic":
        return []
    return complete_topics(ctx, parameter, incomplete)
