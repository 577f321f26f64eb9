"""A topic that users may read or write only as ACLs say, which an administrator changes all along.

Each ACL is touched by one request at a time. One whose request had no answer may be carried out
late: it is left alone until all is quiet, and what it decides is not judged. There are many that
say the same (other patterns for the same topic), so that changes go on.
"""

from typing import ClassVar, Final, NamedTuple

from ottla.common.authorization import WILDCARD, AclOperation, PatternType, Permission, ResourceType
from ottla.common.errors import ErrorCode
from ottla.metadata.acls import AclImage
from ottla.protocol.generated.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.generated.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.generated.describe_acls import DescribeAclsRequest
from ottla.protocol.generated.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.generated.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.simulation.cluster_client import DATA, Address, ClusterClient
from ottla.simulation.history import ChangeAcl, ListAcls, Outcome, Send, TryAccess
from ottla.simulation.logins import ADMIN, USERS, login_as
from ottla.simulation.workloads.consuming import read_all
from ottla.simulation.workloads.workload import Workload

PARTITIONS: Final = 2
KNOWN_SECONDS: Final = 0.1
"""How often it is looked whether all brokers know of a change."""
OPERATIONS: Final = {"read": AclOperation.READ, "write": AclOperation.WRITE}
DENIES_ONE_IN: Final = 4
_SAYS: Final[dict[int, Outcome]] = {
    ErrorCode.NONE: Outcome.OK,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Outcome.FAILED,
}
"""Answers that say whether it is allowed."""


class Binding(NamedTuple):
    """One ACL; equal ones are one."""

    user: str
    operation: str
    is_allowed: bool
    pattern: str
    is_prefix: bool

    def __str__(self) -> str:
        verb = "may" if self.is_allowed else "may not"
        return f"{self.user} {verb} {self.operation} {self.pattern}{'..' if self.is_prefix else ''}"

    def as_acl(self) -> AclImage:
        return AclImage(
            resource_type=int(ResourceType.TOPIC),
            resource_name=self.pattern,
            pattern_type=int(PatternType.PREFIXED if self.is_prefix else PatternType.LITERAL),
            principal=f"User:{self.user}",
            host=WILDCARD,
            operation=int(OPERATIONS[self.operation]),
            permission_type=int(Permission.ALLOW if self.is_allowed else Permission.DENY),
        )


class _Where(NamedTuple):
    """A partition, and where its leader is."""

    address: Address
    topic: str
    topic_id: bytes
    partition: int


