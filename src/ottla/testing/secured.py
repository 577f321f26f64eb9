"""What brokers and clusters of tests have in common when they are secured."""

from abc import ABC, abstractmethod

from ottla.client.security import UNSECURED, ClientSecurity
from ottla.server.local_security import ADMIN, SCRAM_512, USERS, LocalSecurity


class Secured(ABC):
    """Tells clients how to get in. ``security`` is None where everybody is let in."""

    security: LocalSecurity | None

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str: ...

    def client_properties(self, user: str = USERS[1], mechanism: str = SCRAM_512) -> dict[str, str]:
        """All that a client needs, by Kafka's names: those of Java, of Spark and of our own.

        Users are admin, alice and bob.
        """
        servers = {"bootstrap.servers": self.bootstrap_servers}
        if self.security is None:
            return servers
        return servers | self.security.client_properties(user, mechanism)

    def librdkafka_properties(
        self, user: str = USERS[1], mechanism: str = SCRAM_512
    ) -> dict[str, str]:
        """The same by the names of librdkafka: for confluent-kafka, and for kcat."""
        servers = {"bootstrap.servers": self.bootstrap_servers}
        if self.security is None:
            return servers
        return servers | self.security.librdkafka_properties(user, mechanism)

    def client_security(self, user: str = ADMIN, mechanism: str = SCRAM_512) -> ClientSecurity:
        """For clients of our own, beside the address."""
        if self.security is None:
            return UNSECURED
        return self.security.client_security(user, mechanism)
