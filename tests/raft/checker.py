"""What must hold in a quorum at every moment, whatever happens.

- One leader per epoch; the epoch and the high watermark of a node only grow, the epoch over its
  lives too.
- Log matching: a batch of one offset and epoch is the same everywhere, and so is what precedes it.
- Leader completeness: a leader has everything that is committed.
- What is committed is synced by a majority of the voters, and is never lost or changed.
- State machines apply what is committed, in order; a log that does not begin at 0 begins with a
  snapshot of the state before.
"""

import hashlib
from typing import TYPE_CHECKING, NamedTuple

from tests.raft.quorums import DIRECTORY

from ottla.config.broker import BrokerConfig
from ottla.metadata.records import encode_record
from ottla.metadata.snapshot import SnapshotContent
from ottla.metadata.versions import LATEST_METADATA_VERSION
from ottla.protocol.generated.metadata_records import TopicRecord
from ottla.raft.log import LogBatch, MetadataLog, read_batches
from ottla.raft.snapshots import SnapshotId
from ottla.records.batch import batches
from ottla.storage.files import Filesystem

if TYPE_CHECKING:
    from tests.raft.cluster import Cluster, Node


class Entry(NamedTuple):
    """A batch of the log."""

    base_offset: int
    last_offset: int
    epoch: int
    data: bytes

    @staticmethod
    def of(batch: LogBatch) -> "Entry":
        return Entry(batch.base_offset, batch.last_offset, batch.epoch, batch.data)


