"""The figures of a broker's replicas, by Kafka's names."""

from tests.replication.alone import alone_replicas
from tests.replication.states import state
from tests.replication.test_replicas import TOPIC_ID, Logs

from ottla.common.chance import Chance
from ottla.common.topic_partition import TopicPartition
from ottla.observability.metrics import Gauge, Meter, Registry
from ottla.replication import metrics
from ottla.simulation.scheduler import SimulatedScheduler


def test_replicas_are_counted_by_what_they_lack() -> None:
    replicas = alone_replicas(Logs(), SimulatedScheduler(Chance(1)))
    for index, (leader, isr) in enumerate(
        [(1, (1, 2, 3)), (1, (1, 2)), (1, (1,)), (2, (1, 2, 3)), (1, (1,))]
    ):
        said = state(leader, 0, isr, replicas=(1, 2, 3))
        replicas.apply("t", TOPIC_ID, index, said, is_new=True, min_insync_replicas=2)
    replicas.fail([TopicPartition("t", 4)])
    registry = Registry()
    metrics.register(registry, replicas)
    replicas.outside.isr_shrinks.count += 3
    found = {}
    for name in registry.names():
        instrument = registry.get(name)
        assert isinstance(instrument, Gauge | Meter)
        found[name.name] = instrument.read() if isinstance(instrument, Gauge) else instrument.count
    assert found == {
        "PartitionCount": 4,
        "LeaderCount": 3,
        "UnderReplicatedPartitions": 2,
        "UnderMinIsrPartitionCount": 1,
        "AtMinIsrPartitionCount": 1,
        "OfflineReplicaCount": 1,
        "IsrExpandsPerSec": 0,
        "IsrShrinksPerSec": 3,
        "FailedIsrUpdatesPerSec": 0,
    }
