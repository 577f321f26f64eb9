"""A client on a simulated host: it finds leaders and coordinators, and asks again as clients do.

Everything is a coroutine over promises and happens in virtual time. What breaks is an ``OSError``:
whether the request had an effect is then unknown. Each purpose has a connection of its own to a
node, so that a fetch that waits keeps no heartbeat.
"""

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

from ottla.common.chance import Chance
from ottla.common.errors import RETRIABLE, ErrorCode
from ottla.common.promise import Promise
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.network.sockets import DiallingNetwork
from ottla.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
)
from ottla.protocol.generated.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
)
from ottla.protocol.message import Message, Request, Response
from ottla.security.sasl_client import SaslLogin
from ottla.simulation.logins import LOGIN_PORT
from ottla.simulation.scheduler import SimulatedScheduler

R = TypeVar("R", bound=Response)
Address = tuple[str, int]
Place = tuple[str, int]

REQUEST_SECONDS: Final = 5.0
COORDINATOR_SECONDS: Final = 12.0
"""Longer than a group waits for its members to join again."""
BACKOFF_SECONDS: Final = (0.05, 0.4)
DATA: Final = "data"
COORDINATOR: Final = "coordinator"
GROUP: Final = 0
TRANSACTION: Final = 1


class World(Protocol):
    """What clients need of a simulation."""

    @property
    def scheduler(self) -> SimulatedScheduler: ...

    @property
    def bootstrap(self) -> list[Address]: ...

    @property
    def directories(self) -> tuple[str, ...]:
        """The log directories of each broker."""
        ...

    @property
    def clocks_were_skewed(self) -> bool: ...

    @property
    def lost(self) -> set[str]:
        """Topics that have had an unclean election."""
        ...

    @property
    def groups_may_go(self) -> bool:
        """Whether a group without members and offsets goes within a run."""
        ...

    @property
    def leisure(self) -> float:
        """How long clients pause between their acts, against what their workload says."""
        ...

    def known_everywhere(self) -> Callable[[], bool]:
        """What tells whether all brokers that serve know what is committed now."""
        ...

    def client_network(self, name: str) -> DiallingNetwork: ...

    def part(self, name: str) -> Chance: ...

    def note(self, what: str) -> None: ...


class OlderNodeClient(NodeClient):
    """Speaks no higher version of an API than ``highest`` has for it, as an older client would."""

    highest: Mapping[int, int] = {}

    def _version(self, message: Message) -> int:
        version = super()._version(message)
        return min(version, self.highest.get(message.API_KEY, version))


