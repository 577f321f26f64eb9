"""A broker that answers as a test tells it to: late, wrong, or not at all."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.frame import frame
from ottla.protocol.generated.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.generated.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.generated.response_header import ResponseHeader
from ottla.protocol.headers import decode_request_header, response_header_version
from ottla.protocol.message import Message, from_bytes, to_bytes

TOPIC_ID = bytes(range(16))

HANG_UP = b"hang up"
SILENCE = b"silence"
Answer = Callable[[Message, int], Message | bytes]


class ScriptedBroker:
    """Serves on a port of its own; ``asked`` has what came, in order."""

    def __init__(self, answers: dict[int, Answer], *, apis: set[int] | None = None) -> None:
        self.answers = answers
        self.asked: list[tuple[int, int, Message]] = []
        self.connections = 0
        self._apis = set(APIS) if apis is None else apis
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def requests(self, api_key: int) -> list[Message]:
        return [message for key, _, message in self.asked if key == api_key]

    def _accept(self) -> None:
        servers: list[threading.Thread] = []
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self.connections += 1
                servers.append(
                    threading.Thread(target=self._serve, args=(connection,), daemon=True)
                )
                servers[-1].start()
        for server in servers:
            server.join()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                data = stream.read(struct.unpack(">i", size)[0])
                answer = self._answer(data)
                if answer == HANG_UP:
                    return
                if answer != SILENCE:
                    connection.sendall(answer)

    def _answer(self, data: bytes) -> bytes:
        header, pos = decode_request_header(data, 0)
        key, version = header.request_api_key, header.request_api_version
        if key == ApiKey.API_VERSIONS and key not in self.answers:
            return self._reply(header.correlation_id, key, version, self._versions())
        request = from_bytes(APIS[key].request_class(), data[pos:], version)
        self.asked.append((key, version, request))
        answer = self.answers[key](request, version)
        if isinstance(answer, bytes):
            return answer
        return self._reply(header.correlation_id, key, version, answer)

    def _reply(self, correlation_id: int, key: int, version: int, answer: Message) -> bytes:
        header = ResponseHeader(correlation_id=correlation_id)
        head = to_bytes(header, response_header_version(key, version))
        return frame(head + to_bytes(answer, version))

    def _versions(self) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=key,
                    min_version=APIS[key].lowest_version,
                    max_version=APIS[key].highest_version,
                )
                for key in sorted(self._apis)
            ]
        )


def metadata(*brokers: ScriptedBroker, leader: int = 0, epoch: int = 0) -> MetadataResponse:
    """A cluster of these brokers, numbered from 0, with a topic ``t`` of one partition."""
    return MetadataResponse(
        cluster_id="scripted",
        controller_id=0,
        brokers=[
            MetadataResponseBroker(node_id=node_id, host="127.0.0.1", port=broker.port)
            for node_id, broker in enumerate(brokers)
        ],
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=0,
                        leader_id=leader,
                        leader_epoch=epoch,
                        replica_nodes=[leader],
                        isr_nodes=[leader],
                    )
                ],
            )
        ],
    )
