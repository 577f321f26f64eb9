"""Apache Kafka 4.3.1 leads the quorum, and one of our nodes takes part in it: observer, then voter.

Our node is the real driver on real files, sockets and time, with a listener for the quorum alone.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.raft.quorums import Notes, settings
from tests.turns import TURN
from tests.waiting import eventually_async
from tools.kafka_peer.broker_process import BrokerProcess, apache_kafka, free_ports
from tools.kafka_peer.peer import run_tool

from ottla.common.chance import Chance
from ottla.common.identifiers import uuid_text
from ottla.common.promise import Promise, fulfilled
from ottla.network.channel import NetworkChannel
from ottla.network.connection import Connection
from ottla.network.node_client import NodeClientLimits
from ottla.network.server import SocketServer, SocketServerLimits
from ottla.network.sockets import LoopNetwork
from ottla.protocol.api import APIS, ApiKey
from ottla.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.headers import decode_request_header
from ottla.protocol.message import Message, from_buffer
from ottla.raft.driver import RaftDriver
from ottla.raft.log import MetadataLog, metadata_directory
from ottla.raft.responses import Asker
from ottla.raft.roles import Follower
from ottla.raft.service import RaftService
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import ReplicaKey, VoterEndpoint
from ottla.requests.framing import frame_response
from ottla.server.environment import LoopScheduler
from ottla.storage.files import OsFilesystem

pytestmark = [pytest.mark.peer, pytest.mark.timeout(300)]
KEY = ReplicaKey(2, bytes(range(16)))
SEGMENT = "__cluster_metadata-0/00000000000000000000.log"


class OurNode:
    """Node 2, which serves the quorum and nothing else."""

    SERVED = (
        ApiKey.API_VERSIONS,
        ApiKey.FETCH,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH_SNAPSHOT,
    )

    def __init__(self, directory: Path, kafka: BrokerProcess, *, auto_join: bool) -> None:
        loop = asyncio.get_running_loop()
        self.failures: list[BaseException] = []
        self.notes = Notes()
        self.directory = directory
        self._scheduler = LoopScheduler(loop)
        network = LoopNetwork(loop, self._scheduler.turn)
        self._server = SocketServer(network, self._scheduler, _limits())
        (port,) = free_ports(1)
        self._server.listen("CONTROLLER", "127.0.0.1", port)
        self._endpoint = VoterEndpoint("CONTROLLER", "127.0.0.1", port)
        self._channel = NetworkChannel(
            network,
            self._scheduler,
            client_id="raft-client-2",
            limits=NodeClientLimits(timeout_seconds=5.0, backoff_seconds=0.05),
        )
        filesystem = OsFilesystem()
        config = settings(node_id="2")
        self.driver = RaftDriver(
            key=KEY,
            settings=RaftSettings(
                metadata_directory(str(directory)),
                cluster_id=kafka.cluster_id,
                listener_name="CONTROLLER",
                bootstrap_servers=(("127.0.0.1", kafka.controller_port),),
                auto_join=auto_join,
            ),
            static_voters=None,
            log=MetadataLog.open(filesystem, str(directory), config, self._scheduler.wall_ms()),
            filesystem=filesystem,
            scheduler=self._scheduler,
            chance=Chance(),
            listener=self.notes,
            on_failure=self.failures.append,
            channel=self._channel,
        )
        self.service = RaftService(self.driver)

    def start(self) -> None:
        self._server.start({"CONTROLLER": self._answer})
        self.driver.start([self._endpoint])

    def stop(self) -> None:
        self.driver.stop()
        self._server.close()
        self._channel.close()
        self._scheduler.close()

    def _answer(self, _: Connection, frame: memoryview) -> Promise[Any]:
        data = bytes(frame)
        header, pos = decode_request_header(data, 0)
        key, version = header.request_api_key, header.request_api_version
        request, _pos = from_buffer(APIS[key].request_class(), data, pos, version)
        framed: Promise[Any] = Promise(TURN)
        self._handle(key, request, Asker(version, "CONTROLLER")).when_done(
            lambda done: framed.fulfil(
                frame_response(done.result(), key, version, header.correlation_id)
            )
        )
        return framed

    def _handle(self, key: int, request: Any, asker: Asker) -> Promise[Any]:
        if key == ApiKey.API_VERSIONS:
            return fulfilled(TURN, self._versions())
        if key == ApiKey.FETCH:
            return self.service.fetch(request, asker)
        handlers: dict[int, Callable[[Any, Asker], Message]] = {
            ApiKey.VOTE: self.service.vote,
            ApiKey.BEGIN_QUORUM_EPOCH: self.service.begin_quorum_epoch,
            ApiKey.END_QUORUM_EPOCH: self.service.end_quorum_epoch,
            ApiKey.FETCH_SNAPSHOT: self.service.fetch_snapshot,
        }
        return fulfilled(TURN, handlers[key](request, asker))

    def _versions(self) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=k, min_version=a.lowest_version, max_version=a.highest_version)
            for k, a in ((key, APIS[key]) for key in self.SERVED)
        ]
        feature = SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)
        return ApiVersionsResponse(api_keys=keys, supported_features=[feature])


def _limits() -> SocketServerLimits:
    return SocketServerLimits(
        connections=100,
        connections_per_ip=100,
        connections_per_ip_overrides={},
        frame_bytes=100 << 20,
        idle_ms=600_000,
        queued_request_bytes=-1,
    )


@contextlib.asynccontextmanager
async def both(tmp_path: Path, *, auto_join: bool) -> AsyncIterator[tuple[BrokerProcess, OurNode]]:
    kafka = BrokerProcess(apache_kafka(heap=("-Xmx512M",)), tmp_path / "kafka", {})
    await asyncio.to_thread(kafka.start)
    (tmp_path / "ours" / "__cluster_metadata-0").mkdir(parents=True)
    node = OurNode(tmp_path / "ours", kafka, auto_join=auto_join)
    try:
        node.start()
        yield kafka, node
        assert not node.failures
    finally:
        node.stop()
        await asyncio.to_thread(kafka.kill)


async def tool(name: str, *words: str) -> str:
    done = await asyncio.to_thread(run_tool, name, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


async def quorum(kafka: BrokerProcess, *words: str) -> str:
    address = f"127.0.0.1:{kafka.controller_port}"
    return await tool("kafka-metadata-quorum", "--bootstrap-controller", address, *words)


def status(described: str) -> dict[int, str]:
    """By node, what ``describe --replication`` says that it is."""
    rows = [line.split() for line in described.splitlines()]
    return {int(row[0]): row[-1] for row in rows if row and row[0].isdigit()}


async def create_topic(kafka: BrokerProcess, name: str) -> None:
    words = ("--bootstrap-server", kafka.bootstrap_servers, "--create", "--topic", name)
    await tool("kafka-topics", *words)


def test_our_observer_follows_a_quorum_that_apache_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with both(tmp_path, auto_join=False) as (kafka, node):
            await eventually_async(lambda: node.driver.high_watermark > 10)
            await create_topic(kafka, "seen-by-both")
            await eventually_async(
                lambda: any(b"seen-by-both" in each for each in node.notes.values)
            )
            assert isinstance(node.driver.node.role, Follower)
            assert node.driver.node.leader_id == 1
            assert node.driver.voters.ids == [1]
            assert status(await quorum(kafka, "describe", "--replication")) == {
                1: "Leader",
                2: "Observer",
            }
            ours = (node.directory / SEGMENT).read_bytes()
            theirs = (kafka.log_directory / SEGMENT).read_bytes()
            assert theirs.startswith(ours), "the same bytes at the same offsets"

    asyncio.run(scenario())


def test_our_node_joins_a_quorum_that_apache_leads_and_its_acknowledgements_count(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with both(tmp_path, auto_join=True) as (kafka, node):
            await eventually_async(lambda: node.driver.voters.ids == [1, 2], seconds=60)
            described = await quorum(kafka, "describe", "--replication")
            assert status(described) == {1: "Leader", 2: "Follower"}
            await create_topic(kafka, "committed-by-both")
            await eventually_async(
                lambda: any(b"committed-by-both" in each for each in node.notes.values)
            )
            words = ("--controller-id", "2", "--controller-directory-id", uuid_text(KEY[1]))
            await quorum(kafka, "remove-controller", *words)
            await eventually_async(lambda: node.driver.voters.ids == [1])
            await create_topic(kafka, "committed-alone")

    asyncio.run(scenario())
