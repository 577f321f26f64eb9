"""Asking before something is lost."""

import sys

import click


def confirm(question: str, *, yes: bool) -> None:
    """Go on only when somebody has said yes: by ``-y``, or when asked.

    Without a terminal there is nobody to ask, and silence is no consent.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} There is no terminal to ask on: -y says yes")
    click.confirm(question, abort=True, err=True)
