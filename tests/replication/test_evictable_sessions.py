"""Which session makes room: as if all were looked at, and yet they are not."""

import pytest

from ottla.common.chance import Chance
from ottla.replication.evictable_sessions import EvictableSessions, Worth
from ottla.replication.fetch_sessions import FetchedFrom, FetchSession

HORIZON_SECONDS = 120.0


class Sessions:
    """Sessions that are used, resized and evicted; and what a look at all of them says."""

    def __init__(self) -> None:
        self.all: list[FetchSession] = []
        self.evictable = EvictableSessions()
        self.now = 0.0

    def begin(self, worth: Worth) -> FetchSession:
        number = len(self.all)
        session = FetchSession(number, uses_topic_ids=True, is_privileged=worth[0], now=self.now)
        self._fill(session, worth[1])
        self.all.append(session)
        self.evictable.add(session)
        return session

    def _fill(self, session: FetchSession, count: int) -> None:
        session.partitions = {("t", index): FetchedFrom("t", index) for index in range(count)}

    def resize(self, session: FetchSession, count: int) -> None:
        self._fill(session, count)
        self.evictable.resized(session)

    def next(self, worth: Worth) -> FetchSession | None:
        found = self.evictable.next(worth, self.now - HORIZON_SECONDS)
        assert found is None or isinstance(found, FetchSession)
        return found

    def next_of_all(self, worth: Worth) -> FetchSession | None:
        horizon = self.now - HORIZON_SECONDS
        stale = min(self.all, key=lambda session: session.last_used, default=None)
        if stale is None or stale.last_used < horizon:
            return stale
        may_go = [
            each
            for each in self.all
            if each.created < horizon or (worth[0] and not each.is_privileged)
        ]
        least = min(may_go, key=lambda session: session.worth, default=None)
        return None if least is None or least.worth >= worth else least

    def end(self, session: FetchSession) -> None:
        self.all.remove(session)
        session.is_over = True
        self.evictable.remove(session)


@pytest.mark.parametrize("seed", range(30))
def test_it_is_the_one_that_a_look_at_all_finds(seed: int) -> None:
    chance, sessions = Chance(seed), Sessions()
    evicted = 0
    for _ in range(400):
        sessions.now += chance.choose((0.0, 1.0, 1.0, 40.0))
        match chance.below(6):
            case 0 | 1:
                sessions.begin((chance.below(5) == 0, chance.below(6)))
            case 2 | 3 if sessions.all:
                chance.choose(sessions.all).last_used = sessions.now
            case 4 if sessions.all:
                sessions.resize(chance.choose(sessions.all), chance.below(6))
            case 5:
                worth = (chance.below(3) == 0, chance.below(7))
                found = sessions.next(worth)
                assert found is sessions.next_of_all(worth)
                if found is not None:
                    evicted += 1
                    sessions.end(found)
                elif sessions.all and chance.below(4) == 0:
                    sessions.end(chance.choose(sessions.all))
    assert evicted > 5


class Counted(FetchSession):
    """Counts how often sessions are looked at."""

    __slots__ = ()
    looks = 0

    @property
    def is_over(self) -> bool:
        Counted.looks += 1
        return False

    @is_over.setter
    def is_over(self, _value: bool) -> None:
        pass


def test_those_that_are_in_use_are_not_all_looked_at_each_time() -> None:
    """Thousands in use, and a fetch of a client without a session that asks for room in vain."""
    evictable, count = EvictableSessions(), 5_000
    begun = [Counted(n, uses_topic_ids=True, is_privileged=False, now=0.0) for n in range(count)]
    for session in begun:
        session.partitions = {("t", 0): FetchedFrom("t", 0)}
        evictable.add(session)
    Counted.looks, asked, now = 0, 0, 0.0
    for _ in range(1_200):
        now += 0.5
        for session in begun:
            session.last_used = now
        for _ in range(5):
            asked += 1
            assert evictable.next((False, 1), now - HORIZON_SECONDS) is None
    rounds = now / HORIZON_SECONDS
    assert Counted.looks <= 4 * count * rounds + 4 * asked
    assert Counted.looks < asked * count / 100


def test_sizes_that_change_leave_little_behind() -> None:
    sessions = Sessions()
    begun = [sessions.begin((False, 1)) for _ in range(100)]
    for count in range(200):
        for session in begun:
            sessions.resize(session, count % 7)
    assert len(sessions.evictable._consumers._heap) <= 2 * 100 + 17
    for session in begun[1:]:
        sessions.end(session)
    assert len(sessions.evictable._used) <= 20
