"""Three replicas of a partition through any history: in the end they are equal, byte for byte.

Leaders change in any order and are heard of at any time, so that some go on to write when they
have been replaced; answers and requests are lost; replicas restart with an old high watermark; the
log's beginning moves; what is fetched has gaps as compaction leaves them. All three stay in the
ISR, so that each may be elected. What a leader has called committed no replica may lose, ever.
"""

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.replication.followers import Replica
from tests.storage import logs

from ottla.protocol.generated.fetch import FetchRequest
from ottla.records.batch import batches, read_header

NODES = (1, 2, 3)
nodes = st.sampled_from(NODES)


class Followers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.replicas = {node: Replica(node, NODES) for node in NODES}
        self.leader, self.epoch = 1, 0
        self.heard = dict.fromkeys(NODES, 0)
        self.written = 0
        self.committed: dict[int, bytes] = {}

    @initialize()
    def begin(self) -> None:
        self.elect(1)
        for node in NODES:
            self.hear(node)

    # Histories

    @rule(node=nodes)
    def elect(self, node: int) -> None:
        """The elected one must have all that any leader has called committed: they all do."""
        self.leader, self.epoch = node, self.epoch + 1
        self.hear(node)

    @rule(node=nodes)
    def hear(self, node: int) -> None:
        if self.heard[node] < self.epoch:
            self.heard[node] = self.epoch
            self.replicas[node].hear(self.leader, self.epoch)

    @rule(node=nodes, count=st.integers(1, 4), gap=st.sampled_from([0, 0, 0, 1, 5]))
    def append(self, node: int, count: int, gap: int) -> None:
        """One that leads, or thinks that it does, writes a batch."""
        replica = self.replicas[node]
        if replica.partition.is_leader:
            self.written += 1
            same = len({each.contents() for each in self.replicas.values()}) == 1
            if not same or set(self.heard.values()) != {self.epoch}:
                # Only what all have is ever compacted, and nobody else can write in its place.
                gap = 0
            value = b"%d of %d in %d" % (self.written, node, replica.partition.leader_epoch)
            replica.append(*[value] * count, gap=gap)

    @rule(node=nodes, fate=st.sampled_from(["", "", "", "", "lost", "unanswered"]))
    def fetch(self, node: int, fate: str) -> None:
        replica = self.replicas[node]
        leader = self.replicas[replica.partition.leader]
        if replica is leader:
            return
        replica.now += 1.0
        request = replica.ask()
        if request is None:
            return
        if fate == "lost":
            replica.fetcher.failed(replica.now)
        elif isinstance(request, FetchRequest):
            answer = leader.answer(request)
            if fate:
                replica.fetcher.failed(replica.now)
            else:
                replica.fetcher.fetched(answer, replica.now, logs.NOW)
        else:
            replica.fetcher.offsets_listed(leader.list_offsets(request), replica.now, logs.NOW)

    @rule()
    def everybody_fetches(self) -> None:
        """Often enough for what was appended to be committed, when all follow the same."""
        for _ in range(3):
            for node in NODES:
                self.fetch(node, "")

    @rule(node=nodes)
    def restart(self, node: int) -> None:
        """A clean stop and a start; the high watermark is an old one, as after a crash."""
        replica = self.replicas[node]
        leader, epoch = replica.partition.leader, replica.partition.leader_epoch
        replica.restart(high_watermark=replica.log.log_start_offset)
        replica.hear(leader, epoch)

    @precondition(lambda self: self.replicas[self.leader].log.high_watermark > 0)
    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        log = self.replicas[self.leader].log
        offset = data.draw(st.integers(log.log_start_offset, log.high_watermark))
        log.delete_records_before(offset)

    # What must hold

    @invariant()
    def what_is_committed_is_kept_by_all(self) -> None:
        for replica in self.replicas.values():
            if replica.partition.is_leader:
                high_watermark = replica.log.high_watermark
                for offset, batch in of(replica).items():
                    if offset < high_watermark:
                        assert self.committed.setdefault(offset, batch) == batch
        for replica in self.replicas.values():
            found, start = of(replica), replica.log.log_start_offset
            for offset, batch in self.committed.items():
                if offset >= start:
                    assert found.get(offset) == batch, f"{replica.node_id} lacks {offset}"

    @invariant()
    def a_high_watermark_is_within_the_log(self) -> None:
        for replica in self.replicas.values():
            log = replica.log
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset

    def teardown(self) -> None:
        """All hear of the last leader and fetch from it."""
        leader = self.replicas[self.leader]
        for node, replica in self.replicas.items():
            self.hear(node)
            if replica is not leader:
                replica.catch_up(leader)
        for replica in self.replicas.values():
            if replica is not leader:
                replica.catch_up(leader)
        # One that was told to delete records may have been replaced before the others heard of it.
        start = max(replica.log.log_start_offset for replica in self.replicas.values())
        expected = [(offset, batch) for offset, batch in of(leader).items() if offset >= start]
        for replica in self.replicas.values():
            assert replica.log.log_end_offset == leader.log.log_end_offset
            mine = [(offset, batch) for offset, batch in of(replica).items() if offset >= start]
            assert mine == expected
            last = leader.log.log_end_offset - 1
            if last >= start:
                epochs = replica.log.epochs
                assert epochs.epoch_for_offset(last) == leader.log.epochs.epoch_for_offset(last)


def of(replica: Replica) -> dict[int, bytes]:
    """The batches of a replica by their base offsets."""
    data = replica.contents()
    return {
        read_header(data, start).base_offset: data[start : start + size]
        for start, size in batches(data)
    }


TestFollowers = Followers.TestCase
TestFollowers.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
