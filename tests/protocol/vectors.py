"""1,566 messages of Apache Kafka 4.3.1 (3.9.1 for ZooKeeper mode) with the bytes its code made."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ottla.protocol.generated.index import MODULES
from ottla.protocol.schemas import message_class


class Vector(NamedTuple):
    name: str
    version: int
    json: dict[str, Any]
    data: bytes


@cache
def vectors() -> list[Vector]:
    packed = Path(__file__).with_name("vectors.jsonl.gz").read_bytes()
    rows = map(json.loads, gzip.decompress(packed).decode().splitlines())
    return [Vector(r["name"], r["version"], r["json"], bytes.fromhex(r["hex"])) for r in rows]


def names_and_versions() -> list[tuple[str, int]]:
    """Every message in every version."""
    found = []
    for name in MODULES:
        cls = message_class(name)
        found += [(name, v) for v in range(cls.LOWEST_VERSION, cls.HIGHEST_VERSION + 1)]
    return found