class ClusterClient:
    """One process on one host of its own, named as the process is."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        login: SaslLogin | None = None,
        highest: Mapping[int, int] | None = None,
        request_seconds: float = REQUEST_SECONDS,
        coordinator_seconds: float = COORDINATOR_SECONDS,
    ) -> None:
        self.name = name
        self.world = world
        self.scheduler = world.scheduler
        self.chance = world.part(f"client {name}")
        self._network = world.client_network(name)
        self._login = login
        self._highest = highest or {}
        self._seconds = {DATA: request_seconds, COORDINATOR: coordinator_seconds}
        """How long an answer is waited for."""
        self._connections: dict[tuple[Address, str], OlderNodeClient] = {}
        self.brokers: dict[int, Address] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.leaders: dict[Place, tuple[int, int]] = {}
        """Leader and leader epoch of each partition."""
        self._coordinators: dict[tuple[int, str], int] = {}

    @property
    def now(self) -> float:
        return self.scheduler.now

    async def pause(self, low: float, high: float | None = None) -> None:
        """Let a while pass; with two bounds it is drawn from the seed, by the world's leisure."""
        if high is None:
            await self._sleep(low)
        else:
            await self._sleep(self.chance.between(low, high) * self.world.leisure)

    async def back_off(self) -> None:
        await self._sleep(self.chance.between(*BACKOFF_SECONDS))

    async def _sleep(self, seconds: float) -> None:
        passed: Promise[None] = Promise(self.scheduler.turn)
        self.scheduler.call_later(seconds, passed.fulfil, None)
        await passed

    def close(self) -> None:
        """End all connections; what is under way fails."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close()

    # Asking

    async def ask(self, node_id: int, message: Request[R], purpose: str = DATA) -> R:
        address = self.brokers.get(node_id)
        if address is None:
            raise ConnectionError(f"no way to broker {node_id}")
        return await self.ask_at(address, message, purpose)

    async def ask_at(self, address: Address, message: Request[R], purpose: str) -> R:
        connection = self._connections.get((address, purpose))
        if connection is None:
            connection = OlderNodeClient(
                self._network,
                self.scheduler,
                *address,
                client_id=self.name,
                login=self._login,
                limits=NodeClientLimits(
                    timeout_seconds=self._seconds[purpose],
                    backoff_seconds=0.05,
                    backoff_max_seconds=0.5,
                ),
            )
            connection.highest = self._highest
            self._connections[address, purpose] = connection
        return await connection.send(message)

    async def ask_any(self, message: Request[R]) -> R:
        """Ask one of the brokers, whichever it is."""
        bootstrap = self.world.bootstrap
        if self._login is not None:
            bootstrap = [(host, LOGIN_PORT) for host, _ in bootstrap]
        known = [*self.brokers.values(), *bootstrap]
        return await self.ask_at(self.chance.choose(known), message, DATA)

    # Who leads, who coordinates

    async def refresh(self, *topics: str) -> None:
        """Learn where the partitions of ``topics`` are; OSError when nobody tells."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics],
            allow_auto_topic_creation=False,
        )
        answer = await self.ask_any(request)
        self.brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        for topic in answer.topics:
            if topic.name is None or topic.error_code != ErrorCode.NONE:
                continue
            if self.topic_ids.get(topic.name) != topic.topic_id:
                self.topic_ids[topic.name] = topic.topic_id
                self._forget_leaders(topic.name)
            for each in topic.partitions:
                place = (topic.name, each.partition_index)
                known = self.leaders.get(place)
                # A broker that lags behind knows older epochs: what is newer stays.
                if known is None or each.leader_epoch >= known[1]:
                    self.leaders[place] = (each.leader_id, each.leader_epoch)

    def _forget_leaders(self, topic: str) -> None:
        for place in [place for place in self.leaders if place[0] == topic]:
            del self.leaders[place]

    async def leader(self, place: Place) -> tuple[int, int]:
        """The leader of a partition and its epoch, as far as is known; OSError when none is."""
        if place not in self.leaders or not self.brokers:
            await self.refresh(place[0])
        node_id, epoch = self.leaders.get(place, (-1, -1))
        if node_id < 0:
            self.leaders.pop(place, None)
            raise ConnectionError(f"{place} has no leader")
        return node_id, epoch

    async def renew(self, place: Place) -> None:
        """After a refusal: wait a little, and ask who leads now; the next attempt may know."""
        await self.back_off()
        try:
            await self.refresh(place[0])
        except OSError:
            self.leaders.pop(place, None)

    async def coordinator(self, kind: int, key: str) -> int:
        """The node id of a coordinator; OSError when there is none now."""
        node_id = self._coordinators.get((kind, key))
        if node_id is not None:
            return node_id
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = (await self.ask_any(request)).coordinators[0]
        if answer.error_code != ErrorCode.NONE:
            raise ConnectionError(f"no coordinator: {ErrorCode(answer.error_code).name}")
        self.brokers[answer.node_id] = (answer.host, answer.port)
        self._coordinators[kind, key] = answer.node_id
        return answer.node_id

    async def ask_coordinator(self, kind: int, key: str, message: Request[R]) -> R:
        node_id = await self.coordinator(kind, key)
        try:
            return await self.ask(node_id, message, COORDINATOR)
        except OSError:
            self._coordinators.pop((kind, key), None)
            raise

    def forget_coordinator(self, kind: int, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    # Topics

    async def create_topic(
        self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]
    ) -> None:
        """Ask until it is there; a topic that cannot be made is a mistake of the workload."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[CreatableTopicConfig(name=key, value=configs[key]) for key in configs],
        )
        done = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        # While a broker stops cleanly it takes no replicas, and there may be too few.
        again = (*RETRIABLE, ErrorCode.INVALID_REPLICATION_FACTOR)
        while True:
            try:
                request = CreateTopicsRequest(topics=[topic], timeout_ms=4_000)
                answer = await self.ask_any(request)
                code = answer.topics[0].error_code
                assert code in done or code in again, answer.topics[0].error_message
                if code in done:
                    await self.refresh(name)
                    if all((name, index) in self.leaders for index in range(partitions)):
                        return
            except OSError:
                pass
            await self.back_off()
