"""Compiles the hot modules with mypyc where a C compiler is at hand; else they run as they are.

``OTTLA_PURE=1`` skips it, ``OTTLA_COMPILE=1`` insists on it. An editable install stays pure until
``make compile``.
"""

import os
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

HOT = [
    "src/ottla/common/promise.py",
    "src/ottla/common/turn.py",
    "src/ottla/handlers/fetch.py",
    "src/ottla/handlers/produce.py",
    "src/ottla/requests/dispatch.py",
    "src/ottla/requests/joint_produce.py",
    "src/ottla/requests/produce_attempt.py",
    "src/ottla/requests/produce_crowd.py",
    "src/ottla/requests/produce_outcomes.py",
    "src/ottla/network/connection.py",
    "src/ottla/network/poller.py",
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
    "src/ottla/replication/due_flush.py",
    "src/ottla/replication/fetch_state.py",
    "src/ottla/replication/fetchers.py",
    "src/ottla/replication/fetching.py",
    "src/ottla/replication/follower_state.py",
    "src/ottla/replication/isr.py",
    "src/ottla/replication/leadership.py",
    "src/ottla/replication/partition.py",
    "src/ottla/replication/readers.py",
    "src/ottla/replication/topic_counts.py",
    "src/ottla/replication/waiting.py",
    "src/ottla/storage/cleaning/compaction.py",
    "src/ottla/storage/cleaning/offset_map.py",
    "src/ottla/storage/file_records.py",
    "src/ottla/storage/flushing.py",
    "src/ottla/storage/joint_append.py",
    "src/ottla/storage/log.py",
    "src/ottla/storage/on_disk.py",
    "src/ottla/storage/producer_state.py",
    "src/ottla/storage/reader.py",
    "src/ottla/storage/results.py",
    "src/ottla/storage/segment.py",
    "src/ottla/storage/segments.py",
]
"""The way of a record through the broker; the largest part is the walk over records, 25 times."""
PURE = os.environ.get("OTTLA_PURE") == "1"
REQUIRED = os.environ.get("OTTLA_COMPILE") == "1"


def extensions() -> list[object]:
    """All hot modules, or none: a name in the list that is no file is a mistake of ours."""
    missing = [path for path in HOT if not Path(path).exists()]
    if missing:
        sys.exit(f"setup.py names hot modules that are not there: {', '.join(missing)}")
    editable = "editable_wheel" in sys.argv or "develop" in sys.argv
    if PURE or (editable and not REQUIRED):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        if REQUIRED:
            raise
        return []
    return list(mypycify(HOT, opt_level="3", strip_asserts=False))


class BuildAllOrNone(build_ext):
    """The compiled modules share one library: with a part of them nothing could be imported."""

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            if REQUIRED:
                raise
            self.warn(f"ottla's hot modules are not compiled and run as Python: {error}")
            for path in self.get_outputs():
                Path(path).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildAllOrNone})
