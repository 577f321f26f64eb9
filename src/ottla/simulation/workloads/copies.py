"""Consume, transform, produce: members of a group copy a topic to another, exactly once."""

from typing import ClassVar, Final

from ottla.simulation.cluster_client import ClusterClient, Place, World
from ottla.simulation.history import Copy, History, Isolation, Outcome, Poll, UseTopic
from ottla.simulation.workloads.consuming import Cursor, read_all
from ottla.simulation.workloads.groups import BEAT_SECONDS, KINDS
from ottla.simulation.workloads.membership import Member
from ottla.simulation.workloads.offsets import fetch_offset, keep_group
from ottla.simulation.workloads.records import PARTITIONS, Records
from ottla.simulation.workloads.transactional import Fenced, Spoilt, TransactionalProducer
from ottla.simulation.workloads.transactions import end_open, options

COPIERS: Final = 2


class Copies(Records):
    """The source is ``copied``, written by one idempotent producer; each group copies all of it."""

    NAME: ClassVar[str] = "copied"

    def __init__(self, world: World, history: History) -> None:
        super().__init__(world, history, producers=1)
        self.targets: list[Place] = [(f"{self.NAME}-to", index) for index in range(PARTITIONS)]

    async def prepare(self) -> None:
        await super().prepare()
        topic = self.targets[0][0]
        admin = self.client("admin-of-targets")
        await self.create_topic(admin, topic, PARTITIONS)
        self.history.add(UseTopic(process=admin.name, topic=topic))
        if self.world.groups_may_go:
            await admin.refresh(self.NAME)
            for kind in KINDS:
                await keep_group(admin, self.history, f"{kind}-copiers", self.places)

    def start(self) -> None:
        self.begin("producer", self._produce("producer"))
        for name, group in self._names().items():
            self.begin(name, self._live(name, f"{group}-copiers", KINDS[group]))

    def _names(self) -> dict[str, str]:
        """Of all copiers, which are their transactional ids; and the kind of their groups."""
        return {f"{group}-{number}": group for group in KINDS for number in range(COPIERS)}

    async def conclude(self) -> None:
        await end_open(self, self._names())
        await read_all(self, [*self.places, *self.targets])
        client = self.client("offsets")
        for kind in KINDS:
            for place in self.places:
                group = f"{kind}-copiers"
                while await fetch_offset(client, self.history, group, place, is_final=True) is None:
                    pass

    async def _live(self, name: str, group: str, kind: type[Member]) -> None:
        lives = 0
        while not self.is_stopping:
            lives += 1
            version = self.chance.below(2) + 1
            client = self.client(f"{name}-{lives}", **options(version))
            await client.pause(0.0, 3.0)
            member = kind(client, self.history, group, self.places)
            producer = TransactionalProducer(client, self.history, name, version)
            await Copier(self, client, member, producer).run()
            client.close()


class Copier:
    """A member with a transactional producer; whatever goes wrong, it begins anew."""

    def __init__(
        self,
        workload: Copies,
        client: ClusterClient,
        member: Member,
        producer: TransactionalProducer,
    ) -> None:
        self._workload = workload
        self._history = workload.history
        self._client = client
        self._member = member
        self._producer = producer
        self._cursors: dict[Place, Cursor] = {}
        self._count = 0

    async def run(self) -> None:
        dies_at = self._client.now + self._client.chance.between(5.0, 60.0)
        beats_at = 0.0
        try:
            await self._producer.init()
            while not self._workload.is_stopping and self._client.now < dies_at:
                if self._client.now >= beats_at:
                    beats_at = self._client.now + BEAT_SECONDS
                    if not await self._member.beat():
                        self._cursors.clear()
                        beats_at = 0.0
                for place in self._member.assignment:
                    await self._copy_some(place)
                await self._client.pause(0.0, 0.3)
        except Fenced:
            return
        if self._client.chance.below(2) == 0:
            await self._member.leave()

    async def _copy_some(self, place: Place) -> None:
        cursor = self._cursors.get(place)
        if cursor is None:
            offset = await fetch_offset(self._client, self._history, self._member.group, place)
            if offset is None:
                return
            cursor = self._cursors[place] = Cursor(self._client, place, Isolation.COMMITTED)
            cursor.seek(max(0, offset))
        poll = await cursor.poll(self._history, self._client.name)
        if poll is None:
            return
        transaction = self._producer.begin()
        commit = self._client.chance.below(5) > 0
        try:
            await self._send_copies(transaction, poll)
            await self._producer.commit_offset(self._member, place, poll.next_position)
        except Spoilt:
            commit = False
        if not commit:
            self._cursors.clear()  # to be copied again, by the next owner
        if not self._producer.is_empty:
            outcome = await self._producer.end(commit=commit)
            if outcome is not Outcome.OK:
                self._cursors.clear()  # perhaps it was not committed: go by what the group has

    async def _send_copies(self, transaction: str, poll: Poll) -> None:
        for offset, _, value in poll.records:
            self._count += 1
            copy = f"{self._client.name}/{self._count}<{value}"
            self._history.add(
                Copy(
                    process=self._client.name,
                    group=self._member.group,
                    source=poll.topic,
                    partition=poll.partition,
                    offset=offset,
                    value=copy,
                    transaction=transaction,
                )
            )
            await self._producer.send(self._client.chance.choose(self._workload.targets), [copy])
