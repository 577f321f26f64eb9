"""Who asks, and what for: principals, operations and resources by Kafka's names and numbers."""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol


class AclOperation(IntEnum):
    """What is done with a resource; also a bit of the operations that an answer allows."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of its type."""


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False
    """Whether it has shown a delegation token."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""A client that need not say its name."""


class Client(Protocol):
    """Whose request it is, and from where it came."""

    @property
    def principal(self) -> Principal: ...

    @property
    def client_id(self) -> str | None: ...

    @property
    def peer_host(self) -> str: ...


class Authorizer(Protocol):
    def allows(
        self, client: Client, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool: ...

    def allows_any(
        self, client: Client, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a resource of the type with which the client may do this."""
        ...


class EverythingAllowed:
    """The authorizer of a cluster that has none."""

    def allows(
        self, _client: Client, _operation: AclOperation, _resource_type: ResourceType, _name: str
    ) -> bool:
        return True

    def allows_any(
        self, _client: Client, _operation: AclOperation, _resource_type: ResourceType
    ) -> bool:
        return True
