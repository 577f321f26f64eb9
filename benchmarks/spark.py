"""Spark on topics: our source and sink beside spark-sql-kafka, on the same broker of ours.

``python benchmarks/spark.py [--quick] [--rows TEXT] [--rounds N] [--conf NAME=VALUE] [--no-files]``
A broker as a process of its own and Spark as ``local[2]`` share the machine. Contenders of a row
take turns, and every run is checked: the number of rows, the sum of lengths, the sum of offsets;
before the first round also the sum of checksums of all values. Nothing else should run meanwhile.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

PROJECT = Path(__file__).resolve().parents[1]
sys.path[:1] = [str(PROJECT)]  # in place of this directory; ottla itself is installed

if TYPE_CHECKING:
    from benchmarks.contenders import Contest
    from benchmarks.measures import Figures
    from benchmarks.spark_stage import Shape, Stage

T = TypeVar("T")

QUICK: Final = 1 / 8
ROUNDS: Final = 3

Run = tuple[str, str, "Figures"]
"""Row, contender, and what it gave."""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, help=f"rounds of all rows ({ROUNDS}, quick 1)")
    parser.add_argument("--rows", default="", help="only rows whose name contains this text")
    parser.add_argument("--quick", action="store_true", help="with an eighth of the load")
    parser.add_argument(
        "--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark"
    )
    parser.add_argument("--no-files", action="store_true", help="write no JSON")
    return parser.parse_args()


class Rows:
    """All rows; the contenders of each in turn, the other way round in every second round."""

    def __init__(self, stage: "Stage", text: str, samples: int) -> None:
        from benchmarks.spark_stage import CODECS, SIZES

        self._stage = stage
        self._text = text
        self._samples = samples
        self._shapes = [stage.shape(size, codec) for size in SIZES for codec in CODECS]

    def _prepare(self, shape: "Shape") -> None:
        """Write what a row needs, when it is needed first; see that every way leads to it."""
        from benchmarks.spark_source import check_contents, reads

        if shape in self._stage.expected:
            return
        _say(f"writing {shape.rows:,} records of {shape.name}")
        self._stage.prepare(shape)
        check_contents(self._stage, shape, reads(self._stage, shape))

    def run(self, *, back: bool) -> Iterator[Run]:
        yield from self._read(back=back)
        yield from self._export(back=back)
        yield from self._write(back=back)
        yield from self._stream(back=back)

    def _read(self, *, back: bool) -> Iterator[Run]:
        from benchmarks.spark_source import measure, reads

        for shape in self._shapes:
            if self._text not in (row := f"read {shape.name}"):
                continue
            self._prepare(shape)
            for contender, frame in _turned(list(reads(self._stage, shape).items()), back):
                yield row, contender, measure(self._stage, shape, frame)

    def _export(self, *, back: bool) -> Iterator[Run]:
        from benchmarks.spark_sink import export, exports

        for shape in self._shapes:
            if self._text not in (row := f"to Parquet {shape.name}"):
                continue
            self._prepare(shape)
            for contender, run in _turned(list(exports(self._stage, shape).items()), back):
                yield row, contender, export(self._stage, shape, run)

    def _write(self, *, back: bool) -> Iterator[Run]:
        from benchmarks.spark_sink import SINK_CODECS, SINKS, sink

        for shape in (each for each in self._shapes if each.codec == "none"):
            for codec in SINK_CODECS:
                if self._text not in (row := f"write {shape.size} {codec}"):
                    continue
                self._prepare(shape)
                for contender in _turned(list(SINKS), back):
                    yield row, contender, sink(self._stage, shape, codec, contender)

    def _stream(self, *, back: bool) -> Iterator[Run]:
        from benchmarks.spark_batches import STREAMS, micro_batches

        if self._text not in "micro-batch":
            return
        for contender in _turned(list(STREAMS), back):
            for row, figures in micro_batches(self._stage, contender, self._samples).items():
                yield row, contender, figures


def _turned(items: list[T], back: bool) -> Iterable[T]:
    return reversed(items) if back else items


def contest() -> "Contest":
    from benchmarks import spark_sink, spark_source
    from benchmarks.contenders import Contest

    found = Contest(spark_source.CONNECTOR)
    for (size, contender), ratio in spark_source.WANTED.items():
        found.wanted[f"read {size}", contender] = ratio
    for size, ratio in spark_sink.SINK_WANTED.items():
        for codec in spark_sink.SINK_CODECS:
            found.wanted[f"write {size} {codec}", "sink"] = ratio
    for size, ratio in spark_sink.EXPORT_WANTED.items():
        for row in (f"to Parquet {size}", f"to Parquet {size} zstd"):
            found.wanted[row, spark_sink.EXPORT] = ratio
            found.instead[row] = spark_sink.SPARKS_WRITER
    return found


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    from benchmarks.report import circumstances, stem_of
    from benchmarks.spark_stage import stage
    from benchmarks.wheel import refuse_work_tree

    options = arguments()
    refuse_work_tree()
    scale = QUICK if options.quick else 1.0
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    settings = dict(each.split("=", 1) for each in options.conf)
    results = contest()
    began = time.perf_counter()
    directory = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with stage(directory, scale, settings) as made:
            rows = Rows(made, options.rows, samples=10 if options.quick else 30)
            for number in range(rounds):
                for row, contender, figures in rows.run(back=number % 2 == 1):
                    results.add(row, contender, figures)
                    shown = ", ".join(
                        f"{value:,.3g} {measure.unit}" for value, measure in figures.values()
                    )
                    _say(f"{row}: {contender}: {shown}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(results.table())
    print(f"\n{rounds} rounds in {time.perf_counter() - began:.0f} s")
    if not options.no_files:
        content = {
            **circumstances(),
            "rounds": rounds,
            "scale": scale,
            "spark": settings,
            "figures": results.as_json(),
        }
        stem = stem_of(content)
        path = stem.with_name(f"{stem.name}-spark.json")
        path.write_text(json.dumps(content, indent=1) + "\n")
        print(path)


if __name__ == "__main__":
    main()