class CheckedLog(MetadataLog):
    """The real log, and beside it a list of what it has, for the checker to look at."""

    __slots__ = ("_checker", "_node_id", "durable_offset", "entries")

    @staticmethod
    def opened(
        filesystem: Filesystem, log_dir: str, config: BrokerConfig, now_ms: int
    ) -> "CheckedLog":
        return CheckedLog(MetadataLog.open(filesystem, log_dir, config, now_ms)._log)

    def watch(self, checker: "Checker", node_id: int) -> None:
        self._checker = checker
        self._node_id = node_id
        found = read_batches(self, self.start_offset, self.end_offset)
        self.entries = [Entry.of(batch) for batch in found]
        self.durable_offset = 0
        checker.opened(node_id, self)

    def _added(self, data: bytes) -> None:
        for position, size in batches(data):
            entry = Entry.of(LogBatch(data[position : position + size]))
            self._checker.appended(self._node_id, self.entries[-1] if self.entries else None, entry)
            self.entries.append(entry)

    def append(self, batch: bytearray, now_ms: int) -> None:
        super().append(batch, now_ms)
        self._added(bytes(batch))

    def append_fetched(self, data: bytes, leader_epoch: int, now_ms: int) -> None:
        super().append_fetched(data, leader_epoch, now_ms)
        self._added(data)

    def synced(self, now_ms: int, error: OSError | None = None) -> int:
        self.durable_offset = super().synced(now_ms, error)
        return self.durable_offset

    def committed(self, offset: int) -> None:
        super().committed(offset)
        self._checker.committed(self._node_id, offset)

    def truncate_to(self, offset: int, now_ms: int) -> None:
        super().truncate_to(offset, now_ms)
        self.entries = [entry for entry in self.entries if entry.last_offset < offset]
        self.durable_offset = min(self.durable_offset, offset)
        self._checker.truncated(self._node_id, offset)

    def restart_at(self, offset: int, epoch: int, now_ms: int) -> None:
        super().restart_at(offset, epoch, now_ms)
        self.entries = []
        self.durable_offset = offset

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the batch with ``offset``; None when the log does not have it."""
        for entry in reversed(self.entries):
            if entry.base_offset <= offset <= entry.last_offset:
                return entry.epoch
        return None


class Recorder:
    """A state machine: the values of all committed batches, as a digest."""

    node: "Node"

    def __init__(self, checker: "Checker", node_id: int) -> None:
        self._checker = checker
        self._node_id = node_id
        self._digest = b""
        self._pending: list[tuple[int, bytes]] = []
        self.end_offset = 0
        """Everything before it is applied."""
        self.epoch = 0
        self.count = 0

    def _apply(self, offset: int, value: bytes) -> None:
        self._digest = hashlib.sha256(self._digest + value).digest()
        self._checker.applied(self._node_id, offset, value, self._digest)
        self.count += 1

    def state_record(self) -> bytes:
        """The state as a metadata record, for a snapshot."""
        record = TopicRecord(name=self._digest.hex(), topic_id=bytes(16))
        return encode_record(record, LATEST_METADATA_VERSION)

    def load_snapshot(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        assert snapshot_id.end_offset >= self.end_offset, "the state went back"
        (topic,) = content.image(*snapshot_id).topics
        self._digest = bytes.fromhex(topic.name)
        self._checker.loaded(snapshot_id, self._digest)
        self.end_offset, self.epoch = snapshot_id

    def replay(self, batch: LogBatch) -> None:
        assert batch.base_offset == self.end_offset, "a batch was left out or came twice"
        if not batch.is_control:
            for record in batch.records():
                self._apply(record.offset, record.value or b"")
        self.end_offset = batch.last_offset + 1
        self.epoch = batch.epoch

    def replayed(self) -> None: ...

    def became_leader(self, epoch: int) -> None:
        assert self.end_offset == self.node.driver.high_watermark

    def appended(self, offset: int, value: bytes) -> None:
        self._pending.append((offset, value))

    def lost_leadership(self, epoch: int) -> None:
        self._pending.clear()

    def appended_control(self, batch: LogBatch) -> None:
        assert batch.is_control
        assert batch.last_offset + 1 == self.node.driver.end_offset

    def committed(self, high_watermark: int) -> None:
        while self._pending and self._pending[0][0] < high_watermark:
            self._apply(*self._pending.pop(0))
        self.end_offset = high_watermark
        self.epoch = self.node.driver.epoch


class Checker:
    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._logs: dict[int, CheckedLog] = {}
        self._leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._high_watermarks: dict[int, int] = {}
        self._preceding: dict[tuple[int, int], tuple[bytes, int | None]] = {}
        """Of each batch, by offset and epoch, its bytes and the epoch of the one before."""
        self.history: list[Entry] = []
        """All that was ever committed."""
        self.high_watermark = 0
        self._states: dict[int, tuple[bytes, bytes]] = {}
        """By offset, the value that was applied there and the state after it."""

    # Told by the logs

    def opened(self, node_id: int, log: CheckedLog) -> None:
        self._logs[node_id] = log
        self._high_watermarks[node_id] = 0
        for before, entry in zip([None, *log.entries], log.entries, strict=False):
            self._match(node_id, before, entry)

    def appended(self, node_id: int, before: Entry | None, entry: Entry) -> None:
        self._match(node_id, before, entry)

    def _match(self, node_id: int, before: Entry | None, entry: Entry) -> None:
        key = (entry.base_offset, entry.epoch)
        epoch_before = None if before is None else before.epoch
        data, known_before = self._preceding.setdefault(key, (entry.data, epoch_before))
        assert data == entry.data, f"node {node_id} has another batch at {key}"
        if known_before is None:
            self._preceding[key] = (data, epoch_before)
        elif epoch_before is not None:
            assert known_before == epoch_before, f"node {node_id}: what precedes {key} differs"

    def truncated(self, node_id: int, offset: int) -> None:
        assert offset >= self._high_watermarks[node_id], "a committed batch was truncated"

    def committed(self, node_id: int, offset: int) -> None:
        assert offset >= self._high_watermarks[node_id], "the high watermark went back"
        before = self._high_watermarks[node_id]
        self._high_watermarks[node_id] = offset
        node = self._cluster.nodes[node_id]
        log = self._logs[node_id]
        if offset > self.high_watermark:
            if node.driver.node.is_leader:
                self._check_majority(node, offset)
            new = [
                entry
                for entry in log.entries
                if self.high_watermark <= entry.base_offset and entry.last_offset < offset
            ]
            self.history += new
            self.high_watermark = offset
            assert self.history[-1].last_offset == offset - 1, "committed within a batch"
        for entry in reversed(log.entries):
            if entry.last_offset < before:
                break
            if entry.last_offset < offset:
                known = self._committed_at(entry.base_offset)
                assert known is None or known == entry, "a committed batch was changed"

    def _committed_at(self, base_offset: int) -> Entry | None:
        for entry in reversed(self.history):
            if entry.base_offset <= base_offset:
                return entry if entry.base_offset == base_offset else None
        return None

    def _check_majority(self, leader: "Node", offset: int) -> None:
        epoch = self._logs[leader.node_id].epoch_at(offset - 1)
        voters = leader.driver.voters
        having = [
            node_id
            for node_id in voters.ids
            if self._logs[node_id].durable_offset >= offset
            and self._logs[node_id].epoch_at(offset - 1) in (epoch, None)
        ]
        assert len(having) >= voters.majority, (
            f"{offset} was committed, but of {voters.ids} only {having} have synced it"
        )

    # Told by the state machines

    def applied(self, node_id: int, offset: int, value: bytes, digest: bytes) -> None:
        known = self._states.setdefault(offset, (value, digest))
        assert known == (value, digest), f"node {node_id} applied {value!r}, not {known[0]!r}"

    def loaded(self, snapshot_id: SnapshotId, digest: bytes) -> None:
        assert snapshot_id.end_offset <= self.high_watermark, "a snapshot of what is not committed"
        offsets = [offset for offset in self._states if offset < snapshot_id.end_offset]
        expected = self._states[max(offsets)][1] if offsets else b""
        assert digest == expected, f"{snapshot_id} holds another state"

    def progressed(self, node: "Node") -> None:
        driver = node.driver
        if driver.is_started and driver.has_caught_up() and not driver.node.is_leader:
            # Of more than this the leader has not told it.
            told = driver.high_watermark
            assert node.listener.end_offset >= told, "caught up with what is not replayed"

    # At every step

    def check(self) -> None:
        for node in self._cluster.nodes.values():
            core = node.driver.node
            epoch = core.epoch
            if epoch != self._epochs.get(node.node_id):
                assert epoch >= self._epochs.get(node.node_id, 0), "the epoch went back"
                self._epochs[node.node_id] = epoch
            if core.is_leader and self._leaders.get(epoch) != node.node_id:
                assert epoch not in self._leaders, f"epoch {epoch} has two leaders"
                self._leaders[epoch] = node.node_id
                self._check_complete(node)
            log = self._logs[node.node_id]
            if log.start_offset > 0:
                latest = node.driver.snapshots.latest()
                assert latest is not None
                assert latest.end_offset >= log.start_offset, "nothing stands before the log"

    def _check_complete(self, leader: "Node") -> None:
        log = self._logs[leader.node_id]
        assert log.end_offset >= self.high_watermark, "a leader lacks what is committed"
        known = {entry.base_offset: entry for entry in log.entries}
        for entry in self.history:
            if entry.base_offset >= log.start_offset:
                assert known.get(entry.base_offset) == entry, "a leader has something else"

    # At the end

    def converged(self) -> None:
        """All have the same log, as far as they still have it, and the same state."""
        for node in self._cluster.nodes.values():
            assert node.listener.end_offset == self.high_watermark, self.describe()
            log = self._logs[node.node_id]
            for entry in log.entries:
                known = self._committed_at(entry.base_offset)
                assert known is None or known == entry
            ids = node.driver.snapshots.ids()
            assert all(each.end_offset >= log.start_offset for each in ids), (
                f"{ids} lie before the log"
            )
            names = self._cluster.disks[node.node_id].list_directory(DIRECTORY)
            left = [name for name in names if name.endswith(".part")]
            assert not left, f"node {node.node_id} has left {left}"

    def describe(self) -> str:
        lines = [f"high watermark {self.high_watermark}, leaders {self._leaders}"]
        lines += [
            f"node {node.node_id}: {node.driver.node.role} end {node.driver.end_offset} "
            f"high watermark {node.driver.high_watermark} voters {node.driver.voters.ids}"
            for node in self._cluster.nodes.values()
        ]
        return "\n".join(lines)
