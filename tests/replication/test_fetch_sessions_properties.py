"""Clients that open, continue, change, forget and lose fetch sessions, against a simple model.

The model holds for each live session what the client believes: the next epoch and the offsets.
After each step the sessions hold exactly that, and never more than the slots allow.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from ottla.common.chance import Chance
from ottla.common.errors import FetchSessionIdNotFound, InvalidFetchSessionEpoch
from ottla.protocol.generated.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from ottla.replication.fetch_sessions import FetchContext, FetchSessions

Offsets = dict[tuple[str, int], int]
partitions = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3)), st.integers(0, 50), max_size=4
)


@dataclass
class Client:
    session_id: int
    epoch: int = 1
    offsets: Offsets = field(default_factory=dict)


def message(session_id: int, epoch: int, offsets: Offsets, forgotten: Offsets) -> FetchRequest:
    return FetchRequest(
        session_id=session_id,
        session_epoch=epoch,
        topics=[
            FetchTopic(topic=t, partitions=[FetchPartition(partition=p, fetch_offset=offset)])
            for (t, p), offset in offsets.items()
        ],
        forgotten_topics_data=[ForgottenTopic(topic=t, partitions=[p]) for t, p in forgotten],
    )


def believed(context: FetchContext) -> dict[tuple[str | bytes, int], int]:
    return {(each.topic, each.partition): each.offset for each in context.partitions}


class FetchSessionClients(RuleBasedStateMachine):
    clients = Bundle("clients")

    @initialize(slots=st.integers(0, 4))
    def start(self, slots: int) -> None:
        self.now = 0.0
        self.slots = slots
        self.cache = FetchSessions(slots=slots, eviction_ms=1000, chance=Chance(slots))
        self.live: dict[int, Client] = {}

    def _forget_evicted(self) -> None:
        """An evicted session learns it by its next request; the model by looking."""
        self.live = {
            session_id: client
            for session_id, client in self.live.items()
            if session_id in self.cache._sessions
        }

    @rule(target=clients, offsets=partitions, pause=st.floats(0, 2))
    def begin(self, offsets: Offsets, pause: float) -> object:
        self.now += pause
        context = self.cache.open(message(0, 0, offsets, {}), uses_topic_ids=False, now=self.now)
        assert believed(context) == offsets
        assert not context.incremental
        self._forget_evicted()
        if context.session_id == 0:
            assert len(self.live) == self.slots
            return multiple()
        assert context.session_id not in self.live
        client = Client(context.session_id, 1, dict(offsets))
        self.live[client.session_id] = client
        return client

    @rule(client=clients, offsets=partitions, forgotten=partitions)
    def go_on(self, client: Client, offsets: Offsets, forgotten: Offsets) -> None:
        request = message(client.session_id, client.epoch, offsets, forgotten)
        if self.live.get(client.session_id) is not client:
            with pytest.raises(FetchSessionIdNotFound):
                self.cache.open(request, uses_topic_ids=False, now=self.now)
            return
        context = self.cache.open(request, uses_topic_ids=False, now=self.now)
        client.offsets.update(offsets)
        for partition in forgotten:
            client.offsets.pop(partition, None)
        assert believed(context) == client.offsets
        if client.offsets:
            assert context.session_id == client.session_id
            client.epoch += 1
        else:
            assert context.session_id == 0
            del self.live[client.session_id]

    @rule(client=clients, wrong=st.integers(-5, 60).filter(lambda epoch: epoch not in (0, -1)))
    def lose_count(self, client: Client, wrong: int) -> None:
        if self.live.get(client.session_id) is client and wrong != client.epoch:
            with pytest.raises(InvalidFetchSessionEpoch):
                self.cache.open(
                    message(client.session_id, wrong, {("z", 9): 1}, {}),
                    uses_topic_ids=False,
                    now=self.now,
                )

    @rule(client=consumes(clients), offsets=partitions)
    def end(self, client: Client, offsets: Offsets) -> None:
        context = self.cache.open(
            message(client.session_id, -1, offsets, {}), uses_topic_ids=False, now=self.now
        )
        assert context.session_id == 0
        assert believed(context) == offsets
        self.live.pop(client.session_id, None)

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        if not hasattr(self, "cache"):
            return
        assert len(self.cache) <= self.slots
        assert set(self.cache._sessions) == set(self.live)
        for session_id, client in self.live.items():
            session = self.cache._sessions[session_id]
            assert session.epoch == client.epoch
            assert {k: v.offset for k, v in session.partitions.items()} == client.offsets


TestFetchSessionClients = FetchSessionClients.TestCase
TestFetchSessionClients.settings = settings(deadline=None, max_examples=60)
