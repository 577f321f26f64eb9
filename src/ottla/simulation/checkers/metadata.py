"""What must hold of the metadata log and of what nodes make of it, at every moment.

One leader per epoch; epochs and high watermarks only grow; what is committed is the same on all
nodes and is there for every later leader; and all nodes have equal images at equal offsets. In each
image a leader is in the ISR, all of which is alive, and eligible replicas are none of it.
"""

from collections import OrderedDict
from typing import Final

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topics import NO_LEADER
from ottla.raft.driver import RaftDriver
from ottla.raft.log import MetadataLog
from ottla.simulation.checkers.committed import CommittedLog, read_between
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode

IMAGES_KEPT: Final = 4_000


class _Watched:
    """One incarnation of one node."""

    __slots__ = ("checked_to", "checker", "high_watermark", "is_changed", "node", "raft")

    def __init__(self, checker: "MetadataChecker", node: SimulatedNode) -> None:
        self.checker = checker
        self.node = node
        self.raft: RaftDriver | None = None
        self.is_changed = False
        self.high_watermark = 0
        self.checked_to = 0

    def changed(self) -> None:
        self.is_changed = self.checker.is_changed = True


class MetadataChecker:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._watched: dict[int, _Watched] = {}
        self._without_raft = 0
        """How many of them do not take part in the quorum yet."""
        self.is_changed = False
        """Whether one of them has something new."""
        self._leaders: dict[int, int] = {}
        self._epochs: dict[tuple[int, int], int] = {}
        """By node, and by disk: a new one knows nothing."""
        self._images: OrderedDict[int, tuple[int, MetadataImage]] = OrderedDict()
        self.committed = CommittedLog("the metadata log")
        self.images_compared = 0
        cluster.on_start.append(self._started)
        cluster.on_end.append(self._ended)
        cluster.after_step.append(self.check)

    def _started(self, node: SimulatedNode) -> None:
        self._watched[node.node_id] = _Watched(self, node)
        self._count()
        node.metadata.on_image(lambda image, delta: self._published(node, image, delta))

    def _ended(self, node: SimulatedNode) -> None:
        self._watched.pop(node.node_id, None)
        self._count()

    def _count(self) -> None:
        self._without_raft = sum(each.raft is None for each in self._watched.values())

    # Images

    def _published(self, node: SimulatedNode, image: MetadataImage, delta: MetadataDelta) -> None:
        known = self._images.get(image.offset)
        if known is None:
            self._check_partitions(image, delta)
            self._images[image.offset] = (node.node_id, image)
            if len(self._images) > IMAGES_KEPT:
                self._images.popitem(last=False)
        else:
            self.images_compared += 1
            if known[1] != image:
                what = f"nodes {known[0]} and {node.node_id} differ at offset {image.offset}"
                self._cluster.violation("equal-images", what)

    def _check_partitions(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """What has changed is as the controller's rules want it (ValidControllerIsrAndElr)."""
        for topic in delta.topics.changed.values():
            for index, partition in topic.changed.items():
                isr, elr = set(partition.isr), set(partition.elr)
                is_led = partition.leader == NO_LEADER or (
                    partition.leader in isr and all(map(image.is_active, isr))
                )
                is_apart = isr | elr <= set(partition.replicas) and not isr & elr
                if not (is_led and is_apart):
                    what = f"{topic.name}-{index} at offset {image.offset}: {partition}"
                    self._cluster.violation("valid-isr", what)

    # The log

    def check(self) -> None:
        if not self.is_changed and not self._without_raft:
            return
        self.is_changed = False
        for watched in self._watched.values():
            if watched.raft is None:
                watched.raft = watched.node.raft
                if watched.raft is not None:
                    self._without_raft -= 1
                    watched.raft.on_progress.append(watched.changed)
                    watched.is_changed = True
            if watched.is_changed and watched.raft is not None:
                watched.is_changed = False
                self._check(watched, watched.raft)

    def _check(self, watched: _Watched, raft: RaftDriver) -> None:
        node_id = watched.node.node_id
        violation = self._cluster.violation
        epoch = raft.epoch
        if epoch < self._epochs.get((node_id, watched.node.disks), 0):
            violation("monotone-epoch", f"{watched.node} is at {epoch} again")
        self._epochs[node_id, watched.node.disks] = epoch
        if raft.is_down:
            return
        if raft.high_watermark < watched.high_watermark:
            violation("monotone-high-watermark", f"{watched.node}: {raft.high_watermark}")
        if raft.node.is_leader and self._leaders.get(epoch) != node_id:
            if epoch in self._leaders:
                violation("one-leader", f"{watched.node} and {self._leaders[epoch]} at {epoch}")
            self._leaders[epoch] = node_id
            if raft.end_offset < self.committed.end_offset:
                what = f"{watched.node} leads with an end of {raft.end_offset}"
                violation(
                    "leader-completeness", f"{what}, {self.committed.end_offset} is committed"
                )
            watched.checked_to = 0
            self._compare(watched, raft, min(raft.end_offset, self.committed.end_offset))
        if raft.high_watermark > watched.high_watermark:
            watched.high_watermark = raft.high_watermark
            self._compare(watched, raft, raft.high_watermark)

    def _compare(self, watched: _Watched, raft: RaftDriver, end_offset: int) -> None:
        log = raft.log
        assert isinstance(log, MetadataLog)
        if end_offset > watched.checked_to:
            with watched.node.files.untroubled():
                data = read_between(log.log, watched.checked_to, end_offset)
            anomaly = self.committed.compare(str(watched.node), data, end_offset)
            if anomaly is not None:
                self._cluster.violation(*anomaly)
            self.committed.commit(data, min(end_offset, raft.high_watermark))
            watched.checked_to = end_offset
