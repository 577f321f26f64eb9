"""Workloads on a small simulated cluster that nothing troubles: all goes well, and is checked."""

from ottla.common.promise import run
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.simulation.checkers.suite import check
from ottla.simulation.cluster import SimulatedCluster
from ottla.simulation.history import (
    Assign,
    CommitOffset,
    Copy,
    EndTransaction,
    FetchOffset,
    History,
    Poll,
    ReadAll,
    Send,
    to_lines,
)
from ottla.simulation.workloads.administration import Administration
from ottla.simulation.workloads.copies import Copies
from ottla.simulation.workloads.groups import Groups
from ottla.simulation.workloads.mix import SETTINGS
from ottla.simulation.workloads.producing import Producer
from ottla.simulation.workloads.records import CompactedRecords, ExpiringRecords, Records
from ottla.simulation.workloads.transactions import Transactions
from ottla.simulation.workloads.workload import Workload

ALONE = {
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


def perform(
    kind: type[Workload], seed: int, seconds: float = 30.0, *, ahead_ms: int = 0
) -> History:
    """Let it work, and conclude; ``ahead_ms`` of its clock are taken back when the work ends."""
    cluster = SimulatedCluster(seed, nodes=1, settings={**SETTINGS, **ALONE})
    cluster.start()
    history = History(lambda: cluster.scheduler.now)
    workload = kind(cluster, history)
    prepared = run(cluster.scheduler.turn, workload.prepare())
    assert cluster.run_until(lambda: prepared.done, 60)
    prepared.result()
    if ahead_ms:
        cluster.nodes[1].skew(ahead_ms)
    workload.start()
    cluster.run_for(seconds)
    if ahead_ms:
        cluster.nodes[1].skew(0)
    workload.stop()
    assert cluster.run_until(lambda: not workload.still_running, 120), workload.still_running
    concluded = run(cluster.scheduler.turn, workload.conclude())
    assert cluster.run_until(lambda: concluded.done, 60)
    concluded.result()
    assert check(history) == []
    return history


def records_sent(history: History) -> int:
    sent = sum(isinstance(each, Send) and each.is_ok for each in history)
    assert sent > 100
    assert sum(isinstance(each, Poll) for each in history) > 20
    return sent


def logs(history: History) -> list[ReadAll]:
    return [each for each in history if isinstance(each, ReadAll)]


def test_records_are_kept() -> None:
    history = perform(Records, 1)
    assert records_sent(history) == sum(len(log.records) for log in logs(history)) // 2


def test_the_end_is_read_from_a_new_leader_when_it_knows_it() -> None:
    """Seed 5404: until its followers have fetched, it shows less than its predecessor did."""
    cluster = SimulatedCluster(1, settings=SETTINGS, roles="separate")
    cluster.start()
    history = History(lambda: cluster.scheduler.now)
    workload = Records(cluster, history)
    cluster.wait_for(run(cluster.scheduler.turn, workload.prepare()), 30)
    place = workload.places[0]
    producer = Producer(workload.client("producer"), history)
    cluster.wait_for(run(cluster.scheduler.turn, producer.send_burst(place, [[None]])), 30)
    topic = cluster.newest_image().topics.by_name[Records.NAME]
    leader, new_leader, other = (cluster.nodes[each] for each in topic.partitions[0].replicas)
    leader.kill()
    cluster.run_for(4.4)  # its session has lasted for at least so long
    other.pause()
    (ours,) = (p for p in new_leader.partitions() if (p.topic, p.index) == place)
    assert cluster.run_until(lambda: ours.is_leader, 3)
    concluded = run(cluster.scheduler.turn, workload.conclude())
    cluster.run_for(2)
    assert not concluded.done
    other.resume()
    cluster.wait_for(concluded, 30)
    assert {read.log_end for read in logs(history) if read.partition == 0} == {1}


def test_records_expire() -> None:
    history = perform(ExpiringRecords, 1)
    assert records_sent(history)
    assert all(log.log_start > 0 for log in logs(history))


def test_records_are_compacted() -> None:
    history = perform(CompactedRecords, 1)
    assert records_sent(history) > 3 * sum(len(log.records) for log in logs(history)) // 2


def test_transactions() -> None:
    history = perform(Transactions, 1, seconds=60)
    ends = [each for each in history if isinstance(each, EndTransaction)]
    assert sum(each.commit and each.is_ok for each in ends) > 50
    assert sum(not each.commit and each.is_ok for each in ends) > 10


def test_transactions_that_began_under_a_clock_ahead_are_ended_by_the_next_producer() -> None:
    perform(Transactions, 3, ahead_ms=86_400_000)


def test_groups() -> None:
    history = perform(Groups, 1, seconds=60)
    assert records_sent(history)
    for group in ("classic", "consumer"):
        assigns = [each for each in history if isinstance(each, Assign) and each.group == group]
        assert len({each.member for each in assigns if each.partitions}) > 3
        commits = [each for each in history if isinstance(each, CommitOffset)]
        assert sum(each.group == group and each.is_ok for each in commits) > 20


def test_copies() -> None:
    history = perform(Copies, 1, seconds=60)
    copied = {each.group for each in history if isinstance(each, Copy)}
    assert copied == {"classic-copiers", "consumer-copiers"}
    finals = [each for each in history if isinstance(each, FetchOffset) and each.is_final]
    assert all(each.offset > 10 for each in finals)


def test_administration() -> None:
    perform(Administration, 1)


def test_administration_moves_replicas_where_there_is_a_broker_more() -> None:
    cluster = SimulatedCluster(1, nodes=4, settings=SETTINGS)
    cluster.start()
    moved: set[tuple[str, int]] = set()

    def look(_image: MetadataImage, delta: MetadataDelta) -> None:
        for topic in delta.topics.changed.values():
            for index, partition in topic.changed.items():
                before = topic.before(index)
                if before is not None and before.removing_replicas and not partition.is_reassigning:
                    moved.add((topic.name, index))

    cluster.nodes[1].metadata.on_image(look)
    workload = Administration(cluster, History(lambda: cluster.scheduler.now))
    workload.start()
    assert cluster.run_until(lambda: len(moved) > 2, 60)
    workload.stop()


def test_the_same_seed_gives_the_same_history() -> None:
    histories = [list(to_lines(perform(Transactions, 7, seconds=10))) for _ in range(2)]
    assert histories[0] == histories[1]
    assert histories[0] != list(to_lines(perform(Transactions, 8, seconds=10)))
