"""Three brokers against three of Apache Kafka's: replicated throughput, failover, many partitions.

``python benchmarks/cluster.py [--quick] [--rows TEXT] [--without TEXT] [--only ottla|kafka]
[--against PYTHON]``. Both clusters run by turns, never at once, on their defaults beside three
replicas of which two must be in sync. On a small machine three brokers and the client share the
same cores, so throughput is what all of them together can do. Nothing else should run meanwhile.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(PROJECT)]  # in place of this directory; ottla itself is installed

if TYPE_CHECKING:
    from benchmarks.measures import Figures, Load
    from tools.kafka_peer.cluster_process import ClusterProcess


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="rounds of both clusters (1)")
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--without", help="no rows whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="with a sixth of the load")
    parser.add_argument("--only", choices=("ottla", "kafka"), help="run one cluster alone")
    parser.add_argument(
        "--against", metavar="PYTHON", help="instead of Kafka, the ottla of that interpreter"
    )
    parser.add_argument("--no-files", action="store_true", help="write no JSON and no plot")
    return parser.parse_args()


def rows(load: "Load") -> "dict[str, Callable[[ClusterProcess], Figures]]":
    from benchmarks import replicated as r

    found: dict[str, Callable[[ClusterProcess], Figures]] = {
        "memory of a broker, idle": r.memory,
        "produce 1 KB, 3 replicas, acks=all, Java": lambda c: r.produce_java(c, load),
        "produce 1 KB, 3 replicas, acks=all, librdkafka": lambda c: r.produce_librdkafka(c, load),
        "latency at 5,000 records/s, 3 replicas, acks=all": lambda c: r.latency(c, load),
        "kill -9 of a leader": lambda c: r.failover(c, load),
        "create 1,000 partitions, 3 replicas": lambda c: r.create(c, 1_000),
    }
    if load.scale >= 1:
        found["create 10,000 partitions, 3 replicas"] = lambda c: r.create(c, 10_000)
    found["restart with 2,000 partitions, 3 replicas"] = lambda c: r.restart(c, 2_000)
    found["memory of a broker, loaded"] = r.memory
    return found


def main() -> None:
    from benchmarks.measures import Load
    from benchmarks.report import Results, table, write
    from benchmarks.wheel import refuse_work_tree
    from tools.kafka_peer.broker_process import apache_kafka, ottla, ottla_of
    from tools.kafka_peer.cluster_process import ClusterProcess, running

    options = arguments()
    refuse_work_tree()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = Load(1 / 6 if options.quick else 1.0)
    against = options.against
    other = apache_kafka() if against is None else ottla_of(against)
    programs = {other.name: other, "ottla": ottla()}
    chosen = [options.only] if options.only else list(programs)
    results = Results(other.name)
    began = time.perf_counter()
    for number in range(options.rounds):
        for name in chosen if number % 2 == 0 else reversed(chosen):
            directory = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
            try:
                with running(ClusterProcess(programs[name], directory)) as cluster:
                    for row, run in rows(load).items():
                        if options.rows not in row or (options.without or "\n") in row:
                            continue
                        figures = run(cluster)
                        results.add(name, row, figures)
                        shown = ", ".join(
                            f"{key} {value:,.3g} {measure.unit}"
                            for key, (value, measure) in figures.items()
                        )
                        print(f"{name:<6} {row}: {shown}", file=sys.stderr, flush=True)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    print(table(results))
    seconds = time.perf_counter() - began
    print(f"\n{options.rounds} rounds in {seconds:.0f} s; ratios are ottla / {other.name}")
    if not options.no_files and not options.only:
        data, picture = write(results, rounds=options.rounds, scale=load.scale, kind="cluster")
        print(f"{data}\n{picture}")


if __name__ == "__main__":
    main()
