"""The log of a Parquet table: one small file for each commit, beside the data.

``_log/<version>.json`` is made only if there is none, which decides between writers. Every few
commits ``_log/<version>.checkpoint.json`` sums up what is before. Spark's own log of its file sink
would do for appending, but knows neither replacing nor several writers.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import StructType

from ottla.common.clock import Clock
from ottla.spark.tables.columns import arrow_columns, evolved
from ottla.spark.tables.commits import Change, DataFile, Snapshot
from ottla.spark.tables.data_files import FOLDER
from ottla.spark.tables.errors import BadTable, CommitConflict, VersionGone
from ottla.spark.tables.spec import TableSpec
from ottla.spark.tables.store import Store

LOG: Final = "_log"
FORMAT_VERSION: Final = 1
CHECKPOINT_INTERVAL: Final = 10
COMPACT: Final = "compact"
"""The operation of a commit that streams pass over."""
KEPT_MS: Final = 24 * 60 * 60 * 1000
"""The number of a commit is not free again as long as somebody may be about to take it."""
_NAME: Final = re.compile(r"_log/(\d{20})(\.checkpoint)?\.json")


class _State(NamedTuple):
    """What the commits up to a version come to."""

    version: int
    schema: Any
    partition_by: list[str]
    batches: Mapping[str, int]
    files: Mapping[str, DataFile]
    compacted: int = -1

    def after(self, commit: Mapping[str, Any]) -> "_State":
        removed = set(commit["removed"])
        files = {path: file for path, file in self.files.items() if path not in removed}
        files |= {each[0]: _file(each) for each in commit["added"]}
        return _State(
            commit["version"],
            commit.get("schema", self.schema),
            self.partition_by,
            {**self.batches, **commit["batches"]},
            files,
            commit["version"] if commit["operation"] == COMPACT else self.compacted,
        )

    def snapshot(self) -> Snapshot:
        files = tuple(self.files.values())
        schema = StructType.fromJson(self.schema)
        return Snapshot(self.version, schema, files, self.batches.get, self.compacted)


class ParquetLog:
    def __init__(self, spec: TableSpec, store: Store, clock: Clock) -> None:
        self._spec = spec
        self._store = store
        self._clock = clock
        self._known: _State | None = None
        self._last = b""
        """The newest commit of what is known: no other table has the same."""
        self._seen = -1

    def version(self) -> int:
        """Asked for ten times a second: a log of many commits is not looked through each time."""
        if self._seen < 0 or not self._store.exists(_path(self._seen)):
            self._seen = max(self._names()[0], default=-1)
        while self._seen >= 0 and self._store.exists(_path(self._seen + 1)):
            self._seen += 1
        return self._seen

    def newest(self) -> Snapshot | None:
        version = self.version()
        if version < 0:
            return None
        self._known = self._after_known(version) or self._load(version, *self._names())
        self._last = self._store.read(_path(version))
        return self._known.snapshot()

    def _remembered(self) -> _State | None:
        """What was known, unless that was another table, which somebody has dropped since."""
        if self._known is None:
            return None
        try:
            is_same = self._store.read(_path(self._known.version)) == self._last
        except FileNotFoundError:  # or so old that vacuum was there
            is_same = False
        if not is_same:
            self._known = None
        return self._known

    def _after_known(self, version: int) -> _State | None:
        """What was known, with the commits since then; None if that does not lead there."""
        state = self._remembered()
        if state is None or state.version > version:
            return None
        try:
            for number in range(state.version + 1, version + 1):
                state = state.after(self._read(number))
        except FileNotFoundError:  # so old that vacuum was there
            return None
        return state

    def at(self, version: int) -> Snapshot:
        return self._load(version, *self._names()).snapshot()

    def columns(self, schema: StructType) -> StructType:
        return schema

    def file_schema(self, snapshot: Snapshot) -> pa.Schema:
        return arrow_columns(snapshot.schema)

    def prepare(self, schema: StructType) -> Snapshot:
        while True:
            base = self.newest()
            if base is None:
                first = {"formatVersion": FORMAT_VERSION, "partitionBy": [*self._spec.partition_by]}
                commit = self._commit(0, "create", schema=schema.jsonValue(), **first)
            else:
                assert self._known is not None
                self._check_partitioning(self._known.partition_by)
                wanted = evolved(self._spec.name, base.schema, schema)
                if wanted == base.schema:
                    return base
                commit = self._commit(base.version + 1, "evolve", schema=wanted.jsonValue())
            try:
                self._put(commit)
            except CommitConflict:
                continue

    def _check_partitioning(self, there: list[str]) -> None:
        if there != [*self._spec.partition_by]:
            raise BadTable(
                f"table {self._spec.name} is partitioned by {', '.join(there) or 'nothing'}, not "
                f"by {', '.join(self._spec.partition_by) or 'nothing'}: that is for ever; say so, "
                "or write to a new table"
            )

    def commit(self, base: Snapshot, change: Change) -> None:
        self._put(
            self._commit(
                base.version + 1,
                change.operation,
                added=[[f.path, f.rows, f.size, list(f.partition)] for f in change.added],
                removed=[each.path for each in change.removed],
                batches=dict(change.batches),
            )
        )
        if (base.version + 1) % CHECKPOINT_INTERVAL == 0:
            self._checkpoint(base.version + 1)

    def _commit(self, version: int, operation: str, **content: Any) -> dict[str, Any]:
        return {
            "version": version,
            "timestamp": self._clock.wall_ms(),
            "operation": operation,
            "added": [],
            "removed": [],
            "batches": {},
            **content,
        }

    def _put(self, commit: Mapping[str, Any]) -> None:
        try:
            self._store.put_new(_path(commit["version"]), json.dumps(commit).encode())
        except FileExistsError:
            raise CommitConflict(
                f"table {self._spec.name} has a version {commit['version']} already"
            ) from None

    def _checkpoint(self, version: int) -> None:
        state = self._load(version, *self._names())
        content = {**state._asdict(), "files": [list(file) for file in state.files.values()]}
        try:
            self._store.put_new(_path(version, ".checkpoint"), json.dumps(content).encode())
        except FileExistsError:
            return  # made of the same commits

    # Reading

    def _names(self) -> tuple[set[int], set[int]]:
        """Versions that have a commit, and those that have a checkpoint."""
        commits: set[int] = set()
        checkpoints: set[int] = set()
        for file in self._store.list(LOG):
            if found := _NAME.fullmatch(file.path):
                (checkpoints if found[2] else commits).add(int(found[1]))
        return commits, checkpoints

    def _load(self, version: int, commits: set[int], checkpoints: set[int]) -> _State:
        before = max((each for each in checkpoints if each <= version), default=-1)
        state = None
        known = self._remembered()
        if known is not None and before <= known.version <= version:
            state = known
        elif before >= 0:
            state = self._read_checkpoint(before)
        first = 0 if state is None else state.version + 1
        if version not in commits | checkpoints or not commits.issuperset(
            range(first, version + 1)
        ):
            raise VersionGone(
                f"version {version} of table {self._spec.name} is not there (any more): vacuum "
                "removes old ones; a stream that stood there begins anew with a new checkpoint"
            )
        for number in range(first, version + 1):
            commit = self._read(number)
            state = (self._first(commit) if state is None else state).after(commit)
        assert state is not None
        return state

    def _read(self, version: int) -> dict[str, Any]:
        commit: dict[str, Any] = json.loads(self._store.read(_path(version)))
        return commit

    def _first(self, commit: Mapping[str, Any]) -> _State:
        if commit["formatVersion"] != FORMAT_VERSION:
            raise BadTable(
                f"table {self._spec.name} has format version {commit['formatVersion']}, "
                f"and this program knows {FORMAT_VERSION} only: take a newer one"
            )
        return _State(-1, commit["schema"], commit["partitionBy"], {}, {})

    def _read_checkpoint(self, version: int) -> _State:
        content = json.loads(self._store.read(_path(version, ".checkpoint")))
        files = {each[0]: _file(each) for each in content["files"]}
        return _State(**{**content, "files": files})

    # Cleaning up

    def vacuum(self, before_ms: int, keep_from: int | None = None) -> list[str]:
        commits, checkpoints = self._names()
        if not commits:
            return []
        first = self._first_kept(sorted(commits), before_ms)
        if keep_from is not None:
            first = max(min(first, keep_from), min(commits))
        if first not in checkpoints:
            self._checkpoint(first)
        needed = set(self._load(first, commits, checkpoints | {first}).files)
        for version in range(first + 1, max(commits) + 1):
            needed.update(each[0] for each in self._read(version)["added"])
        removed = unneeded(self._store, needed, before_ms)
        self._store.delete(removed)
        gone_ms = min(before_ms, self._clock.wall_ms() - KEPT_MS)
        self._store.delete(
            file.path
            for file in self._store.list(LOG)
            if (found := _NAME.fullmatch(file.path))
            and int(found[1]) < first
            and file.modified_ms < gone_ms
        )
        return removed

    def _first_kept(self, commits: list[int], before_ms: int) -> int:
        """A version is as old as the commit after it: until then it was the newest."""
        for version in reversed(commits):  # those that are kept are few
            if self._read(version)["timestamp"] < before_ms:
                return version
        return commits[0]

    def drop(self) -> None:
        self._known, self._seen = None, -1
        self._store.delete_all()


def unneeded(store: Store, needed: Iterable[str], before_ms: int) -> list[str]:
    """Data files that are in no version and older than that: younger ones may be yet to come."""
    known = set(needed)
    return [
        file.path
        for file in store.list(FOLDER)
        if file.path not in known and file.modified_ms < before_ms
    ]


def _path(version: int, kind: str = "") -> str:
    return f"{LOG}/{version:020d}{kind}.json"


def _file(values: list[Any]) -> DataFile:
    return DataFile(values[0], values[1], values[2], tuple(values[3]))
