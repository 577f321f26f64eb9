"""A quorum of three as a state machine of hypothesis: what it breaks, it breaks in few steps."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.raft.cluster import Cluster

NODES = st.integers(1, 4)


class QuorumMachine(RuleBasedStateMachine):
    """Three voters and an observer that may become one."""

    cluster: Cluster

    @initialize(seed=st.integers(0, 1 << 32), dynamic=st.booleans())
    def begin(self, seed: int, dynamic: bool) -> None:
        self.cluster = Cluster(seed, 3, observers=1, dynamic=dynamic, has_slow_snapshots=True)

    @rule(tenths=st.integers(1, 30))
    def wait(self, tenths: int) -> None:
        self.cluster.run_for(tenths / 10)

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        for _ in range(count):
            self.cluster.append()

    @rule(node_id=NODES, power=st.booleans())
    def crash(self, node_id: int, power: bool) -> None:
        if node_id in self.cluster.nodes:
            self.cluster.crash(node_id, power=power)

    @rule(node_id=NODES)
    def start(self, node_id: int) -> None:
        if node_id not in self.cluster.nodes:
            self.cluster.start(node_id)

    @rule(side=st.sets(NODES), one_way=st.booleans())
    def cut(self, side: set[int], one_way: bool) -> None:
        self.cluster.partition(side, one_way=one_way)

    @rule()
    def heal(self) -> None:
        self.cluster.heal()

    @rule(percent=st.integers(0, 30), is_slow=st.booleans())
    def disturb(self, percent: int, is_slow: bool) -> None:
        self.cluster.loss = percent
        self.cluster.is_slow = is_slow

    @rule(node_id=NODES)
    def take_snapshot(self, node_id: int) -> None:
        if node_id in self.cluster.nodes:
            self.cluster.nodes[node_id].take_snapshot()

    @rule(node_id=NODES, add=st.booleans())
    def change_voters(self, node_id: int, add: bool) -> None:
        if add:
            self.cluster.add_voter(node_id)
        else:
            self.cluster.remove_voter(node_id)

    @invariant()
    def is_safe(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.checker.check()

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.converge()


TestQuorumMachine = QuorumMachine.TestCase
TestQuorumMachine.settings = settings(
    max_examples=20,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
