"""Three voters whose messages are lost, doubled and late, and who crash: walks drawn from seeds.

Never two leaders of one epoch, and no leader without the votes of a majority that were saved first.
"""

import pytest

from ottla.common.chance import Chance
from ottla.raft.effects import AnswerVote, RaftEffect, RequestVote, SaveQuorumState
from ottla.raft.events import RaftEvent, Started, Tick, VoteAnswered, VoteRequested
from ottla.raft.node import RaftNode, RaftTimeouts
from ottla.raft.quorum_state import QuorumState
from ottla.raft.voters import ReplicaKey, VoterNode, VoterSet

IDS = (1, 2, 3)
VOTERS = VoterSet(VoterNode(ReplicaKey(node_id), ()) for node_id in IDS)
WALKS = 150
STEPS = 300


class Elections:
    """Each node's saved state outlives its crashes; nothing else does."""

    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.now = 0.0
        self.nodes: dict[int, RaftNode] = {}
        self.saved = dict.fromkeys(IDS, QuorumState())
        self.ends = {node_id: self.chance.below(2) for node_id in IDS}
        self.messages: list[tuple[int, int, RequestVote | VoteAnswered]] = []
        self.leaders: dict[int, set[int]] = {}
        for node_id in IDS:
            self.start(node_id)

    def start(self, node_id: int) -> None:
        self.nodes[node_id] = RaftNode(
            key=ReplicaKey(node_id),
            voters=VOTERS,
            state=self.saved[node_id],
            log_end_offset=self.ends[node_id],
            log_end_epoch=0,
            timeouts=RaftTimeouts(1.0),
            chance=self.chance,
        )
        self.step(node_id, Started(self.now))

    def step(self, node_id: int, event: RaftEvent) -> list[RaftEffect]:
        node = self.nodes[node_id]
        effects = node.step(event)
        node.check()
        for effect in effects:
            if isinstance(effect, SaveQuorumState):
                assert effect.state.epoch >= self.saved[node_id].epoch
                self.saved[node_id] = effect.state
            elif isinstance(effect, RequestVote):
                self.messages.append((node_id, effect.voter_id, effect))
        if node.is_leader:
            self.leaders.setdefault(node.epoch, set()).add(node_id)
        return effects

    def deliver(self) -> None:
        at = self.chance.below(len(self.messages))
        sender, receiver, message = self.messages[at]
        if self.chance.below(4):  # else it comes again
            del self.messages[at]
        if isinstance(message, VoteAnswered):
            self.step(receiver, message)
            return
        effects = self.step(
            receiver,
            VoteRequested(
                self.now,
                ReplicaKey(sender),
                message.epoch,
                message.last_offset,
                message.last_epoch,
                message.pre_vote,
            ),
        )
        (answer,) = (effect for effect in effects if isinstance(effect, AnswerVote))
        answered = VoteAnswered(
            self.now, receiver, answer.epoch, answer.leader_id, answer.granted, message.pre_vote
        )
        self.messages.append((receiver, sender, answered))

    def walk(self) -> None:
        dice = self.chance.below(40)
        node_id = self.chance.choose(IDS)
        if dice < 5:
            self.now += self.chance.between(0.0, 2.5)
            self.step(node_id, Tick(self.now))
        elif dice < 7:
            self.start(node_id)
        elif self.messages:
            if dice < 10:
                del self.messages[self.chance.below(len(self.messages))]
            else:
                self.deliver()


@pytest.mark.parametrize("first_seed", range(0, WALKS, 50))
def test_an_epoch_has_one_leader_at_most(first_seed: int) -> None:
    led = 0
    for seed in range(first_seed, first_seed + 50):
        elections = Elections(seed)
        for _ in range(STEPS):
            elections.walk()
        for epoch, leaders in elections.leaders.items():
            assert len(leaders) == 1, f"seed {seed}: epoch {epoch} has the leaders {leaders}"
        led += len(elections.leaders)
    assert led > 100, "walks in which nobody leads prove nothing"
