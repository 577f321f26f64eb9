"""A controller that loses power at any change of its disk: what it answered, it keeps.

Walks are drawn from seeds. Snapshots and log segments are small, so that both come and go.
"""

import contextlib

import pytest
from tests.controller.nodes import Node, formatted
from tests.raft.quorums import settings

from ottla.common.chance import Chance
from ottla.common.errors import NotController
from ottla.common.promise import Promise
from ottla.protocol.generated.create_topics import CreateTopicsResponse
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.testing.files import PowerLost

LIVES = 6
CONFIG = settings(
    metadata_log_max_record_bytes_between_snapshots="4000",
    metadata_max_retention_bytes="15000",
    internal_metadata_log_segment_bytes="8000",
)


class Walk:
    def __init__(self, seed: int) -> None:
        self.chance = Chance(seed)
        self.filesystem = formatted(CONFIG)
        self.existing: set[str] = set()
        """Topics that were answered for, and asked to go by nobody since."""
        self.unknown: set[str] = set()
        """Topics whose last request was never answered."""
        self.names = 0
        self.epoch = 0
        self.offset = -1

    def live(self) -> None:
        node = Node(self.filesystem, seed=self.chance.below(1000), config=CONFIG)
        self.filesystem.stop_after(5 + self.chance.below(300))
        try:
            node.start()
            self.check(node)
            node.start_broker()
            for _ in range(self.chance.below(80)):
                self.work(node)
            if self.chance.below(3) == 0:
                node.wait(node.driver.stop())
        except PowerLost:
            pass
        assert node.failures == []
        self.offset = max(self.offset, node.metadata.image.offset)
        if self.chance.below(4):
            self.filesystem.crash(self.chance)
        else:
            self.filesystem.kill()

    def check(self, node: Node) -> None:
        assert node.driver.raft.epoch > self.epoch
        self.epoch = node.driver.raft.epoch
        image = node.metadata.image
        assert image.offset > self.offset, "what was shown as committed is there, and more"
        found = set(image.topics.by_name)
        assert found - self.unknown == self.existing
        self.existing = found
        self.unknown = set()

    def work(self, node: Node) -> None:
        dice = self.chance.below(10)
        if dice < 4:
            self.names += 1
            name = f"topic-{self.names}"
            self.unknown.add(name)
            node.create(name, 1 + self.chance.below(3)).when_done(
                lambda done: self._created(name, done)
            )
        elif dice < 6 and self.existing:
            name = self.chance.choose(sorted(self.existing))
            self.existing.discard(name)
            self.unknown.add(name)
            node.driver.submit(DeleteTopicsRequest(topic_names=[name])).when_done(
                lambda done: self._deleted(name, done)
            )
        else:
            node.scheduler.run_for(self.chance.between(0.0, 0.02))

    def _created(self, name: str, done: Promise[CreateTopicsResponse]) -> None:
        with contextlib.suppress(NotController):  # then nobody knows what became of it
            assert done.result().topics[0].error_code == 0
            self.unknown.discard(name)
            self.existing.add(name)

    def _deleted(self, name: str, done: Promise[DeleteTopicsResponse]) -> None:
        with contextlib.suppress(NotController):
            assert done.result().responses[0].error_code == 0
            self.unknown.discard(name)


@pytest.mark.parametrize("first_seed", range(0, 30, 10))
def test_what_was_answered_outlives_every_loss_of_power(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 10):
        walk = Walk(seed)
        for _ in range(LIVES):
            walk.live()
