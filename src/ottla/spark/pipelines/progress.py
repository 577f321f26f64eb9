"""What Spark tells of a micro-batch, as far as people want to know it."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple


class BatchProgress(NamedTuple):
    """``rows`` were read; ``lag`` counts the records of topics that are still to be read."""

    run_id: str
    batch: int
    rows: int
    rows_per_second: float
    seconds: float
    lag: int | None


def parse(content: Mapping[str, Any]) -> BatchProgress:
    """Of the JSON of a ``StreamingQueryProgress``."""
    durations = content.get("durationMs") or {}
    lags = [lag(source) for source in content.get("sources", ())]
    known = [each for each in lags if each is not None]
    return BatchProgress(
        run_id=str(content.get("runId", "")),
        batch=int(content.get("batchId", 0)),
        rows=int(content.get("numInputRows", 0)),
        rows_per_second=float(content.get("processedRowsPerSecond") or 0.0),
        seconds=float(durations.get("triggerExecution", 0)) / 1000,
        lag=sum(known) if known else None,
    )


def lag(source: Mapping[str, Any]) -> int | None:
    """Of a source whose offsets are those of topics; others do not say."""
    latest, end = _offsets(source.get("latestOffset")), _offsets(source.get("endOffset"))
    if latest is None or end is None:
        return None
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(given: Any) -> dict[tuple[str, str], int] | None:
    """``{"topic": {"0": 17}}``, as a text or as it is."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    if not isinstance(given, dict) or not all(isinstance(each, dict) for each in given.values()):
        return None
    found = {}
    for topic, partitions in given.items():
        for partition, offset in partitions.items():
            if not isinstance(offset, int) or not partition.isdecimal():
                return None
            found[topic, partition] = offset
    return found
