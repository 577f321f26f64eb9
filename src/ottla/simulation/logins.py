"""Who simulated clients are: where there are logins, they log in by PLAIN, as real ones do.

Such a cluster has one listener more, on which clients log in. Nodes, and clients that do not log
in, are ``User:ANONYMOUS`` on the others, a super user: what they do is judged by other checkers.
"""

from typing import Final

from ottla.common.authorization import ANONYMOUS
from ottla.config.authorizer import STANDARD_AUTHORIZER, SUPER_USERS
from ottla.security.mechanism import PLAIN
from ottla.security.plain import PlainClient
from ottla.security.sasl_client import SaslLogin

AUTHORIZER: Final = "authorizer.class.name"
MECHANISMS: Final = "sasl.enabled.mechanisms"
LISTENER: Final = "CLIENTS"
LOGIN_PORT: Final = 9094
ADMIN: Final = "admin"
USERS: Final = ("alice", "bob", "carol")
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_KNOWN: Final = " ".join(f'user_{name}="of {name}"' for name in (ADMIN, *USERS))
LOGINS: Final = {
    "listener.security.protocol.map": (
        f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{LISTENER}:SASL_PLAINTEXT"
    ),
    MECHANISMS: PLAIN,
    f"listener.name.{LISTENER.lower()}.plain.sasl.jaas.config": f"{_MODULE} required {_KNOWN};",
}
"""What brokers have where clients log in."""
SETTINGS: Final = {
    **LOGINS,
    AUTHORIZER: STANDARD_AUTHORIZER,
    SUPER_USERS: f"{ANONYMOUS};User:{ADMIN}",
}
"""And where they have an authorizer too."""


def login_as(user: str) -> SaslLogin:
    return SaslLogin(PLAIN, lambda: PlainClient(user, f"of {user}"))
