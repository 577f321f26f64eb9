"""What must hold of the remote store at rest.

- Every object belongs to a segment that the metadata topic knows as finished, of a topic that there
  is, and every such segment has its objects: nothing is left behind for ever, nothing is missing.
- A log that is kept for ever begins at its beginning.
"""

from collections.abc import Iterator

from ottla.common.errors import ApiError
from ottla.server.remote_logs import RemoteLogsOfNode
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.node import SimulatedNode
from ottla.tiered.layout import MANIFEST_SUFFIX, parse_key
from ottla.tiered.segments import SegmentState, TopicIdPartition

FINISHED = SegmentState.COPY_SEGMENT_FINISHED


class TierChecker:
    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def unrest(self) -> str | None:
        """What is not as it must be, in a few words."""
        return next(self._unrest(), None)

    def _unrest(self) -> Iterator[str]:
        whole: dict[bytes, bool] = {}
        """Of each segment in the store whether its manifest is there."""
        for key in self._cluster.remote.objects:
            parsed = parse_key(key)
            assert parsed is not None, key
            is_manifest = parsed.suffix == MANIFEST_SUFFIX
            whole[parsed.segment_id] = is_manifest or whole.get(parsed.segment_id, False)
        for partition, leader in self._partitions():
            tier = _tier(leader)
            try:
                remote = None if tier is None else tier.known(partition)
            except ApiError as error:
                yield f"{leader} does not know the tier of {partition}: {error!r}"
                return
            for segment in () if remote is None else remote.segments:
                offsets = f"{partition} {segment.start_offset}-{segment.end_offset}"
                if segment.state is not FINISHED:
                    yield f"the copy of {offsets} is in state {segment.state.name}"
                if not whole.pop(segment.segment_id, False):
                    yield f"the store does not have {offsets}, which is finished"
        if whole:
            yield f"the store has {len(whole)} segments that nobody knows"

    def _partitions(self) -> Iterator[tuple[TopicIdPartition, SimulatedNode]]:
        for topic in self._cluster.newest_image().topics:
            for index, state in topic.partitions.items():
                if state.leader in self._cluster.nodes and not topic.name.startswith("__"):
                    node = self._cluster.nodes[state.leader]
                    yield TopicIdPartition(topic.topic_id, topic.name, index), node

    def check_starts(self, kept: str) -> None:
        """Logs of the topic ``kept`` begin at 0 in all replicas."""
        for node in self._cluster.running:
            for partition in node.partitions():
                if partition.topic == kept and partition.log.log_start_offset:
                    what = f"{kept}-{partition.index} on {node} begins at"
                    what = f"{what} {partition.log.log_start_offset}"
                    self._cluster.violation("log-start", what)


def _tier(node: SimulatedNode) -> RemoteLogsOfNode | None:
    return None if node.node is None else node.node.remote_logs
