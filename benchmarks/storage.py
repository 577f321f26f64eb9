"""Storage for years: the cleaner against Kafka's, the remote store against a plain copy.

``python benchmarks/storage.py [--quick] [--rows TEXT] [--no-files]``. The cleaner is compared with
Apache Kafka's on the same log; upload and cold reads with a plain copy of the same bytes; the tail
beside ten readers of remote history, and beside a cleaning, with the tail alone. Nothing else
should run meanwhile.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(PROJECT)]  # in place of this directory; ottla itself is installed

if TYPE_CHECKING:
    from benchmarks.measures import Figures, Load

KEYS: Final = 10_000_000
RECORDS: Final = 12_000_000
VALUE: Final = 100
SEGMENT_MEGABYTES: Final = 500

Rows = dict[str, "Figures"]
"""What each contender gave; the first one is what the others are held against."""


@contextmanager
def temporary() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-storage-") as directory:
        yield Path(directory)


def cleaner(load: "Load") -> Rows:
    from benchmarks.cleaner import compact
    from tools.kafka_peer.broker_process import apache_kafka, ottla

    rows: Rows = {}
    for program in (apache_kafka(), ottla()):
        with temporary() as directory:
            rows[program.name] = compact(
                program,
                directory,
                records=int(RECORDS * load.scale),
                keys=int(KEYS * load.scale),
                value_size=VALUE,
            )
    return rows


def remote_store(load: "Load") -> Rows:
    from benchmarks.tiered import tiered

    with temporary() as directory:
        return tiered(directory, int(SEGMENT_MEGABYTES * load.scale))


def tail(load: "Load") -> Rows:
    from benchmarks.cold_readers import tail_beside_cold_readers

    with temporary() as directory:
        alone, local, remote = tail_beside_cold_readers(directory, load)
    return {"alone": alone, "10 readers of local": local, "10 readers of remote": remote}


def tail_beside_cleaner(load: "Load") -> Rows:
    from benchmarks.cleaner import tail_beside_cleaning

    with temporary() as directory:
        alone, beside = tail_beside_cleaning(directory, load)
    return {"alone": alone, "beside a cleaning": beside}


ROWS: Final[dict[str, Callable[["Load"], Rows]]] = {
    "cleaner": cleaner,
    "remote store": remote_store,
    "tail beside cold readers": tail,
    "tail beside the cleaner": tail_beside_cleaner,
}


def show(row: str, rows: Rows) -> list[dict[str, Any]]:
    """Print what came of a row, each contender beside the first; the same for the file."""
    first, *_ = rows
    found = []
    for contender, figures in rows.items():
        for name, (value, measure) in figures.items():
            ratio = value / rows[first][name][0]
            print(
                f"{row:<26}{contender:<22}{name:<12}{value:>10,.3g} {measure.unit:<10}{ratio:.2f}"
            )
            found.append(
                {
                    "row": row,
                    "contender": contender,
                    "figure": name,
                    "unit": measure.unit,
                    "value": value,
                    "against": first,
                    "ratio": round(ratio, 4),
                }
            )
    return found


def main() -> None:
    from benchmarks.measures import Load
    from benchmarks.report import circumstances, stem_of

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="with a sixth of the load")
    parser.add_argument("--no-files", action="store_true", help="write no JSON")
    from benchmarks.wheel import refuse_work_tree

    options = parser.parse_args()
    refuse_work_tree()
    load = Load(1 / 6 if options.quick else 1.0)
    found = []
    for row, run in ROWS.items():
        if options.rows in row:
            found += show(row, run(load))
    if not options.no_files:
        content = {**circumstances(), "scale": load.scale, "figures": found}
        stem = stem_of(content)
        path = stem.with_name(f"{stem.name}-storage.json")
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(path)


if __name__ == "__main__":
    main()
