"""``ottla tokens``: delegation tokens, by their ids; the secret of one is shown when it is made."""

import base64
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.consent import confirm
from ottla.cli.output import Column, Output, output_options
from ottla.cli.principals import principal_name
from ottla.cli.settings import ClientSettings, connection_options, controller_option

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.tokens import Token
    from ottla.common.authorization import Principal

_COLUMNS: Final = (
    *map(Column, ("token_id", "owner", "renewers", "expiry_timestamp", "max_timestamp")),
    Column("requester", wide=True),
    Column("issue_timestamp", wide=True),
)
_DURATION: Final = "as ISO 8601 has it: P7D, PT12H"


@click.group()
def tokens() -> None:
    """Make, list, renew and end delegation tokens."""


@tokens.command()
@click.option(
    "--owner",
    type=principal_name,
    metavar="PRINCIPAL",
    help="Whose it is to be. [default: our own]",
)
@click.option("--renewer", "renewers", multiple=True, type=principal_name, metavar="PRINCIPAL",
              help="Who else may renew it; may be repeated.")  # fmt: skip
@click.option("--max-life", metavar="DURATION",
              help=f"How long it can be renewed, {_DURATION}. [default: the longest]")  # fmt: skip
@output_options
@controller_option
@connection_options
def create(
    *,
    owner: "Principal | None",
    renewers: tuple["Principal", ...],
    max_life: str | None,
    output: Output,
    client: ClientSettings,
) -> None:
    """Make a token. Its id and its HMAC are username and password of a client: keep the HMAC.

    A client logs in with them by SCRAM, with tokenauth=true in its sasl.jaas.config.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.tokens import create_token

    with open_admin(client) as admin:
        token = create_token(
            admin.cluster, owner=owner, renewers=renewers, lifetime_ms=_milliseconds(max_life)
        )
    row = {**_row(token), "hmac": base64.b64encode(token.hmac).decode()}
    columns = [*map(Column, ("token_id", "hmac", "owner", "expiry_timestamp", "max_timestamp"))]
    output.rows("created", columns, [row])


@tokens.command("list")
@click.option("--owner", "owners", multiple=True, type=principal_name, metavar="PRINCIPAL",
              help="Only those of this owner; may be repeated.")  # fmt: skip
@output_options
@controller_option
@connection_options
def list_command(
    *, owners: tuple["Principal", ...], output: Output, client: ClientSettings
) -> None:
    """List the tokens that we may see, without their secrets."""
    from ottla.cli.clients import open_admin
    from ottla.client.tokens import list_tokens

    with open_admin(client) as admin:
        found = list_tokens(admin.cluster, owners or None)
    output.rows("tokens", _COLUMNS, map(_row, found))


@tokens.command()
@click.argument("token_id")
@click.option("--for", "period", metavar="DURATION",
              help=f"How long from now, {_DURATION}. [default: as the cluster has it]")  # fmt: skip
@output_options
@controller_option
@connection_options
def renew(*, token_id: str, period: str | None, output: Output, client: ClientSettings) -> None:
    """Let a token live longer, until its longest life is over."""
    from ottla.cli.clients import open_admin
    from ottla.client.tokens import renew_token

    with open_admin(client) as admin:
        token = _find(admin, token_id)
        expires = renew_token(admin.cluster, token.hmac, _milliseconds(period))
    output.rows("renewed", _COLUMNS, [_row(token._replace(expires_ms=expires))])


@tokens.command()
@click.argument("token_id")
@click.option("--after", metavar="DURATION", help=f"Not at once but then, {_DURATION}.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would end, and change nothing.")
@output_options
@controller_option
@connection_options
def expire(
    *,
    token_id: str,
    after: str | None,
    yes: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Let a token end. Who is logged in by it stays so until the session is over."""
    from ottla.cli.clients import open_admin
    from ottla.client.tokens import expire_token

    with open_admin(client) as admin:
        token = _find(admin, token_id)
        confirm(f"End token {token_id} of {token.owner}?", yes=yes or dry_run)
        if not dry_run:
            expires = expire_token(admin.cluster, token.hmac, _milliseconds(after))
            token = token._replace(expires_ms=expires)
    output.rows("expired", _COLUMNS, [{**_row(token), "dry_run": dry_run}])


def _find(admin: "Admin", token_id: str) -> "Token":
    from ottla.client.tokens import list_tokens

    for token in list_tokens(admin.cluster):
        if token.token_id == token_id:
            return token
    raise click.ClickException(f"there is no token {token_id}, or it is not ours to see")


def _milliseconds(text: str | None) -> int:
    from ottla.cli.group_offsets import duration_ms

    return -1 if text is None else duration_ms(text)


def _row(token: "Token") -> dict[str, object]:
    return {
        "token_id": token.token_id,
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(each) for each in token.renewers],
        "issue_timestamp": token.issued_ms,
        "expiry_timestamp": token.expires_ms,
        "max_timestamp": token.longest_ms,
    }
