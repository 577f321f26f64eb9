"""The settings of the authorizer, as Kafka's StandardAuthorizer reads them.

They are not among the broker's own: Kafka hands them to whatever class is plugged in.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.common.errors import InvalidConfig

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SUPER_USERS: Final = "super.users"
ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"


class AuthorizerSettings(NamedTuple):
    super_users: frozenset[str]
    """Principals that may do everything, as ``Type:name``."""
    allow_everyone: bool
    """Whether what no ACL speaks of is everybody's."""


def authorizer_settings(
    class_name: str, properties: Mapping[str, str]
) -> AuthorizerSettings | None:
    """None where there is no authorizer; InvalidConfig for one that is not to be had here."""
    if not class_name:
        return None
    if class_name != STANDARD_AUTHORIZER:
        raise InvalidConfig(
            f"authorizer.class.name is {class_name}, a Java class that cannot be loaded here: "
            f"the only authorizer is {STANDARD_AUTHORIZER}"
        )
    return AuthorizerSettings(
        frozenset(_principals(properties.get(SUPER_USERS, ""))),
        properties.get(ALLOW_EVERYONE, "").strip().lower() == "true",
    )


def _principals(text: str) -> list[str]:
    found = [each.strip() for each in text.split(";")]
    for principal in filter(None, found):
        if not all(principal.partition(":")):
            raise InvalidConfig(
                f"{SUPER_USERS}: expected a string in format principalType:principalName "
                f"but got {principal}"
            )
    return [principal for principal in found if principal]
