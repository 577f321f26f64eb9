"""One run: a cluster, writers, a fault, and what came of it."""

import contextlib
import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.chaos.faults import CUT_NAMESPACE, DISK_FULL, FAULTS, Fault, cut_namespace, times
from tools.chaos.machine import Namespaces, small_disks
from tools.chaos.writers import (
    PARTITIONS,
    PLAIN,
    TRANSACTIONAL,
    PlainWriter,
    TransactionWriter,
    Writer,
    read_everything,
)

from ottla.client.descriptions import NewTopic
from ottla.simulation.checkers.suite import check
from ottla.simulation.history import EndTransaction, History, Send, to_lines
from ottla.testing.cluster import Cluster

NODES = 3
QUICK = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


@dataclass
class Result:
    """What one run showed."""

    program: str
    fault: str
    seconds: float
    faults: int = 0
    acknowledged: int = 0
    transactions: int = 0
    longest_gap_seconds: float | None = None
    """Without a success, of the partition that had it worst."""
    longest_transaction_gap_seconds: float | None = None
    recovered_seconds: float = 0.0
    """From the end of the faults until all replicas were in sync."""
    anomalies: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


def run(
    program: str,
    fault: str,
    *,
    seconds: float,
    every: float = 15.0,
    command: Sequence[str] | None = None,
    history_file: Path | None = None,
) -> Result:
    """Do ``fault`` to a new cluster every so many seconds while clients write to it."""
    result = Result(program, fault, seconds)
    with _cluster(fault, command) as (cluster, do):
        with cluster.admin() as admin:
            admin.create_topics([NewTopic(name, PARTITIONS) for name in (PLAIN, TRANSACTIONAL)])
        cluster.wait_until_in_sync()
        history = History(time.monotonic)
        servers = cluster.bootstrap_servers
        writers = [
            PlainWriter(servers, history, "plain"),
            TransactionWriter(servers, history, "txn"),
        ]
        for writer in writers:
            writer.start()
        try:
            cluster.wait_until(lambda: all(w.acknowledged for w in writers), 60, "all write")
            for _ in times(seconds, every):
                do(cluster, time.sleep)
                result.faults += 1
        finally:
            cluster.heal()
            for node in cluster.nodes:
                cluster.resume(node.node_id)
                if not node.is_running:
                    node.process.start()
            calm = time.monotonic()
            for writer in writers:
                writer.stop(180)
        cluster.wait_until_in_sync(120)
        result.recovered_seconds = round(time.monotonic() - calm, 2)
        read_everything(servers, history)
        _judge(result, history, writers)
        if history_file is not None:
            history_file.write_text("\n".join(to_lines(history)) + "\n")
    return result


@contextlib.contextmanager
def _cluster(fault: str, command: Sequence[str] | None) -> Iterator[tuple[Cluster, Fault]]:
    """A cluster on what the fault needs, and what to do to it."""
    with contextlib.ExitStack() as stack:
        if fault == CUT_NAMESPACE:
            network = Namespaces(NODES)
            stack.enter_context(network.made())
            cluster = Cluster(
                NODES,
                config=QUICK,
                command=command,
                proxied=False,
                hosts=network.hosts,
                prefixes=network.prefixes,
            )
            do = cut_namespace(network)
        else:
            directory = stack.enter_context(small_disks(NODES)) if fault == DISK_FULL else None
            cluster = Cluster(
                NODES,
                config=QUICK,
                command=command,
                directory=None if directory is None else str(directory),
            )
            do = FAULTS[fault]
        yield stack.enter_context(cluster), do


def _judge(result: Result, history: History, writers: Iterable[Writer]) -> None:
    result.acknowledged = sum(isinstance(each, Send) and each.is_ok for each in history)
    result.transactions = sum(
        isinstance(each, EndTransaction) and each.is_ok and each.commit for each in history
    )
    plain, transactional = (writer.acknowledged for writer in writers)
    gaps = [
        longest_gap(at for partition, at in plain if partition == wanted)
        for wanted in range(PARTITIONS)
    ]
    result.longest_gap_seconds = None if None in gaps else max(filter(None, gaps), default=None)
    result.longest_transaction_gap_seconds = longest_gap(at for _, at in transactional)
    result.anomalies = [str(anomaly) for anomaly in check(history)]
    result.trouble = sorted({text for writer in writers for text in writer.trouble})[:20]


def longest_gap(successes: Iterable[float]) -> float | None:
    """The longest time between two successes; None when there were not two."""
    pairs = itertools.pairwise(sorted(successes))
    gap = max((after - before for before, after in pairs), default=None)
    return None if gap is None else round(gap, 2)
