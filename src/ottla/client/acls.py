"""ACLs: listed, added, removed; and what they decide."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.client.cluster import Cluster
from ottla.client.errors import SomeRefused, refusal
from ottla.common.authorization import (
    EVERYBODY,
    WILDCARD,
    AclOperation,
    Permission,
)
from ottla.common.errors import ApiError
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acls import AclImage
from ottla.protocol.generated.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.generated.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.generated.describe_acls import DescribeAclsRequest, DescribeAclsResponse

ANY_ACL: Final = AclFilter()
_DESCRIBE_BY: Final = frozenset(
    {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER}
)
_IMPLIED_BY: Final[Mapping[int, frozenset[AclOperation]]] = {
    AclOperation.DESCRIBE: _DESCRIBE_BY,
    AclOperation.DESCRIBE_CONFIGS: frozenset({AclOperation.ALTER_CONFIGS}),
}


def list_acls(cluster: Cluster, wanted: AclFilter = ANY_ACL) -> list[AclImage]:
    """Those that a filter matches."""
    response = cluster.ask_again(
        DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission_type,
        ),
        DescribeAclsResponse,
        failed=lambda answer: (
            refusal(answer.error_code, answer.error_message) if answer.error_code else None
        ),
    )
    return sorted(
        AclImage(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def create_acls(cluster: Cluster, acls: Sequence[AclImage]) -> dict[AclImage, None]:
    """Add them; one that is there already stays."""
    response = cluster.ask_again(
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
                for acl in acls
            ]
        ),
        CreateAclsResponse,
    )
    refused = {
        acl: refusal(result.error_code, result.error_message)
        for acl, result in zip(acls, response.results, strict=True)
        if result.error_code
    }
    done = {acl: None for acl in acls if acl not in refused}
    if refused:
        raise SomeRefused(refused, done)
    return done


def delete_acls(cluster: Cluster, acls: Sequence[AclImage]) -> dict[AclImage, None]:
    """Remove exactly these; one that is gone already is passed over."""
    response = cluster.ask_again(
        DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=acl.resource_type,
                    resource_name_filter=acl.resource_name,
                    pattern_type_filter=acl.pattern_type,
                    principal_filter=acl.principal,
                    host_filter=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission_type,
                )
                for acl in acls
            ]
        ),
        DeleteAclsResponse,
    )
    done: dict[AclImage, None] = {}
    refused: dict[AclImage, ApiError] = {}
    for acl, result in zip(acls, response.filter_results, strict=True):
        told = [(each.error_code, each.error_message) for each in result.matching_acls]
        failed = [each for each in ((result.error_code, result.error_message), *told) if each[0]]
        if failed:
            refused[acl] = refusal(*failed[0])
        elif result.matching_acls:
            done[acl] = None
    if refused:
        raise SomeRefused(refused, done)
    return done


def deciding_acl(
    acls: Iterable[AclImage], principal: str, operation: AclOperation, host: str
) -> AclImage | None:
    """The one that decides among those that speak of a resource; None: it is denied by default.

    What any denies is denied; else what any allows is allowed, with what follows from it.
    """
    concerned = [
        acl
        for acl in acls
        if acl.principal in (principal, EVERYBODY) and acl.host in (host, WILDCARD)
    ]
    granted_by = {operation, AclOperation.ALL} | _IMPLIED_BY.get(operation, frozenset())
    for acl in concerned:
        if acl.permission_type == Permission.DENY and acl.operation in (
            operation,
            AclOperation.ALL,
        ):
            return acl
    for acl in concerned:
        if acl.permission_type == Permission.ALLOW and acl.operation in granted_by:
            return acl
    return None
