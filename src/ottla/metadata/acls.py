"""Access control entries by their id, as the metadata log keeps them."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from ottla.protocol.generated.metadata_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)


class AclImage(NamedTuple):
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


AclsImage: TypeAlias = Mapping[bytes, AclImage]


class AclsDelta:
    __slots__ = ("base", "changed")

    def __init__(self, base: AclsImage) -> None:
        self.base = base
        self.changed: dict[bytes, AclImage | None] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def replay(self, record: AccessControlEntryRecord) -> None:
        self.changed[record.id] = AclImage(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    def replay_remove(self, record: RemoveAccessControlEntryRecord) -> None:
        if self.changed.get(record.id, self.base.get(record.id)) is None:
            raise ValueError(f"removal of an ACL that does not exist: {record.id.hex()}")
        self.changed[record.id] = None

    def apply(self) -> AclsImage:
        if not self.changed:
            return self.base
        # One copy, at the speed of memory; then only what has changed is looked at.
        applied = dict(self.base)
        for acl_id, acl in self.changed.items():
            if acl is not None:
                applied[acl_id] = acl
            else:
                applied.pop(acl_id, None)
        return applied


def acls_to_records(acls: AclsImage) -> list[AccessControlEntryRecord]:
    return [acl_to_record(acl_id, acl) for acl_id, acl in acls.items()]


def acl_to_record(acl_id: bytes, acl: AclImage) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
