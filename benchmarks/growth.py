"""How our own costs grow: connections, partitions, fetch sessions, groups, topics, the controller.

``python benchmarks/growth.py [--curves TEXT] [--scale X]``. A curve is measured at several sizes,
up to ``--scale`` times the largest; 1 is all of it. Nothing else should run on the machine
meanwhile. Each curve prints a table; all are written to ``benchmarks/results``.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(PROJECT)]  # in place of this directory; ottla itself is installed


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--curves", default="", help="only curves whose name contains this text")
    parser.add_argument("--scale", type=float, default=0.1, help="part of the largest sizes (0.1)")
    parser.add_argument("--list", action="store_true", help="only say which curves there are")
    parser.add_argument("--no-files", action="store_true", help="write no JSON")
    return parser.parse_args()


def main() -> None:
    from benchmarks.curves import (
        connections,
        controller,
        fetch_sessions,
        groups,
        members,
        partitions,
        topics,
    )
    from benchmarks.curves.curve import Measured
    from benchmarks.report import circumstances, stem_of
    from benchmarks.wheel import refuse_work_tree

    options = arguments()
    modules = (controller, partitions, connections, fetch_sessions, topics, groups, members)
    curves = [module.CURVE for module in modules]
    chosen = [curve for curve in curves if options.curves in curve.name]
    if options.list:
        for curve in chosen:
            sizes = ", ".join(f"{size:,}" for size in curve.sizes)
            print(f"{curve.name}: {sizes} (about {curve.minutes:g} minutes)")
        return
    refuse_work_tree()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    found: list[Measured] = []
    for curve in chosen:
        began = time.perf_counter()
        measured = Measured(curve)
        for size in curve.sizes_at(options.scale):
            print(f"{curve.name}: {size:,} ...", file=sys.stderr, flush=True)
            measured.points[size] = curve.measure(size)
        found.append(measured)
        print(f"{measured.table()}\n({time.perf_counter() - began:.0f} s)\n", flush=True)
    if not options.no_files:
        told = {**circumstances(), "scale": options.scale}
        stem = stem_of(told)
        path = stem.with_name(f"{stem.name}-growth.json")
        told["curves"] = [each.as_json() for each in found]
        path.write_text(json.dumps(told, indent=1) + "\n")
        print(path)


if __name__ == "__main__":
    main()
