"""Names that only the cluster knows, for shells to complete; silence when it does not answer."""

from typing import Final

import click
from click.shell_completion import CompletionItem

_SECONDS: Final = 1.0


def complete_topics(
    ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The topics whose names begin so."""
    from ottla.cli.cluster import timing
    from ottla.cli.settings import client_of_options
    from ottla.client.cluster import Cluster
    from ottla.common.errors import ApiError

    client = client_of_options(ctx.params)._replace(timeout=_SECONDS)
    try:
        with Cluster(client.bootstrap_servers, timing=timing(client)) as cluster:
            names = sorted(cluster.refresh(None).topics)
    except (OSError, ApiError, ValueError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def complete_topic_settings(
    _ctx: click.Context, _: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The settings of topics, with the sign that a value follows."""
    from ottla.config.topic import TopicConfig

    return [
        CompletionItem(f"{name}=", help=key.doc)
        for name, key in TopicConfig.keys.items()
        if name.startswith(incomplete)
    ]
