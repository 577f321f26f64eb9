"""A broker of these tests with an authorizer: its clients may do what the test's ACLs say."""

from tests.handlers.broker import Broker, Peer

from ottla.common.authorization import (
    AclOperation,
    PatternType,
    Permission,
    Principal,
    ResourceType,
)
from ottla.config.authorizer import AuthorizerSettings
from ottla.metadata.acls import AclImage
from ottla.metadata.audit import Audit
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.standard_authorizer import StandardAuthorizer

ALICE = Principal("User", "alice")
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER


class Acls:
    """The ACLs of a broker, all of them alice's."""

    def __init__(self, broker: Broker) -> None:
        self.audit = Audit(broker.scheduler.call_later)
        self._broker = broker
        self._next = 0
        settings = AuthorizerSettings(frozenset({"User:root"}), allow_everyone=False)
        self.authorizer = StandardAuthorizer(settings, self.audit)
        self.authorizer.loaded()
        broker.services.authorizer = self.authorizer

    def add(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        permission: Permission = Permission.ALLOW,
        pattern: PatternType = PatternType.LITERAL,
    ) -> bytes:
        self._next += 1
        acl_id = self._next.to_bytes(16, "big")
        acl = AclImage(resource_type, name, pattern, str(ALICE), "*", operation, permission)
        self._change(acl_id, acl)
        return acl_id

    def remove(self, acl_id: bytes) -> None:
        self._change(acl_id, None)

    def _change(self, acl_id: bytes, acl: AclImage | None) -> None:
        image = self._broker.metadata.image
        delta = MetadataDelta(image)
        delta.acls.changed[acl_id] = acl
        self.authorizer.changed(image, delta)


def alice() -> Peer:
    peer = Peer()
    peer.principal = ALICE
    return peer


def root() -> Peer:
    peer = Peer()
    peer.principal = Principal("User", "root")
    return peer
