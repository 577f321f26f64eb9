"""``python -m tools.chaos``: real clusters, real clients, real faults; ours beside Apache Kafka's.

Prints a table of the longest time without a successful write, and ends with 1 when a record was
lost, doubled, out of order, or read although it was aborted. What needs root is skipped without it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tools.chaos.faults import NAMES
from tools.chaos.machine import NotPossible
from tools.chaos.run import Result, run

COLUMNS = (
    ("fault", "fault"),
    ("program", "program"),
    ("faults", "faults"),
    ("acknowledged", "acknowledged"),
    ("transactions", "transactions"),
    ("longest_gap_seconds", "longest gap s"),
    ("longest_transaction_gap_seconds", "txn gap s"),
    ("recovered_seconds", "in sync s"),
    ("anomalies", "anomalies"),
)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("--program", choices=["ottla", "kafka", "both"], default="ottla")
    parser.add_argument("--fault", choices=[*NAMES, "all"], default="all")
    parser.add_argument("--seconds", type=float, default=45.0)
    parser.add_argument("--every", type=float, default=15.0)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--history", type=Path, help="write what clients saw here, of the last run")
    given = parser.parse_args(words)
    programs = ["ottla", "kafka"] if given.program == "both" else [given.program]
    faults = list(NAMES) if given.fault == "all" else [given.fault]
    results = []
    for fault in faults:
        for program in programs:
            try:
                result = run(
                    program,
                    fault,
                    seconds=given.seconds,
                    every=given.every,
                    command=command_of(program),
                    history_file=given.history,
                )
            except NotPossible as reason:
                print(f"{fault} is skipped: {reason}", file=sys.stderr, flush=True)
                continue
            results.append(result)
            print(json.dumps(asdict(result)), file=sys.stderr, flush=True)
    print("\n".join(table(results)))
    if given.json is not None:
        given.json.write_text(json.dumps([asdict(each) for each in results], indent=2) + "\n")
    return 1 if any(result.anomalies for result in results) else 0


def command_of(program: str) -> tuple[str, ...] | None:
    """How a node of the program is started; None is ours."""
    if program == "ottla":
        return None
    from tools.kafka_peer.broker_process import apache_kafka

    return apache_kafka(heap=("-Xmx512M",)).serve_words


def table(results: Sequence[Result]) -> list[str]:
    """For people."""
    rows = [[title for _, title in COLUMNS]]
    for result in results:
        values = asdict(result)
        rows.append([_cell(values[name]) for name, _ in COLUMNS])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]


def _cell(value: object) -> str:
    return str(len(value)) if isinstance(value, list) else str(value)


if __name__ == "__main__":
    sys.exit(main())
