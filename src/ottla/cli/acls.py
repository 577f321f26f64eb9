"""``ottla acls``: who may do what; list, add, remove, and ask."""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.consent import confirm
from ottla.cli.output import Column, Output, output_options
from ottla.cli.principals import principal_name
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options, controller_option

if TYPE_CHECKING:
    from ottla.common.authorization import Principal
    from ottla.metadata.acl_filter import AclFilter
    from ottla.metadata.acls import AclImage

F = TypeVar("F", bound=Callable[..., Any])

OPERATIONS: Final = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_NAMED: Final = ("topic", "group", "transactional_id", "delegation_token", "user_principal")
_PRODUCER: Final = {
    "topic": ("write", "describe", "create"),
    "transactional_id": ("write", "describe"),
}
_CONSUMER: Final = {"topic": ("read", "describe"), "group": ("read",)}
_COLUMNS: Final = (
    *map(Column, ("principal", "permission", "operation", "resource", "name", "pattern", "host")),
)


def _resource_options(command: F) -> F:
    """Which resources: ``--topic``, ``--group`` and so on."""
    shown = {
        "--topic": "A topic",
        "--group": "A group",
        "--transactional-id": "A transactional id",
        "--delegation-token": "A delegation token",
        "--user-principal": "A user, as what tokens are made for",
    }
    command = click.option("--cluster", "of_cluster", is_flag=True, help="The cluster itself.")(
        command
    )
    for name, what in reversed(shown.items()):
        more = f"{what}; * for all; may be repeated."
        command = click.option(name, multiple=True, metavar="NAME", help=more)(command)
    return command


def _operation_option(command: F) -> F:
    kind = click.Choice(OPERATIONS, case_sensitive=False)
    more = "What is done; may be repeated."
    return click.option("--operation", "operations", multiple=True, type=kind, help=more)(command)


@click.group()
def acls() -> None:
    """List, add and remove ACLs, and ask what they allow."""


@acls.command("list")
@click.option(
    "--principal", type=principal_name, metavar="PRINCIPAL", help="Only those of this principal."
)
@_resource_options
@click.option("--exact", is_flag=True, help="Only those of exactly this name, not all that apply.")
@output_options
@controller_option
@connection_options
def list_command(
    *,
    principal: "Principal | None",
    exact: bool,
    output: Output,
    client: ClientSettings,
    **resources: Any,
) -> None:
    """List the ACLs, all of them or those that apply to the resources that are named."""
    from ottla.cli.clients import open_admin
    from ottla.client.acls import list_acls

    found: dict[AclImage, None] = {}
    with open_admin(client) as admin:
        for wanted in _filters(resources, principal, exact=exact):
            found.update(dict.fromkeys(list_acls(admin.cluster, wanted)))
    output.rows("acls", _COLUMNS, map(_row, sorted(found)))


@acls.command()
@click.option("--allow-principal", "allowed", multiple=True, type=principal_name,
              metavar="PRINCIPAL",
              help="Who may; * for all; may be repeated.")  # fmt: skip
@click.option("--deny-principal", "denied", multiple=True, type=principal_name, metavar="PRINCIPAL",
              help="Who may not, whatever else is said; may be repeated.")  # fmt: skip
@click.option("--host", "hosts", multiple=True, default=["*"], show_default=True,
              help="From which address; may be repeated.")  # fmt: skip
@_operation_option
@_resource_options
@click.option("--prefixed", is_flag=True, help="Names are those with which others begin.")
@click.option("--producer", is_flag=True,
              help="What a producer needs on --topic, and on --transactional-id.")  # fmt: skip
@click.option("--consumer", is_flag=True, help="What a consumer needs on --topic and --group.")
@click.option("--idempotent", is_flag=True,
              help="With --producer: for clusters older than Kafka 2.8.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Say what would be added, and add nothing.")