class Guarded(Workload):
    NAME: ClassVar[str] = "guarded"
    REMOVES: ClassVar[bool] = True
    """Whether ACLs go while users are at work."""

    def _bindings(self) -> list[Binding]:
        patterns = [(self.NAME, False), (WILDCARD, False)]
        patterns += [(self.NAME[:size], True) for size in range(1, len(self.NAME) + 1)]
        return [
            Binding(user, operation, is_allowed, *pattern)
            for user in USERS
            for operation in OPERATIONS
            for is_allowed in (True, False)
            for pattern in patterns
        ]

    async def prepare(self) -> None:
        admin = self._admin = self.client("admin", login=login_as(ADMIN))
        await self.create_topic(admin, self.NAME, PARTITIONS)
        self._left = self._bindings()
        """What may be touched: nobody waits for what became of it."""
        self._there: dict[Binding, None] = {}
        """What is there for sure."""
        self._writes = 0

    def start(self) -> None:
        self.begin("admin", self._change())
        for user in USERS:
            self.begin(user, self._use(user))
        self.begin("lister", self._list())

    # The administrator

    async def _change(self) -> None:
        admin = self._admin
        changes = 0
        while not self.is_stopping:
            await admin.pause(0.0, 0.5)
            if self.REMOVES and self._there and admin.chance.below(2):
                binding, is_added = admin.chance.choose(list(self._there)), False
            else:
                wanted = admin.chance.below(DENIES_ONE_IN) > 0
                fitting = [
                    each
                    for each in self._left
                    if each.is_allowed == wanted and each not in self._there
                ]
                if not fitting:
                    continue
                binding, is_added = admin.chance.choose(fitting), True
            change = await self._ask_for(binding, is_added=is_added)
            if change.is_ok:
                changes += 1
                self.begin(f"change {changes}", self._until_known(change))

    async def _ask_for(self, binding: Binding, *, is_added: bool) -> ChangeAcl:
        admin = self._admin
        change = ChangeAcl(
            process=admin.name,
            acl=str(binding),
            user=binding.user,
            operation=binding.operation,
            is_allowed=binding.is_allowed,
            is_added=is_added,
        )
        self._left.remove(binding)
        self._there.pop(binding, None)
        self.history.begin(change)
        try:
            code = await (_create(admin, binding) if is_added else _delete(admin, binding))
        except OSError:
            code = ErrorCode.NETWORK_EXCEPTION
        if code != ErrorCode.NONE:
            return change  # it may happen yet
        self.history.end(change)
        self._left.append(binding)
        if is_added:
            self._there[binding] = None
        return change

    async def _until_known(self, change: ChangeAcl) -> None:
        is_known = self.world.known_everywhere()
        while not is_known():
            await self._admin.pause(KNOWN_SECONDS)
        change.known = self._admin.now

    async def _list(self) -> None:
        client = self.client("lister", login=login_as(ADMIN))
        while not self.is_stopping:
            await client.pause(0.0, 2.0)
            try:
                await client.refresh(self.NAME)
                for node_id in client.brokers:
                    await self._list_at(client, node_id)
            except OSError:
                await client.back_off()

    async def _list_at(self, client: ClusterClient, node_id: int) -> None:
        listing = self.history.begin(ListAcls(process=client.name, broker=node_id))
        request = DescribeAclsRequest(
            resource_type_filter=int(ResourceType.ANY),
            pattern_type_filter=int(PatternType.ANY),
            operation=int(AclOperation.ANY),
            permission_type=int(Permission.ANY),
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
        )
        answer = await client.ask(node_id, request)
        if answer.error_code != ErrorCode.NONE:
            return
        names = {each.as_acl(): str(each) for each in self._bindings()}
        listing.acls = [
            names[
                AclImage(
                    resource.resource_type,
                    resource.resource_name,
                    resource.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
            ]
            for resource in answer.resources
            for acl in resource.acls
        ]
        self.history.end(listing)

    # Users

    async def _use(self, user: str) -> None:
        """Try what may be allowed or not; somebody else says where the leader is."""
        client = self.client(user, login=login_as(user))
        guide = self.client(f"{user}-guide", login=login_as(ADMIN))
        while not self.is_stopping:
            await client.pause(0.0, 0.3)
            operation = client.chance.choose(list(OPERATIONS))
            await self._try(client, guide, user, operation, client.chance.below(PARTITIONS))

    async def _try(
        self, client: ClusterClient, guide: ClusterClient, user: str, operation: str, index: int
    ) -> bool:
        """Whether there was an answer that says whether it is allowed."""
        place = (self.NAME, index)
        attempt = TryAccess(process=client.name, user=user, operation=operation, topic=self.NAME)
        try:
            leader, _ = await guide.leader(place)
            where = _Where(guide.brokers[leader], self.NAME, guide.topic_ids[self.NAME], index)
            self.history.begin(attempt)
            if operation == "write":
                code = await self._write(client, where, attempt)
            else:
                fetched = await client.ask_at(where.address, _fetch(where), DATA)
                partitions = [each for topic in fetched.responses for each in topic.partitions]
                code = partitions[0].error_code if partitions else fetched.error_code
        except OSError:
            code = ErrorCode.NETWORK_EXCEPTION
        if code in _SAYS:
            self.history.end(attempt, _SAYS[code])
            return True
        await guide.renew(place)
        return False

    async def _write(self, client: ClusterClient, where: "_Where", attempt: TryAccess) -> int:
        self._writes += 1
        attempt.value = f"{client.name}/{self._writes}"
        send = Send(
            process=client.name, topic=where.topic, partition=where.partition, value=attempt.value
        )
        self.history.begin(send)
        request = _produce(where, attempt.value, client.scheduler.wall_ms())
        answer = await client.ask_at(where.address, request, DATA)
        code = answer.responses[0].partition_responses[0].error_code
        if code in _SAYS:
            self.history.end(send, _SAYS[code])
        return code

    # When all is quiet

    async def conclude(self) -> None:
        """What there is on each broker; then nothing is allowed any more, and all is read."""
        client = self.client("end", login=login_as(ADMIN))
        await self._list_everywhere(client)
        for binding in self._bindings():
            if binding not in self._there and binding in self._left:
                continue
            if binding not in self._left:
                self._left.append(binding)
            while not (change := await self._ask_for(binding, is_added=False)).is_ok:
                self._left.append(binding)
                await client.back_off()
            await self._until_known(change)
        await self._list_everywhere(client)
        for user in USERS:
            for operation in OPERATIONS:
                for index in range(PARTITIONS):
                    while not await self._try(self._clients[user], client, user, operation, index):
                        await client.back_off()
        await read_all(self, [(self.NAME, index) for index in range(PARTITIONS)])

    async def _list_everywhere(self, client: ClusterClient) -> None:
        await client.refresh(self.NAME)
        for node_id in client.brokers:
            await self._list_at(client, node_id)


async def _create(client: ClusterClient, binding: Binding) -> int:
    acl = binding.as_acl()
    creation = AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
    return (await client.ask_any(CreateAclsRequest(creations=[creation]))).results[0].error_code


async def _delete(client: ClusterClient, binding: Binding) -> int:
    acl = binding.as_acl()
    wanted = DeleteAclsFilter(
        resource_type_filter=acl.resource_type,
        resource_name_filter=acl.resource_name,
        pattern_type_filter=acl.pattern_type,
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=acl.operation,
        permission_type=acl.permission_type,
    )
    answer = await client.ask_any(DeleteAclsRequest(filters=[wanted]))
    return answer.filter_results[0].error_code


def _produce(where: _Where, value: str, now_ms: int) -> ProduceRequest:
    data = build_batch([Record(timestamp=now_ms, key=None, value=value.encode())])
    partition = PartitionProduceData(index=where.partition, records=data)
    topic = TopicProduceData(name=where.topic, topic_id=where.topic_id, partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=3_000, topic_data=[topic])


def _fetch(where: _Where) -> FetchRequest:
    wanted = FetchPartition(partition=where.partition, fetch_offset=0, partition_max_bytes=1_000)
    topics = [FetchTopic(topic=where.topic, topic_id=where.topic_id, partitions=[wanted])]
    return FetchRequest(max_wait_ms=100, min_bytes=1, max_bytes=1_000, topics=topics)
