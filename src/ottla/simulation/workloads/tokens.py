"""Delegation tokens, by users who log in: made, renewed, removed, and left to expire."""

from typing import ClassVar, Final, TypeVar

from ottla.common.errors import ErrorCode
from ottla.network.node_client import NodeClient, NodeClientLimits
from ottla.protocol.generated.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.generated.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.generated.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.generated.renew_delegation_token import RenewDelegationTokenRequest
from ottla.protocol.message import Request, Response
from ottla.simulation.checkers.tokens import CREATE, REMOVE, RENEW
from ottla.simulation.cluster_client import ClusterClient, World
from ottla.simulation.history import ChangeToken, History, Outcome, SeeTokens
from ottla.simulation.logins import LOGIN_PORT, LOGINS, login_as
from ottla.simulation.workloads.workload import Workload

R = TypeVar("R", bound=Response)

USERS: Final = ("alice", "bob")
PAUSE_SECONDS_MAX: Final = 0.5
SHORT_MS: Final = 3_000
TOKEN_SETTINGS: Final = {
    **LOGINS,
    "delegation.token.secret.key": "of the simulated cluster",
    "delegation.token.expiry.check.interval.ms": "2000",
}
"""What brokers need for it."""
_CERTAIN: Final = frozenset(
    {
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_EXPIRED,
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
    }
)
"""Answers after which nothing has changed; after another the request may have come through."""


class _User:
    """One who has logged in at all brokers."""

    def __init__(self, world: World, client: ClusterClient, name: str) -> None:
        self.client = client
        network = world.client_network(client.name)
        self.connections = {
            host: NodeClient(
                network,
                world.scheduler,
                host,
                LOGIN_PORT,
                client_id=client.name,
                limits=NodeClientLimits(timeout_seconds=5.0, backoff_seconds=0.05),
                login=login_as(name),
            )
            for host, _ in world.bootstrap
        }
        self.hmacs: dict[str, bytes] = {}

    async def ask(self, request: Request[R]) -> R:
        host = self.client.chance.choose(sorted(self.connections))
        return await self.connections[host].send(request)


class DelegationTokens(Workload):
    NAME: ClassVar[str] = "tokens"

    def __init__(self, world: World, history: History) -> None:
        super().__init__(world, history)
        self._users = [_User(world, self.client(name), name) for name in USERS]

    async def prepare(self) -> None:
        """Has nothing to prepare: tokens need no topic."""

    def start(self) -> None:
        for user in self._users:
            self.begin(user.client.name, self._live(user))

    async def _live(self, user: _User) -> None:
        while not self.is_stopping:
            await user.client.pause(0.0, PAUSE_SECONDS_MAX)
            choice = user.client.chance.below(6)
            if choice < 2 or not user.hmacs:
                await self._create(user)
                continue
            token_id = user.client.chance.choose(sorted(user.hmacs))
            if choice < 4:
                await self._renew(user, token_id)
            else:
                await self._remove(user, token_id)

    async def _create(self, user: _User) -> None:
        lifetime_ms = SHORT_MS if user.client.chance.below(4) == 0 else -1
        change = self.history.begin(ChangeToken(process=user.client.name, change=CREATE))
        try:
            made = await user.ask(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms))
        except OSError:
            self.history.end(change, Outcome.UNKNOWN)
            return
        change.token_id, change.expires_ms = made.token_id, made.expiry_timestamp_ms
        self._end(change, made.error_code)
        if change.is_ok:
            user.hmacs[made.token_id] = made.hmac

    async def _renew(self, user: _User, token_id: str) -> None:
        """Also what was removed: that must not bring it back."""
        period_ms = 10_000_000 + user.client.chance.below(1000)
        request = RenewDelegationTokenRequest(hmac=user.hmacs[token_id], renew_period_ms=period_ms)
        change = self._begin(user, token_id, RENEW)
        try:
            answer = await user.ask(request)
        except OSError:
            self.history.end(change, Outcome.UNKNOWN)
            return
        change.expires_ms = answer.expiry_timestamp_ms
        self._end(change, answer.error_code)

    async def _remove(self, user: _User, token_id: str) -> None:
        request = ExpireDelegationTokenRequest(hmac=user.hmacs[token_id], expiry_time_period_ms=-1)
        change = self._begin(user, token_id, REMOVE)
        try:
            answer = await user.ask(request)
        except OSError:
            self.history.end(change, Outcome.UNKNOWN)
            return
        self._end(change, answer.error_code)

    def _begin(self, user: _User, token_id: str, what: str) -> ChangeToken:
        change = ChangeToken(process=user.client.name, change=what, token_id=token_id)
        return self.history.begin(change)

    def _end(self, change: ChangeToken, code: int) -> None:
        outcome = Outcome.FAILED if code in _CERTAIN else Outcome.UNKNOWN
        self.history.end(change, Outcome.OK if code == ErrorCode.NONE else outcome)

    async def conclude(self) -> None:
        """Look at what each broker has."""
        for host in self._users[0].connections:
            seen = self.history.begin(SeeTokens(process=host))
            seen.tokens = await self._see(self._users[0], host)
            seen.wall_ms = self.world.scheduler.wall_ms()
            seen.clocks_were_right = not self.world.clocks_were_skewed
            self.history.end(seen)

    async def _see(self, user: _User, host: str) -> list[tuple[str, int]]:
        while True:
            try:
                request = DescribeDelegationTokenRequest(owners=None)
                answer = await user.connections[host].send(request)
            except OSError:
                await user.client.back_off()
            else:
                assert answer.error_code == ErrorCode.NONE
                return [(each.token_id, each.expiry_timestamp) for each in answer.tokens]

    def close(self) -> None:
        super().close()
        for user in self._users:
            for connection in user.connections.values():
                connection.close()
