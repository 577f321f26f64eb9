"""The APIs: which there are, in which versions, and on which listeners Kafka serves them.

The table is generated from the schema. Classes are imported when somebody asks for them: a broker
that never sees a StreamsGroupHeartbeat never loads it, and starts the sooner.
"""

from importlib import import_module
from typing import Final, cast

from ottla.protocol.generated.api_keys import ROWS, ApiKey
from ottla.protocol.message import Message

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ZK_BROKER: Final = "zkBroker"

__all__ = ["APIS", "BROKER", "CONTROLLER", "ZK_BROKER", "Api", "ApiKey"]


class Api:
    """One row of the table."""

    __slots__ = (
        "_module",
        "_request",
        "_response",
        "cluster_action",
        "flexible_from",
        "forwardable",
        "highest_version",
        "key",
        "latest_version_unstable",
        "listeners",
        "lowest_version",
        "name",
    )

    def __init__(
        self,
        key: ApiKey,
        row: tuple[str, str, int, int, int, tuple[str, ...], bool, bool, bool],
    ) -> None:
        self.key = key
        self.name, self._module, self.lowest_version, self.highest_version = row[:4]
        self.flexible_from = row[4]
        """The first version with tagged fields; one above the highest when none has them."""
        self.listeners = frozenset(row[5])
        self.forwardable, self.cluster_action, self.latest_version_unstable = row[6:]
        self._request: type[Message] | None = None
        self._response: type[Message] | None = None

    def request_class(self) -> type[Message]:
        """The class of the request, imported at the first call."""
        if self._request is None:
            self._request = self._load("Request")
        return self._request

    def response_class(self) -> type[Message]:
        if self._response is None:
            self._response = self._load("Response")
        return self._response

    @property
    def highest_stable_version(self) -> int:
        return self.highest_version - self.latest_version_unstable

    def _load(self, kind: str) -> type[Message]:
        module = import_module(f"ottla.protocol.generated.{self._module}")
        return cast("type[Message]", getattr(module, self.name + kind))

    def __repr__(self) -> str:
        return f"Api({self.name}, {self.lowest_version}-{self.highest_version})"


APIS: Final[dict[int, Api]] = {key: Api(ApiKey(key), row) for key, row in ROWS.items()}
