"""Who asks, and what for: principals, operations and resources by Kafka's names and numbers."""

from enum import IntEnum
from typing import Final, NamedTuple, Protocol, TypeAlias


class AclOperation(IntEnum):
    """What is done with a resource; also a bit of the operations that an answer allows."""

    ANY = 1
    """In filters only: whatever it is."""
    ALL = 2
    """In an ACL: each of the others."""
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
    ANY = 1
    """In filters only: whatever it is."""
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL stands for names of resources."""

    ANY = 1
    """In filters only: whatever it is."""
    MATCH = 2
    """In filters only: whatever applies to a name."""
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    ANY = 1
    """In filters only: whatever it is."""
    DENY = 2
    ALLOW = 3


def is_known(kind: type[IntEnum], number: int) -> bool:
    """Whether a number of the wire stands for one of a kind."""
    return number in kind.__members__.values()


CLUSTER_NAME: Final = "kafka-cluster"
"""The only resource of its type."""
WILDCARD: Final = "*"
"""Each name of resources, as the name of a literal ACL; each host."""
EVERYBODY: Final = "User:*"
"""Each client, as the principal of an ACL."""


class Principal(NamedTuple):
    type: str
    name: str
    token_authenticated: bool = False
    """Whether it has shown a delegation token."""

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""A client that need not say its name."""


Granted: TypeAlias = dict[tuple[int, int, str | bytes], int]
"""What a connection's client was allowed: an operation on a type's resource, and by which ACLs."""


class Client(Protocol):
    """Whose request it is, and from where it came."""

    @property
    def principal(self) -> Principal: ...

    @property
    def client_id(self) -> str | None: ...

    @property
    def peer_host(self) -> str: ...

    @property
    def request_name(self) -> str:
        """What is asked, by the API's name."""
        ...


NO_AUTHORIZER: Final = "No Authorizer is configured."
"""What is answered about ACLs where there is none."""


class Authorizer(Protocol):
    @property
    def enforces(self) -> bool:
        """Whether anything may be refused at all."""
        ...

    @property
    def epoch(self) -> int:
        """Another number after each change of what is allowed."""
        ...

    def allows(
        self,
        client: Client,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
    ) -> bool:
        """``log_if_denied`` is false where the answer only leaves something out."""
        ...

    def allows_any(
        self, client: Client, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether there is a resource of the type with which the client may do this."""
        ...


class EverythingAllowed:
    """The authorizer of a cluster that has none."""

    enforces: Final = False
    epoch: Final = 0

    def allows(
        self,
        _client: Client,
        _operation: AclOperation,
        _resource_type: ResourceType,
        _name: str,
        *,
        log_if_denied: bool = True,  # noqa: ARG002 - nothing is denied
    ) -> bool:
        return True

    def allows_any(
        self, _client: Client, _operation: AclOperation, _resource_type: ResourceType
    ) -> bool:
        return True