@output_options
@controller_option
@connection_options
def add(
    *,
    allowed: tuple["Principal", ...],
    denied: tuple["Principal", ...],
    hosts: tuple[str, ...],
    operations: tuple[str, ...],
    prefixed: bool,
    producer: bool,
    consumer: bool,
    idempotent: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
    **resources: Any,
) -> None:
    """Add ACLs: each principal, operation, resource and host with each other."""
    from ottla.cli.clients import open_admin
    from ottla.client.acls import create_acls
    from ottla.common.authorization import Permission

    if not allowed and not denied:
        raise click.UsageError("name somebody by --allow-principal or --deny-principal")
    pairs = list(_pairs(resources, operations, producer, consumer, idempotent))
    wanted = [
        acl
        for permission, principals in ((Permission.ALLOW, allowed), (Permission.DENY, denied))
        for acl in _acls(pairs, principals, permission, hosts, prefixed=prefixed)
    ]
    done = dict.fromkeys(wanted)
    if not dry_run:
        with open_admin(client) as admin:
            done = report_refusals(output, "acl", lambda: create_acls(admin.cluster, wanted))
    output.rows("added", _COLUMNS, [{**_row(acl), "dry_run": dry_run} for acl in done])
    finish(output)


@acls.command()
@click.option(
    "--principal", type=principal_name, metavar="PRINCIPAL", help="Only those of this principal."
)
@click.option("--host", help="Only those of this host.")
@click.option("--permission", type=click.Choice(("allow", "deny")), help="Only those that do so.")
@_operation_option
@_resource_options
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@output_options
@controller_option
@connection_options
def remove(
    *,
    principal: "Principal | None",
    host: str | None,
    permission: str | None,
    operations: tuple[str, ...],
    yes: bool,
    dry_run: bool,
    output: Output,
    client: ClientSettings,
    **resources: Any,
) -> None:
    """Remove the ACLs of resources with exactly these names, or of a principal, or both."""
    from ottla.cli.clients import open_admin
    from ottla.client.acls import delete_acls, list_acls

    if principal is None and not _resources(resources):
        raise click.UsageError("say whose or which: --principal, --topic, --group, --cluster, ...")
    codes = {_operation(name) for name in operations}
    found: dict[AclImage, None] = {}
    with open_admin(client) as admin:
        for wanted in _filters(resources, principal, exact=True, host=host, permission=permission):
            found.update(dict.fromkeys(list_acls(admin.cluster, wanted)))
        chosen = sorted(acl for acl in found if not codes or acl.operation in codes)
        done = dict.fromkeys(chosen)
        if chosen and not dry_run:
            for acl in chosen:
                output.talk(_told(acl))
            confirm(f"Remove these {len(chosen)} ACLs?", yes=yes)
            done = report_refusals(output, "acl", lambda: delete_acls(admin.cluster, chosen))
    output.rows("removed", _COLUMNS, [{**_row(acl), "dry_run": dry_run} for acl in done])
    finish(output)


