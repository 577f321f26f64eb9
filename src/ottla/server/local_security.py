"""Made-up certificates and users for nodes of this machine: tests, development, the demo.

Everything that may be needed is there: an authority that is made anew, a certificate for the nodes
and one for each user, and passwords drawn by lot. It is kept in a directory, so that a cluster that
is started again knows its users. Needs the ``cryptography`` package.
"""

import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ottla.client.security import ClientSecurity, security_of
from ottla.config.properties import format_properties, located_properties
from ottla.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from ottla.security.mechanism import OAUTHBEARER, PLAIN

PROTOCOLS: Final = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
SCRAM_256: Final = "SCRAM-SHA-256"
SCRAM_512: Final = "SCRAM-SHA-512"
MECHANISMS: Final = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
ADMIN: Final = "admin"
"""May do everything, where there is an authorizer."""
USERS: Final = (ADMIN, "alice", "bob")
NODE: Final = "node"
_HOSTS: Final = ("localhost", "127.0.0.1", "::1")
_INTERNAL: Final = ("INTERNAL", "CONTROLLER")
_ITERATIONS: Final = 4096
_PASSWORDS: Final = "passwords.properties"


class LocalSecurity:
    """One security protocol for all listeners of a cluster, and who its clients are."""

    def __init__(self, protocol: str, directory: Path, users: Sequence[str] = USERS) -> None:
        self.protocol = protocol.upper()
        if self.protocol not in PROTOCOLS:
            known = ", ".join(each.lower() for each in PROTOCOLS)
            raise ValueError(f"security is one of {known}, not {protocol!r}")
        self.directory = directory
        self.users = tuple(users)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._passwords = self._kept_passwords()
        if self.is_encrypted and not self.authority.exists():
            self._make_certificates()

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_logins(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def authority(self) -> Path:
        """What clients are to trust, in PEM."""
        return self.directory / "ca.pem"

    def certificate(self, user: str) -> Path:
        """Key and certificate of a user, in PEM."""
        return self.directory / f"{user}.pem"

    def password(self, user: str) -> str:
        return self._passwords[user]

    def _kept_passwords(self) -> dict[str, str]:
        file = self.directory / _PASSWORDS
        if not file.exists():
            drawn = {name: secrets.token_urlsafe(18) for name in (NODE, *self.users)}
            _write(file, format_properties(drawn))
        found = located_properties(file.read_text())
        return {name: value for name, (value, _) in found.items()}

    def _make_certificates(self) -> None:
        from ottla.security.certificates import Authority

        now = datetime.now(UTC)
        authority = Authority.create("made-up authority", now)
        for name in (NODE, *self.users):
            issued = authority.issue(name, list(_HOSTS) if name == NODE else [], now)
            _write(self.certificate(name), issued.key + issued.certificate)
        self.authority.write_text(authority.certificate)

    # The nodes' side

    def node_settings(self) -> dict[str, str]:
        """Settings of a node whose listener for clients has the name of the protocol."""
        settings = {"super.users": f"User:{ADMIN};User:{NODE}"}
        if self.is_encrypted:
            settings |= _stores(self.authority, self.certificate(NODE))
            settings["ssl.client.auth"] = "none" if self.has_logins else "required"
            settings["ssl.principal.mapping.rules"] = "RULE:^CN=([^,]+)$/$1/,DEFAULT"
        if self.has_logins:
            settings |= self._logins()
        return settings

    def _logins(self) -> dict[str, str]:
        known = {NODE: self.password(NODE), **{name: self.password(name) for name in self.users}}
        users = " ".join(f'user_{name}="{word}"' for name, word in known.items())
        login = f'username="{NODE}" password="{known[NODE]}"'
        entries = {
            PLAIN: f"{PLAIN_MODULE} required {login} {users};",
            SCRAM_256: f"{SCRAM_MODULE} required;",
            SCRAM_512: f"{SCRAM_MODULE} required;",
            OAUTHBEARER: f"{OAUTHBEARER_MODULE} required;",
        }
        clients = f"listener.name.{self.protocol.lower()}."
        settings = {
            "sasl.mechanism.inter.broker.protocol": PLAIN,
            "sasl.mechanism.controller.protocol": PLAIN,
            "sasl.enabled.mechanisms": PLAIN,
            f"{clients}sasl.enabled.mechanisms": ",".join(MECHANISMS),
        }
        for mechanism, entry in entries.items():
            settings[f"{clients}{mechanism.lower()}.sasl.jaas.config"] = entry
        for name in _INTERNAL:
            key = f"listener.name.{name.lower()}.plain.sasl.jaas.config"
            settings[key] = entries[PLAIN]
        return settings

    def scram_users(self) -> list[str]:
        """The users that the cluster begins with, as ``--add-scram`` has them."""
        if not self.has_logins:
            return []
        return [
            f"{mechanism}=[name={name},password={self.password(name)},iterations={_ITERATIONS}]"
            for name in self.users
            for mechanism in (SCRAM_256, SCRAM_512)
        ]

    # The clients' side

    def client_properties(self, user: str = USERS[1], mechanism: str = SCRAM_512) -> dict[str, str]:
        """By the names of Kafka's own clients, which ours have as well."""
        self._check(user, mechanism)
        made = {"security.protocol": self.protocol}
        if self.is_encrypted:
            made |= _stores(self.authority, None if self.has_logins else self.certificate(user))
        if self.has_logins:
            made["sasl.mechanism"] = mechanism
            made["sasl.jaas.config"] = self._entry(user, mechanism)
        return made

    def librdkafka_properties(
        self, user: str = USERS[1], mechanism: str = SCRAM_512
    ) -> dict[str, str]:
        """By the names of librdkafka, which confluent-kafka has."""
        self._check(user, mechanism)
        made = {"security.protocol": self.protocol.lower()}
        if self.is_encrypted:
            made["ssl.ca.location"] = str(self.authority)
        if not self.has_logins:
            made["ssl.certificate.location"] = str(self.certificate(user))
            made["ssl.key.location"] = str(self.certificate(user))
            return made
        made["sasl.mechanism"] = mechanism
        if mechanism == OAUTHBEARER:
            unsecured = {
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
            return made | unsecured
        return made | {"sasl.username": user, "sasl.password": self.password(user)}

    def client_security(self, user: str = USERS[1], mechanism: str = SCRAM_512) -> ClientSecurity:
        """For clients of our own."""
        return security_of(self.client_properties(user, mechanism))

    def _entry(self, user: str, mechanism: str) -> str:
        if mechanism == OAUTHBEARER:
            return f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="{user}";'
        module = PLAIN_MODULE if mechanism == PLAIN else SCRAM_MODULE
        return f'{module} required username="{user}" password="{self.password(user)}";'

    def _check(self, user: str, mechanism: str) -> None:
        if user not in self.users:
            raise ValueError(f"there is no user {user!r}, only {', '.join(self.users)}")
        if mechanism not in MECHANISMS:
            raise ValueError(f"mechanism is one of {', '.join(MECHANISMS)}, not {mechanism!r}")


def _stores(authority: Path, own: Path | None) -> dict[str, str]:
    made = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
    if own is not None:
        made |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(own)}
    return made


def _write(path: Path, text: str) -> None:
    """Nobody else may read it, from the first moment on."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)
