"""Secured listeners of Apache Kafka and ottla by turns: TLS, logins, ACLs.

``python benchmarks/security.py [--quick] [--rows TEXT] [--only ottla|kafka] [--rounds N]
[--no-files]``. Both brokers have the same listeners, certificates of the same kind, the same users
and the same ACLs. Nothing else should run on the machine meanwhile.
"""

import argparse
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(PROJECT)]  # in place of this directory; ottla itself is installed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=0, help="rounds of both brokers (3)")
    parser.add_argument(
        "--rows", default="", help="only rows with this in their names; A|B for both"
    )
    parser.add_argument("--quick", action="store_true", help="one round with a sixth of the load")
    parser.add_argument("--only", choices=("ottla", "kafka"), help="run one broker alone")
    parser.add_argument("--no-files", action="store_true", help="write no JSON and no plot")
    return parser.parse_args()


def main() -> None:
    from benchmarks.measures import Figures, Load
    from benchmarks.report import Results, table, write
    from benchmarks.security_turn import SecurityTurn
    from benchmarks.wheel import refuse_work_tree
    from tools.kafka_peer.broker_process import apache_kafka, ottla

    options = arguments()
    refuse_work_tree()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    load = Load(1 / 6 if options.quick else 1.0)
    rounds = options.rounds or (1 if options.quick else 3)
    programs = {"kafka": apache_kafka(), "ottla": ottla()}
    chosen = [options.only] if options.only else list(programs)
    results = Results()
    began = time.perf_counter()
    for number in range(rounds):
        for name in chosen if number % 2 == 0 else reversed(chosen):

            def report(row: str, figures: Figures, name: str = name, number: int = number) -> None:
                results.add(name, row, figures)
                shown = ", ".join(
                    f"{key} {value:,.3g} {measure.unit}"
                    for key, (value, measure) in figures.items()
                )
                print(f"round {number + 1}  {name:<6} {row}: {shown}", file=sys.stderr, flush=True)

            directory = Path(tempfile.mkdtemp(prefix=f"bench-{name}-"))
            try:
                SecurityTurn(programs[name], directory, load, options.rows).run(report)
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    print(table(results))
    seconds = time.perf_counter() - began
    print(f"\n{rounds} rounds in {seconds:.0f} s; ratios are ottla / kafka")
    if not options.no_files and not options.only:
        data, picture = write(results, rounds=rounds, scale=load.scale, kind="security")
        print(f"{data}\n{picture}")


if __name__ == "__main__":
    main()
