"""What a client says of ACLs is what the authorizer of brokers decides."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from tests.turns import virtual_time

from ottla.client.acls import deciding_acl
from ottla.common.authorization import (
    AclOperation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
)
from ottla.config.authorizer import AuthorizerSettings
from ottla.metadata.acl_filter import AclFilter
from ottla.metadata.acls import AclImage, acl_to_record
from ottla.metadata.audit import Audit
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.standard_authorizer import StandardAuthorizer

OPERATIONS = [each for each in AclOperation if each > AclOperation.ALL]
NAMES = ["a", "ab", "abc", "b", "*"]
HOSTS = ["10.0.0.1", "10.0.0.2"]


class Asking(NamedTuple):
    principal: Principal
    peer_host: str
    client_id: str | None = None
    request_name: str = "FETCH"


acls = st.builds(
    AclImage,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from([*HOSTS, "*"]),
    st.sampled_from([AclOperation.ALL, *OPERATIONS]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)


@given(
    st.lists(acls, max_size=8, unique=True),
    st.sampled_from(OPERATIONS),
    st.sampled_from(NAMES[:-1]),
    st.sampled_from(HOSTS),
)
def test_the_same_is_decided_as_by_a_broker(
    there: list[AclImage], operation: AclOperation, name: str, host: str
) -> None:
    authorizer = StandardAuthorizer(
        AuthorizerSettings(frozenset(), allow_everyone=False), Audit(virtual_time(1).call_later)
    )
    delta = MetadataDelta(MetadataImage())
    for number, acl in enumerate(there):
        delta.replay(acl_to_record(bytes(15) + bytes([number]), acl))
    authorizer.changed(delta.base, delta)
    authorizer.loaded()
    asking = Asking(Principal("User", "alice"), host)
    speaking = AclFilter(ResourceType.TOPIC, name, PatternType.MATCH)
    found = deciding_acl(filter(speaking.matches, there), "User:alice", operation, host)
    allowed = found is not None and found.permission_type == Permission.ALLOW
    assert allowed == authorizer.allows(asking, operation, ResourceType.TOPIC, name)
