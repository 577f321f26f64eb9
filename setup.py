"""Compiles the hot modules with mypyc where a C compiler is at hand; else they run as they are.

``OTTLA_PURE=1`` skips it. An editable install stays pure until ``make compile``.
"""

import os
import sys
from pathlib import Path

from setuptools import setup

HOT = [
    "src/ottla/handlers/produce.py",
    "src/ottla/handlers/produce_outcomes.py",
    "src/ottla/network/connection.py",
    "src/ottla/protocol/fetch_answer.py",
    "src/ottla/protocol/fetch_response.py",
    "src/ottla/protocol/primitives.py",
    "src/ottla/protocol/produce_request.py",
    "src/ottla/protocol/produce_response.py",
    "src/ottla/records/batch.py",
    "src/ottla/records/builder.py",
    "src/ottla/records/record.py",
    "src/ottla/records/validation.py",
    "src/ottla/records/varint.py",
    "src/ottla/records/walk.py",
    "src/ottla/replication/acknowledgements.py",
    "src/ottla/replication/fetch_state.py",
    "src/ottla/replication/fetchers.py",
    "src/ottla/replication/fetching.py",
    "src/ottla/replication/follower_state.py",
    "src/ottla/replication/isr.py",
    "src/ottla/replication/leadership.py",
    "src/ottla/replication/partition.py",
    "src/ottla/replication/readers.py",
    "src/ottla/storage/compaction.py",
    "src/ottla/storage/durable_log.py",
    "src/ottla/storage/log.py",
    "src/ottla/storage/offset_map.py",
    "src/ottla/storage/producer_state.py",
    "src/ottla/storage/readable_log.py",
    "src/ottla/storage/results.py",
    "src/ottla/storage/segment.py",
]
"""The way of a record through the broker; the largest part is the walk over records, 25 times."""


def extensions() -> list[object]:
    editable = "editable_wheel" in sys.argv or "develop" in sys.argv
    if os.environ.get("OTTLA_PURE") == "1" or (editable and os.environ.get("OTTLA_COMPILE") != "1"):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        return []
    present = [path for path in HOT if Path(path).exists()]
    modules = mypycify(present, opt_level="3", strip_asserts=False)
    for module in modules:
        module.optional = True  # type: ignore[attr-defined]
    return list(modules)


setup(ext_modules=extensions())
