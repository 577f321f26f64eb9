"""``ottla completion``: scripts for shells, and names to complete that only the cluster knows."""

from typing import Final

import click

SHELLS: Final = ("bash", "zsh", "fish")
VARIABLE: Final = "_OTTLA_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, options and names of topics.

    bash: eval "$(ottla completion bash)"; zsh: the same with zsh; fish: ottla completion fish |
    source.
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "ottla", VARIABLE).source())
