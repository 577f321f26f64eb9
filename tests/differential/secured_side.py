"""A broker with users and an authorizer, of which requests are asked in somebody's name."""

import base64
import contextlib
import re
import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from tests.differential.pair import API_VERSIONS_AFTERWARDS, SILENCE_SECONDS, Side
from tests.differential.wire import (
    Connection,
    ConnectionClosed,
    decode_answer,
    raw_frame,
    request_frame,
)
from tests.waiting import eventually
from tools.kafka_peer.broker_process import BrokerProcess

Json = Any

ADMIN: Final = "admin"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ACLS_AT_ONCE: Final = 500
ANY_ACL: Final = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""A filter that lets all ACLs through."""
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_RANDOM: Final = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|(?<=tests-)[-_A-Za-z0-9]{22}"
)


class Acl(NamedTuple):
    """As CreateAcls numbers its words."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    operation: int
    permission_type: int
    host: str = "*"


def settings(users: Iterable[str]) -> dict[str, str]:
    """Logins by PLAIN on both listeners; everybody's password is the name."""
    words = " ".join(f'user_{name}="{name}"' for name in (ADMIN, *users))
    jaas = f'{_MODULE} required username="{ADMIN}" password="{ADMIN}" {words};'
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": jaas,
        "listener.name.controller.plain.sasl.jaas.config": jaas,
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }


def log_in(connection: Connection, user: str) -> None:
    shaken = connection.ask("SaslHandshake", 1, {"mechanism": "PLAIN"})
    assert shaken["errorCode"] == 0, shaken
    token = f"\0{user}\0{user}".encode()
    answer = connection.ask("SaslAuthenticate", 2, {"auth_bytes": token})
    assert answer["errorCode"] == 0, answer


class Asker:
    """A user's connection to one listener, dialled again when the broker has closed it."""

    def __init__(self, port: int, user: str) -> None:
        self._port = port
        self._user = user
        self._connection: Connection | None = None

    def outcome(self, api: str, version: int, frame: bytes, *, answered: bool) -> Json:
        """The answer, or what came instead of one."""
        if self._connection is None:
            self._connection = Connection(self._port, timeout=SILENCE_SECONDS)
            log_in(self._connection, self._user)
        connection = self._connection
        connection.send(frame)
        if not answered:
            after = raw_frame("ApiVersions", 0, b"", correlation_id=API_VERSIONS_AFTERWARDS)
            connection.send(after)
        try:
            answer = connection.receive()
        except (ConnectionClosed, TimeoutError) as error:
            self.close()
            return {"outcome": "closed" if isinstance(error, ConnectionClosed) else "silence"}
        if struct.unpack_from(">i", answer)[0] == API_VERSIONS_AFTERWARDS:
            return {"outcome": "no answer"}
        if not answered:
            connection.receive()
        decoded = decode_answer(api, version, answer)
        if decoded.get("responseData"):  # of an envelope
            enclosed = base64.b64decode(decoded["responseData"])
            decoded["responseData"] = decode_answer("CreateTopics", 7, enclosed)
        return {"outcome": "answered", "answer": decoded}

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SecuredSide(Side):
    """``as_admin`` asks as the super user."""

    def __init__(self, broker: BrokerProcess) -> None:
        super().__init__(broker)
        self.ports = {"broker": broker.port, "controller": broker.controller_port}

    def as_admin(self, api: str, version: int, at: str = "broker", **fields: Json) -> Json:
        with contextlib.closing(Connection(self.ports[at])) as connection:
            log_in(connection, ADMIN)
            return connection.ask(api, version, self.resolve(fields))

    def topic_id(self, name: str) -> str:
        if name not in self._ids:
            found = self.as_admin("Metadata", 12, topics=[{"name": name}])
            self._ids[name] = found["topics"][0]["topicId"]
        return self._ids[name]

    def outcome_for(
        self, asker: Asker, api: str, version: int, fields: Json, *, answered: bool
    ) -> Json:
        frame = request_frame(api, version, self.resolve(fields))
        return without_chance(asker.outcome(api, version, frame, answered=answered))

    def add(self, acls: Sequence[Acl]) -> None:
        """Make ACLs, and wait until both listeners know of all."""
        for first in range(0, len(acls), ACLS_AT_ONCE):
            some = [each._asdict() for each in acls[first : first + ACLS_AT_ONCE]]
            answer = self.as_admin("CreateAcls", 3, creations=some)
            assert {each["errorCode"] for each in answer["results"]} == {0}, answer
        for at in self.ports:
            eventually(lambda at=at: self._known(at) >= len(set(acls)), "the ACLs")  # type: ignore[misc]

    def _known(self, at: str) -> int:
        found = self.as_admin("DescribeAcls", 3, at, **ANY_ACL)
        return sum(len(each["acls"]) for each in found["resources"])


def without_chance(value: Json) -> Json:
    """Names that a broker makes up, replaced by a word."""
    if isinstance(value, dict):
        return {key: without_chance(one) for key, one in value.items()}
    if isinstance(value, list):
        return [without_chance(one) for one in value]
    return _RANDOM.sub("<random>", value) if isinstance(value, str) else value
