"""Groups of both kinds that read a topic: members come, commit, leave, and are killed."""

from typing import ClassVar, Final

from ottla.simulation.cluster_client import ClusterClient, Place
from ottla.simulation.history import History, Isolation, Outcome
from ottla.simulation.workloads.consuming import Cursor, read_all
from ottla.simulation.workloads.membership import ClassicMember, ConsumerMember, Member
from ottla.simulation.workloads.offsets import commit_offset, fetch_offset, keep_group
from ottla.simulation.workloads.records import Records

MEMBERS: Final = 3
BEAT_SECONDS: Final = 1.0
KINDS: Final[dict[str, type[Member]]] = {"classic": ClassicMember, "consumer": ConsumerMember}


class Groups(Records):
    NAME: ClassVar[str] = "grouped"

    async def prepare(self) -> None:
        await super().prepare()
        if self.world.groups_may_go:
            client = self.client("keeper")
            await client.refresh(self.NAME)
            for group in KINDS:
                await keep_group(client, self.history, group, self.places)

    def start(self) -> None:
        self.begin("producer", self._produce("producer"))
        if self.world.groups_may_go:
            for group in KINDS:
                self.begin(f"passing {group}", self._pass(group))
        for group in KINDS:
            for number in range(MEMBERS):
                name = f"{group}-{number}"
                self.begin(name, self._live(name, group))

    async def conclude(self) -> None:
        await read_all(self, self.places)
        client = self.client("offsets")
        for group in KINDS:
            for place in self.places:
                while await fetch_offset(client, self.history, group, place, is_final=True) is None:
                    pass

    async def _live(self, name: str, group: str) -> None:
        """One life after the other, each a process of its own."""
        lives = 0
        while not self.is_stopping:
            lives += 1
            client = self.client(f"{name}-{lives}")
            await client.pause(0.0, 5.0)
            member = KINDS[group](client, self.history, group, self.places)
            await GroupReader(self, client, member).run()
            client.close()

    async def _pass(self, kind: str) -> None:
        """Members of a group that commits nothing: it goes with the last of them, unjudged."""
        history, lives = History(lambda: 0.0), 0
        while not self.is_stopping:
            lives += 1
            client = self.client(f"passing-{kind}-{lives}")
            member = KINDS[kind](client, history, f"passing-{kind}", self.places)
            for _ in range(1 + client.chance.below(5)):
                await member.beat()
                await client.pause(BEAT_SECONDS)
            if client.chance.below(4):
                await member.leave()
            client.close()
            await client.pause(0.0, 1.0)


class GroupReader:
    """A member that reads what it has and commits how far it got."""

    def __init__(self, workload: Groups, client: ClusterClient, member: Member) -> None:
        self._workload = workload
        self._client = client
        self._member = member
        self._cursors: dict[Place, Cursor] = {}
        self._committed: dict[Place, int] = {}

    async def run(self) -> None:
        """Until it leaves, dies, or does not know what it has committed."""
        dies_at = self._client.now + self._client.chance.between(5.0, 60.0)
        beats_at = 0.0
        while not self._workload.is_stopping and self._client.now < dies_at:
            if self._client.now >= beats_at:
                beats_at = self._client.now + BEAT_SECONDS
                if not await self._member.beat():
                    self._keep_own()
                    beats_at = 0.0
            await self._begin_new()
            for place in list(self._cursors):
                poll = await self._cursors[place].poll(self._workload.history, self._client.name)
                if poll is None or self._client.chance.below(3) > 0:
                    continue
                if await self._commit(place) is Outcome.UNKNOWN:
                    return
            await self._client.pause(0.0, 0.3)
        if self._client.chance.below(2) == 0:
            await self._member.leave()

    def _keep_own(self) -> None:
        """What was given back is read no more, and begun anew when it comes again."""
        for place in [each for each in self._cursors if each not in self._member.assignment]:
            del self._cursors[place]

    async def _begin_new(self) -> None:
        for place in self._member.assignment:
            if place in self._cursors:
                continue
            offset = await fetch_offset(
                self._client, self._workload.history, self._member.group, place
            )
            if offset is None:
                return
            cursor = Cursor(self._client, place, Isolation.COMMITTED)
            cursor.seek(max(0, offset))
            self._cursors[place] = cursor

    async def _commit(self, place: Place) -> Outcome:
        offset = self._cursors[place].position
        return await commit_offset(
            self._client, self._workload.history, self._member, place, offset
        )
