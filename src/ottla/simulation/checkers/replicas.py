"""What must hold of the replicas of partitions, at every moment.

- One leader per leader epoch, and its high watermark only grows.
- What is committed (below a leader's high watermark) is never lost or changed: each later leader
  has it, each replica has the same bytes below its own high watermark, and each running member of
  the ISR has all of it.
- A follower never takes more for committed than its leader has.
- At rest all replicas are equal, byte for byte.
- What is committed is on the disk of each member of the ISR that had to flush it.
- No log is synced on the loop of a node that serves: a disk may take seconds for it.

Of a partition that has had an unclean election nothing is promised but one leader per epoch, and
that replicas are equal at rest. Topics that are compacted are left out where bytes are compared,
unless no cleaner runs: each replica cleans for itself.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.common.topic_partition import TopicPartition
from ottla.config.changes import Resource
from ottla.config.metadata_topic import REMOTE_LOG_METADATA
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import NO_LEADER
from ottla.replication.partition import Partition
from ottla.replication.replicas import Replicas
from ottla.simulation.checkers.committed import CommittedLog, read_between
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode
from ottla.storage.directories import LogDirFailed
from ottla.storage.log import Log
from ottla.storage.segment import LOG_SUFFIX

UNCLEAN: Final = "unclean.leader.election.enable"


class Key(NamedTuple):
    topic_id: bytes
    partition: int


@dataclass(slots=True)
class _Replica:
    """What was last seen of a replica in this incarnation of its node."""

    key: Key
    partition: Partition
    log: Log
    end_offset: int = -1
    high_watermark: int = -1
    leader_epoch: int = -1
    leader: int = -1
    is_leader: bool = False
    checked_to: int = 0


class _Node:
    __slots__ = (
        "all",
        "is_changed",
        "led",
        "lost",
        "node",
        "replicas",
        "scheduler",
        "steps",
        "written",
    )

    def __init__(self, node: SimulatedNode, lost: set[Key]) -> None:
        self.node = node
        self.lost = lost
        """Partitions that have had an unclean election."""
        self.scheduler = node.scheduler
        self.led: dict[Key, int] = {}
        """The last epoch in which it was told to lead a partition, if only for a moment."""
        self.is_changed = True
        self.steps = -1
        self.written = ""
        """The file that was written last."""
        self.replicas: dict[Key, _Replica] = {}
        self.all: Replicas | None = None
        """What the server has, once it has something."""

    @property
    def has_unmade(self) -> bool:
        """Whether there are replicas that are made only later, little by little."""
        if self.all is None:
            self.all = None if self.node.node is None else self.node.node.replicas
        return self.all is not None and self.all.has_unmade

    def image_changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.is_changed = True
        for topic_id, topic in delta.topics.changed.items():
            for index, state in topic.changed.items():
                if state.leader == self.node.node_id:
                    self.led[Key(topic_id, index)] = state.leader_epoch
            if image.configs_of(Resource.TOPIC, topic.name).get(UNCLEAN) != "true":
                continue
            for index, state in topic.changed.items():
                before = topic.before(index)
                if before is None or state.leader in (NO_LEADER, before.leader):
                    continue
                if state.leader not in (*before.isr, *before.elr):
                    self.lost.add(Key(topic_id, index))
                    self.node.cluster.lost.add(topic.name)

    def file_changed(self, operation: str, path: str) -> None:
        if "/__cluster" in path:
            return
        if operation in {"create", "rename", "remove_directory"}:
            self.is_changed = True
        elif operation == "write":
            self.written = path
        elif operation == "truncate":
            self.written = ""  # what is cut is on disk before anything else is done
        elif operation == "sync" and path == self.written and not self.scheduler.is_off_loop:
            node = self.node
            if path.endswith(LOG_SUFFIX) and node.has_served and not node.is_stopping:
                node.cluster.violation("sync-on-loop", f"{node}: {path}")


class ReplicaChecker:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._nodes: dict[int, _Node] = {}
        self._committed: dict[Key, CommittedLog] = {}
        self._leaders: dict[tuple[Key, int], int] = {}
        self._lost: set[Key] = set()
        self._cleans = any(node.config.log_cleaner_enable for node in cluster.brokers)
        cluster.on_start.append(self._started)
        cluster.before_end.append(self._look_again)
        cluster.on_end.append(self._ended)
        cluster.after_step.append(self.check)

    def _started(self, node: SimulatedNode) -> None:
        if node.config.is_broker:
            watched = self._nodes[node.node_id] = _Node(node, self._lost)
            node.files.after = watched.file_changed
            node.metadata.on_image(watched.image_changed)

    def _ended(self, node: SimulatedNode) -> None:
        self._nodes.pop(node.node_id, None)

    def _look_again(self, node: SimulatedNode) -> None:
        watched = self._nodes.get(node.node_id)
        if watched is not None:
            self._look(watched)

    def check(self) -> None:
        """Look at the replicas of all nodes that did something since the last look."""
        for watched in self._nodes.values():
            steps = watched.scheduler.steps
            if steps != watched.steps:
                watched.steps = steps
                self._look(watched)

    def _look(self, watched: _Node) -> None:
        if watched.is_changed or watched.has_unmade:
            self._list(watched)
        for replica in watched.replicas.values():
            log, partition = replica.log, replica.partition
            if (
                log.high_watermark != replica.high_watermark
                or log.log_end_offset != replica.end_offset
                or partition.leader_epoch != replica.leader_epoch
                or partition.leader != replica.leader
            ):
                led = watched.led.get(replica.key, -1) > replica.leader_epoch
                self._changed(watched.node, replica, has_led=replica.is_leader or led)

    def _list(self, watched: _Node) -> None:
        watched.is_changed = False
        before, watched.replicas = watched.replicas, {}
        for partition in watched.node.partitions():
            key = Key(partition.topic_id, partition.index)
            old = before.get(key)
            if old is not None and old.partition is partition and old.log is partition.log:
                watched.replicas[key] = old
            else:
                watched.replicas[key] = _Replica(key, partition, partition.log)
        for key, replica in before.items():
            if replica.is_leader and watched.replicas.get(key) is not replica:
                # It may have committed in this very step, before it was told to go.
                self._committed[key].commit(b"", replica.log.high_watermark, replica.leader_epoch)

    def _changed(self, node: SimulatedNode, replica: _Replica, *, has_led: bool) -> None:
        """``has_led`` tells whether it has been the leader at any time since the last look."""
        key, partition, log = replica.key, replica.partition, replica.log
        name = f"{partition.topic}-{partition.index}"
        committed = self._committed.setdefault(key, CommittedLog(name))
        if log.log_end_offset < replica.end_offset:
            replica.checked_to = min(replica.checked_to, log.log_end_offset)
        if key in self._lost:
            if partition.is_leader:
                self._check_one_leader(node, key, partition.leader_epoch, name)
        elif partition.is_leader:
            self._check_leader(node, key, replica, committed)
        elif has_led:
            # It may have committed something in this very step, before it heard of its end.
            self._commit(node, log, committed, replica.leader_epoch)
        elif log.high_watermark > committed.end_offset:
            what = f"{node} follows with {log.high_watermark}, {committed.end_offset} is committed"
            self._cluster.violation("follower-high-watermark", f"{name}: {what}")
        if key not in self._lost:
            self._compare(node, replica, committed, log.high_watermark)
        replica.end_offset = log.log_end_offset
        replica.high_watermark = log.high_watermark
        replica.leader_epoch = partition.leader_epoch
        replica.leader = partition.leader
        replica.is_leader = partition.is_leader

    def _check_leader(
        self, node: SimulatedNode, key: Key, replica: _Replica, committed: CommittedLog
    ) -> None:
        partition, log = replica.partition, replica.log
        epoch = partition.leader_epoch
        if not replica.is_leader or epoch != replica.leader_epoch:
            self._check_one_leader(node, key, epoch, committed.name)
            self._check_complete(node, replica, committed)
        elif log.high_watermark < replica.high_watermark:
            what = f"{node} has gone back to {log.high_watermark} from {replica.high_watermark}"
            self._cluster.violation("monotone-high-watermark", f"{committed.name}: {what}")
        if log.high_watermark > committed.end_offset:
            self._check_isr(key, partition, log.high_watermark)
            self._commit(node, log, committed, epoch)

    def _check_one_leader(self, node: SimulatedNode, key: Key, epoch: int, name: str) -> None:
        leader = self._leaders.setdefault((key, epoch), node.node_id)
        if leader != node.node_id:
            what = f"nodes {leader} and {node.node_id} lead at epoch {epoch}"
            self._cluster.violation("one-leader", f"{name}: {what}")

    def _commit(self, node: SimulatedNode, log: Log, committed: CommittedLog, epoch: int) -> None:
        if log.high_watermark > committed.end_offset:
            data = _read(node, log, committed.end_offset, log.high_watermark)
            committed.commit(data, log.high_watermark, epoch)

    def _check_complete(
        self, node: SimulatedNode, replica: _Replica, committed: CommittedLog
    ) -> None:
        """A new leader has everything that was committed before its epoch.

        A replica that was away for long may yet hear of an epoch in which it led, and that is over.
        """
        end_offset = committed.end_before(replica.partition.leader_epoch)
        if replica.log.log_end_offset < end_offset:
            what = f"{node} leads at epoch {replica.partition.leader_epoch} with an end of"
            what = f"{what} {replica.log.log_end_offset}, {end_offset} is committed"
            self._cluster.violation("leader-completeness", f"{committed.name}: {what}")
        self._compare(node, replica, committed, end_offset)

    def _check_isr(self, key: Key, partition: Partition, high_watermark: int) -> None:
        for node_id in partition.isr:
            watched = self._nodes.get(node_id)
            replica = None if watched is None else watched.replicas.get(key)
            if replica is not None and replica.log.log_end_offset < high_watermark:
                what = f"{high_watermark} is committed, and node {node_id} of the ISR"
                what = f"{what} ends at {replica.log.log_end_offset}"
                name = f"{partition.topic}-{partition.index}"
                self._cluster.violation("isr-superset", f"{name}: {what}")
            elif replica is not None and replica.log.due_offset < high_watermark:
                what = f"{high_watermark} is committed, and node {node_id} of the ISR"
                what = f"{what} has still to flush from {replica.log.due_offset} on"
                name = f"{partition.topic}-{partition.index}"
                self._cluster.violation("committed-not-flushed", f"{name}: {what}")

    def _compare(
        self, node: SimulatedNode, replica: _Replica, committed: CommittedLog, end_offset: int
    ) -> None:
        end_offset = min(end_offset, replica.log.log_end_offset, committed.end_offset)
        if end_offset <= replica.checked_to or self._differs(replica.log):
            return
        data = _read(node, replica.log, replica.checked_to, end_offset)
        anomaly = committed.compare(str(node), data, end_offset)
        if anomaly is not None:
            self._cluster.violation(*anomaly)
        replica.checked_to = end_offset

    # At rest

    def check_rest(self) -> None:
        """All replicas have the same bytes, from the latest start of any to the one end."""
        replicas: dict[Key, list[tuple[SimulatedNode, _Replica]]] = {}
        for watched in self._nodes.values():
            self._list(watched)
            for key, replica in watched.replicas.items():
                replicas.setdefault(key, []).append((watched.node, replica))
        for key, all_of_it in replicas.items():
            logs = [replica.log for _, replica in all_of_it]
            start = max(log.local_log_start_offset for log in logs)
            ends = [log.log_end_offset for log in logs]
            # Brokers go on to write there as segments expire, also when clients are quiet.
            is_written = logs[0].topic_partition.topic == REMOTE_LOG_METADATA
            end = min(ends) if is_written else max(ends)
            if self._differs(logs[0]):
                continue
            contents = set()
            for node, replica in all_of_it:
                contents.add(_read(node, replica.log, start, end))
            if len(contents) > 1:
                name = TopicPartition(all_of_it[0][1].partition.topic, key.partition)
                what = [f"{node} {replica.log.log_end_offset}" for node, replica in all_of_it]
                self._cluster.violation("equal-replicas", f"{name}: {', '.join(what)}")

    def _differs(self, log: Log) -> bool:
        return self._cleans and "compact" in log.config.cleanup_policy


def _read(node: SimulatedNode, log: Log, start: int, end: int) -> bytes:
    with node.files.untroubled():
        try:
            return read_between(log, start, end)
        except LogDirFailed:
            return b""  # in this very step: what it had is not compared
