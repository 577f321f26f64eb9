"""CreateAcls and DeleteAcls: ACLs come and go as records of the metadata log.

What there is already, or comes twice in one request, is no second ACL. A request that would remove
more than one batch can tell removes nothing.
"""

from typing import Final

from ottla.common.authorization import (
    CLUSTER_NAME,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    is_known,
)
from ottla.common.errors import ApiError, ErrorCode, InvalidRequest
from ottla.common.identifiers import random_uuid
from ottla.controller.result import RECORDS_MAX, ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acls import AclImage, acl_to_record
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.generated.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.generated.metadata_records import RemoveAccessControlEntryRecord

SCANS_MAX: Final = 50
"""Filters of one request that name neither a resource nor a principal: each looks at all ACLs."""


class AclsManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state

    def create_acls(self, request: CreateAclsRequest) -> ControllerResult[CreateAclsResponse]:
        if any(_is_for_filters(each) for each in request.creations):
            raise ApiError("An ACL must not have a value that is for filters alone.")
        response = CreateAclsResponse()
        wanted: dict[AclImage, None] = {}
        for creation in request.creations:
            result = AclCreationResult(error_message=None)
            try:
                acl = _checked(creation)
            except InvalidRequest as error:
                result.error_code, result.error_message = int(error.code), error.message
            else:
                if not self._state.acls.contains(acl):
                    wanted[acl] = None
            response.results.append(result)
        chance = self._state.chance
        records: list[MetadataRecord] = [acl_to_record(random_uuid(chance), acl) for acl in wanted]
        check_records(records)
        return ControllerResult(response, records)

    def delete_acls(self, request: DeleteAclsRequest) -> ControllerResult[DeleteAclsResponse]:
        response = DeleteAclsResponse()
        removed: dict[bytes, None] = {}
        scans = 0
        for each in request.filters:
            result = DeleteAclsFilterResult(error_message=None)
            response.filter_results.append(result)
            wanted = _filter(each)
            if wanted.is_unknown:
                result.error_code = int(ErrorCode.INVALID_REQUEST)
                result.error_message = "Unknown patternFilter or entryFilter."
                continue
            scans += wanted.resource_name is None and wanted.principal is None
            if scans > SCANS_MAX:
                raise InvalidRequest(
                    f"Cannot look through all ACLs more than {SCANS_MAX} times in one operation."
                )
            for acl_id, acl in self._state.acls.matching(wanted):
                removed[acl_id] = None
                if len(removed) > RECORDS_MAX:
                    raise InvalidRequest(
                        f"Cannot remove more than {RECORDS_MAX} acls in a single delete operation."
                    )
                result.matching_acls.append(_told(acl))
        records: list[MetadataRecord] = [
            RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed
        ]
        return ControllerResult(response, records)


def _filter(asked: DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _is_for_filters(creation: AclCreation) -> bool:
    """Kafka cannot even think of such an ACL: the whole request fails."""
    return (
        creation.resource_type in (0, ResourceType.ANY)
        or creation.resource_pattern_type in (0, PatternType.ANY, PatternType.MATCH)
        or creation.operation in (0, AclOperation.ANY)
        or creation.permission_type in (0, Permission.ANY)
    )


def _checked(creation: AclCreation) -> AclImage:
    acl = AclImage(
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise InvalidRequest(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise InvalidRequest("Invalid empty resource name")
    for kind, number, word in (
        (ResourceType, acl.resource_type, "resourceType"),
        (PatternType, acl.pattern_type, "patternType"),
        (AclOperation, acl.operation, "operation"),
        (Permission, acl.permission_type, "permissionType"),
    ):
        if not is_known(kind, number):
            raise InvalidRequest(f"Invalid {word} UNKNOWN")
    if ":" not in acl.principal:
        raise InvalidRequest(
            f"Could not parse principal from `{acl.principal}` (no colon is present "
            "separating the principal type from the principal name)"
        )
    return acl


def _told(acl: AclImage) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