@acls.command()
@click.argument("principal", type=principal_name)
@click.argument("operation", type=click.Choice(OPERATIONS[1:], case_sensitive=False))
@_resource_options
@click.option("--host", default="127.0.0.1", show_default=True, help="From which address.")
@output_options
@controller_option
@connection_options
def check(
    *,
    principal: "Principal",
    operation: str,
    host: str,
    output: Output,
    client: ClientSettings,
    **resources: Any,
) -> None:
    """Say whether PRINCIPAL may do OPERATION on the resources that are named; 1 if not on all.

    By the ACLs alone: brokers know who super users are, and whether a resource without ACLs is
    everybody's, and do not tell.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.acls import deciding_acl, list_acls
    from ottla.common.authorization import AclOperation, Permission

    if not _resources(resources):
        raise click.UsageError("name a resource: --topic, --group, --cluster, ...")
    rows = []
    with open_admin(client) as admin:
        for wanted in _filters(resources, None, exact=False):
            speaking = list_acls(admin.cluster, wanted)
            code = AclOperation(_operation(operation))
            acl = deciding_acl(speaking, str(principal), code, host)
            is_allowed = acl is not None and acl.permission_type == Permission.ALLOW
            output.failed = output.failed or not is_allowed
            rows.append(
                {
                    "principal": str(principal),
                    "operation": operation,
                    "resource": _resource_word(wanted.resource_type),
                    "name": wanted.resource_name,
                    "allowed": is_allowed,
                    "by": "no ACL" if acl is None else _told(acl),
                }
            )
    names = ("principal", "operation", "resource", "name", "allowed", "by")
    output.rows("decisions", [*map(Column, names)], rows)
    finish(output)


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _operation(word: str) -> int:
    from ottla.common.authorization import AclOperation

    return AclOperation[word.upper().replace("-", "_")]


def _resource_word(number: int) -> str:
    from ottla.common.authorization import ResourceType, is_known

    return _word(ResourceType(number).name) if is_known(ResourceType, number) else str(number)


def _row(acl: "AclImage") -> dict[str, object]:
    from ottla.common.authorization import AclOperation, PatternType, Permission, is_known

    def word(kind: Any, number: int) -> str:
        return _word(kind(number).name) if is_known(kind, number) else str(number)

    return {
        "principal": acl.principal,
        "permission": word(Permission, acl.permission_type),
        "operation": word(AclOperation, acl.operation),
        "resource": _resource_word(acl.resource_type),
        "name": acl.resource_name,
        "pattern": word(PatternType, acl.pattern_type),
        "host": acl.host,
    }


def _told(acl: "AclImage") -> str:
    return "{principal} {permission} {operation} {resource} {name} {pattern} {host}".format(
        **_row(acl)
    )


def _resources(given: dict[str, Any]) -> list[tuple[str, str]]:
    """Option and name of each resource that was named."""
    from ottla.common.authorization import CLUSTER_NAME

    found = [(option, name) for option in _NAMED for name in given[option]]
    return found + ([("cluster", CLUSTER_NAME)] if given["of_cluster"] else [])


def _resource_type(option: str) -> int:
    from ottla.common.authorization import ResourceType

    return ResourceType["USER" if option == "user_principal" else option.upper()]


def _filters(
    given: dict[str, Any],
    principal: "Principal | None",
    *,
    exact: bool,
    host: str | None = None,
    permission: str | None = None,
) -> "Iterator[AclFilter]":
    """One for each resource that was named; without any, one for all."""
    from ottla.common.authorization import PatternType, Permission
    from ottla.metadata.acl_filter import AclFilter

    wanted = AclFilter(
        principal=None if principal is None else str(principal),
        host=host,
        permission_type=Permission.ANY if permission is None else Permission[permission.upper()],
    )
    named = _resources(given)
    for option, name in named:
        yield wanted._replace(
            resource_type=_resource_type(option),
            resource_name=name,
            pattern_type=PatternType.ANY if exact else PatternType.MATCH,
        )
    if not named:
        yield wanted


def _pairs(
    given: dict[str, Any],
    operations: tuple[str, ...],
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> Iterator[tuple[str, str, str]]:
    """Option, name and operation of what is to be said."""
    from ottla.common.authorization import CLUSTER_NAME

    named = _resources(given)
    if not named:
        raise click.UsageError("name a resource: --topic, --group, --cluster, ...")
    roles = [role for role, is_one in ((_PRODUCER, producer), (_CONSUMER, consumer)) if is_one]
    if bool(roles) == bool(operations):
        raise click.UsageError("say --operation, or --producer or --consumer")
    if producer and not given["topic"]:
        raise click.UsageError("--producer needs --topic")
    if consumer and not (given["topic"] and given["group"]):
        raise click.UsageError("--consumer needs --topic and --group")
    if idempotent and not producer:
        raise click.UsageError("--idempotent goes with --producer")
    for option, name in named:
        fitting = operations or dict.fromkeys(
            each for role in roles for each in role.get(option, ())
        )
        if not fitting:
            raise click.UsageError(f"{_word(option)} {name}: this role does not need it")
        for operation in fitting:
            yield option, name, operation
    if idempotent:
        yield "cluster", CLUSTER_NAME, "idempotent-write"


def _acls(
    pairs: Iterable[tuple[str, str, str]],
    principals: tuple["Principal", ...],
    permission: int,
    hosts: tuple[str, ...],
    *,
    prefixed: bool,
) -> "Iterator[AclImage]":
    from ottla.common.authorization import PatternType
    from ottla.metadata.acls import AclImage

    for principal in principals:
        for option, name, operation in pairs:
            is_prefix = prefixed and option != "cluster" and name != "*"
            pattern = PatternType.PREFIXED if is_prefix else PatternType.LITERAL
            for host in hosts:
                yield AclImage(
                    _resource_type(option), name, pattern, str(principal), host,
                    _operation(operation), permission,
                )  # fmt: skip
