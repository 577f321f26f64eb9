"""The simulation finds what it is there to find: each rule that is switched off is missed soon."""

import re
from typing import ClassVar

import pytest
from tests.raft.cluster import Cluster
from tests.raft.test_simulation import Walk

from ottla.raft.driver import QUORUM_STATE, RaftDriver
from ottla.raft.effects import RaftEffect, TruncateLog
from ottla.raft.events import FetchAnswered, VoteRequested
from ottla.raft.node import RaftNode
from ottla.raft.quorum_state import QuorumState, encode_quorum_state
from ottla.raft.roles import Follower, Leader

SEEDS = 300
"""Of these at least one must find the bug; most find it much sooner."""


class ForgetsVotes(RaftDriver):
    """Gives its vote before that is on disk."""

    def _save_quorum_state(self, state: QuorumState) -> None:
        path = f"{self.settings.directory}/{QUORUM_STATE}"
        data = encode_quorum_state(state, kraft_version=1, voter_ids=[])
        self._filesystem.write(f"{path}.tmp", data)
        self._filesystem.open(f"{path}.tmp").sync()
        self._filesystem.rename(f"{path}.tmp", path)


class _AcknowledgesEarly(RaftNode):
    def is_synced(self) -> bool:
        return True


class AcknowledgesEarly(RaftDriver):
    """Fetches on, which says that it has everything before, while its log is not synced."""

    NODE: ClassVar[type[RaftNode]] = _AcknowledgesEarly


class _VotesForAnybody(RaftNode):
    def is_complete(self, event: VoteRequested) -> bool:
        return True


class VotesForAnybody(RaftDriver):
    """Votes for a candidate whose log lacks something that ours has."""

    NODE: ClassVar[type[RaftNode]] = _VotesForAnybody


class _CommitsOldEpochs(RaftNode):
    def committed(self, role: Leader) -> int | None:
        start, role.epoch_start_offset = role.epoch_start_offset, 0
        try:
            return super().committed(role)
        finally:
            role.epoch_start_offset = start


class CommitsOldEpochs(RaftDriver):
    """Commits a record of an earlier epoch because a majority has it."""

    NODE: ClassVar[type[RaftNode]] = _CommitsOldEpochs


class _CommitsAlone(RaftNode):
    def committed(self, role: Leader) -> int | None:
        return self.synced_offset if self.synced_offset > role.epoch_start_offset else None


class CommitsAlone(RaftDriver):
    """Commits what it has synced itself."""

    NODE: ClassVar[type[RaftNode]] = _CommitsAlone


class _TruncatesFarther(RaftNode):
    def _fetch_answered(self, event: FetchAnswered, effects: list[RaftEffect]) -> None:
        if event.truncate_to is None or not isinstance(self.role, Follower):
            super()._fetch_answered(event, effects)
        else:
            self.log.is_changing = True
            effects.append(TruncateLog(0))


class TruncatesFarther(RaftDriver):
    """Cuts its log where it pleases, whatever is committed."""

    NODE: ClassVar[type[RaftNode]] = _TruncatesFarther


@pytest.mark.parametrize(
    ("bug", "found"),
    [
        (ForgetsVotes, "two leaders|epoch went back"),
        (AcknowledgesEarly, "have synced it"),
        (VotesForAnybody, "a leader"),
        (CommitsOldEpochs, "truncat|lacks|something else|changed|applied"),
        (CommitsAlone, "have synced it"),
        (TruncatesFarther, "a committed batch was truncated"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_rule_that_is_switched_off_is_missed(bug: type[RaftDriver], found: str) -> None:
    for seed in range(SEEDS):
        cluster = Cluster(seed, 3 + 2 * (seed % 2), driver_class=bug)
        try:
            Walk(seed, cluster).run()
        except AssertionError as error:
            story = f"{error} {error.__cause__ or ''}"
            assert re.search(found, story), f"seed {seed} found something else: {story}"
            return
    raise AssertionError(f"{bug.__name__} was not found in {SEEDS} seeds")
