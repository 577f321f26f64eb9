"""Whatever becomes of its indexes, a log is read and searched as if they were right.

The truth is what stands in the files of batches, read without any index. Indexes are damaged, cut
and removed, bodies of batches too; the log is appended to, rolled, truncated, cleaned and opened
again, while searches by time and new indexes are under way. A search may be put off while there is
work for the background, never afterwards.
"""

import contextlib
from typing import NamedTuple

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.storage import cleaning, logs
from tests.storage.test_driver import Storage
from tests.turns import TURN

from ottla.common.errors import ApiError, CorruptMessage, OffsetNotAvailable
from ottla.common.promise import Promise, run
from ottla.config.topic import TopicConfig
from ottla.records.batch import batches, is_intact, read_header
from ottla.records.builder import build_batch
from ottla.records.record import Record, iterate
from ottla.storage import offset_index, segment, time_index
from ottla.storage.log import Log
from ottla.storage.time_search import TimestampAndOffset, find_by_time
from ottla.testing.files import MemoryFilesystem

FAR = 400
"""Bytes that are searched before an index is doubted: small segments are large by that."""
ENTRY_SIZES = {".index": offset_index.ENTRY.size, ".timeindex": time_index.ENTRY.size}
GARBAGE = b"\x5a\xa5\x5a\xa5"


class Fact(NamedTuple):
    offset: int
    timestamp: int


class Truth:
    """The records of all segments, and where there is damage."""

    def __init__(self, files: MemoryFilesystem, start: int) -> None:
        self.facts: list[Fact] = []
        self.damaged: list[int] = []
        """First offsets of batches whose bodies are not as they were written."""
        for name in files.list_directory(logs.DIRECTORY):
            if name.endswith(".log"):
                data = files.read(f"{logs.DIRECTORY}/{name}")
                for at, size in batches(data):
                    if not is_intact(data, at, size):
                        self.damaged.append(read_header(data, at).base_offset)
                        continue
                    self.facts += [
                        Fact(each.offset, each.timestamp)
                        for each in iterate(data, at)
                        if each.offset >= start
                    ]


class Search:
    """One that is under way, and what was true all the time, or at some time, since it began."""

    def __init__(self, machine: "IndexMachine", timestamp: int) -> None:
        self.timestamp = timestamp
        self.always = {fact for fact in machine.truth().facts if fact.timestamp >= timestamp}
        self.ever = set(self.always)
        self.damaged = set(machine.truth().damaged)
        self.found: Promise[TimestampAndOffset | None] = run(
            TURN, find_by_time(machine.log, timestamp, machine.disk.clock)
        )

    def look(self, truth: Truth) -> None:
        now = {fact for fact in truth.facts if fact.timestamp >= self.timestamp}
        self.always &= now
        self.ever |= now
        self.damaged |= set(truth.damaged)

    def check(self) -> None:
        first = min(self.always, default=None)
        try:
            found = self.found.result()
        except OffsetNotAvailable:
            return
        except CorruptMessage:
            assert self.damaged
            assert first is None or min(self.damaged) <= first.offset
            return
        if found is None:
            assert first is None
        else:
            assert Fact(found.offset, found.timestamp) in self.ever
            assert first is None or found.offset <= first.offset


class IndexMachine(RuleBasedStateMachine):
    log: Log
    disk: Storage

    @initialize(
        interval=st.sampled_from([0, 100, 300]),
        size=st.sampled_from([900, 2000]),
        grows=st.booleans(),
    )
    def begin(self, interval: int, size: int, grows: bool) -> None:
        self.grows = grows
        self.now = logs.NOW
        self.epoch = 0
        self.config: TopicConfig = cleaning.compacted(
            index_interval_bytes=interval, internal_segment_bytes=size, min_cleanable_dirty_ratio=0
        )
        self.searches: list[Search] = []
        self.files = logs.filesystem()
        self.start()

    def start(self) -> None:
        self.disk = Storage(self.config, self.files)
        self.log = self.disk.manager.get_or_create(logs.TOPIC, logs.TOPIC_ID)
        self.log.set_high_watermark(self.log.log_end_offset)
        self.disk.clock.advance(0)

    def truth(self) -> Truth:
        return Truth(self.files, self.log.log_start_offset)

    # What becomes of the log

    @rule(
        keys=st.lists(st.integers(0, 30), min_size=1, max_size=4),
        size=st.integers(0, 120),
        ages=st.lists(st.integers(-20, 20), min_size=4, max_size=4),
    )
    def append(self, keys: list[int], size: int, ages: list[int]) -> None:
        self.now += 10
        times = [self.now if self.grows else self.now + age for age in ages]
        records = [
            Record(key=b"%d" % key, value=bytes(size), timestamp=time)
            for key, time in zip(keys, times, strict=False)
        ]
        data = bytearray(build_batch(records))
        self.log.append_as_leader(data, 0, len(data), leader_epoch=self.epoch, now_ms=self.now)
        self.log.set_high_watermark(self.log.log_end_offset)

    @rule(count=st.integers(3, 12), size=st.sampled_from([30, 200]))
    def append_many(self, count: int, size: int) -> None:
        for number in range(count):
            self.append([number], size, [0] * 4)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now)

    @rule(back=st.integers(1, 12), again=st.booleans())
    def truncate(self, back: int, again: bool) -> None:
        """``again``: as many bytes of other records take their place."""
        offset = max(self.log.log_end_offset - back, self.log.log_start_offset)
        sizes = [each.size for each in self.log.segments]
        self.log.truncate_to(offset, self.now)
        self.epoch += 1
        assert self.log.log_end_offset <= offset
        if again and not self.truth().damaged:
            active = self.log.segments.active
            missing = sizes[len(self.log.segments) - 1] - active.size
            empty = len(build_batch([Record(key=b"k", value=b"", timestamp=self.now)]))
            if missing > empty + 2:
                self.append([0], missing - empty - 2, [0] * 4)

    @rule(back=st.integers(0, 30))
    def delete_records(self, back: int) -> None:
        self.log.delete_records_before(max(self.log.high_watermark - back, 0))

    @rule()
    def clean(self) -> None:
        with contextlib.suppress(CorruptMessage):
            cleaning.clean(self.files, self.log, None, self.now)

    # What becomes of its files

    @rule(
        data=st.data(),
        suffix=st.sampled_from([".index", ".timeindex"]),
        way=st.sampled_from(["removed", "cut", "torn", "garbage"]),
    )
    def damage_index(self, data: st.DataObject, suffix: str, way: str) -> None:
        closed = [each for each in self.log.segments if not each.active and each.size]
        if not closed:
            return
        found = data.draw(st.sampled_from(closed))
        self._damage(data, found.path.removesuffix(".log") + suffix, suffix, way)

    def _damage(self, data: st.DataObject, path: str, suffix: str, way: str) -> None:
        size = ENTRY_SIZES[suffix]
        if not self.files.exists(path):
            return
        before = self.files.read(path)
        entry = data.draw(st.integers(0, len(before) // size)) * size
        if way == "removed":
            self.files.remove(path)
        elif way == "torn":
            self.files.write(path, before[: entry + 1])
        elif way == "garbage" and entry < len(before):
            self.files.write(path, before[:entry] + GARBAGE + before[entry + len(GARBAGE) :])
        elif way == "cut" and (self.grows or suffix == ".index" or entry == 0):
            # Nothing tells that a time index lacks what was largest long ago.
            self.files.write(path, before[:entry])

    @rule(
        data=st.data(),
        ways=st.lists(
            st.tuples(
                st.sampled_from([".index", ".timeindex"]),
                st.sampled_from(["removed", "cut", "torn", "garbage"]),
            ),
            max_size=3,
        ),
        bodies=st.integers(0, 2),
    )
    def open_again(self, data: st.DataObject, ways: list[tuple[str, str]], bodies: int) -> None:
        self.finish()
        self.disk.manager.stop()
        names = [
            f"{logs.DIRECTORY}/{name.removesuffix('.log')}"
            for name in self.files.list_directory(logs.DIRECTORY)
            if name.endswith(".log") and self.files.size(f"{logs.DIRECTORY}/{name}")
        ]
        if names:
            for suffix, way in ways:
                self._damage(data, data.draw(st.sampled_from(names)) + suffix, suffix, way)
            for _ in range(bodies):
                self._damage_body(data, f"{data.draw(st.sampled_from(names[:-1] or names))}.log")
        self.start()

    def _damage_body(self, data: st.DataObject, path: str) -> None:
        """One batch, perhaps beside another that is damaged."""
        content = bytearray(self.files.read(path))
        sound = [each for each in batches(bytes(content)) if is_intact(content, *each)]
        if sound:
            at, size = data.draw(st.sampled_from(sound))
            content[at + size - 1] ^= 1
            self.files.write(path, bytes(content))

    # Who reads it

    @rule(age=st.integers(-300, 30))
    def search(self, age: int) -> None:
        self.searches.append(Search(self, self.now + age))

    @rule()
    def run_background(self) -> None:
        self.disk.clock.run_due()
        self.disk.clock.run_background()

    @rule()
    def finish(self) -> None:
        self.disk.clock.advance(0)
        assert all(each.found.done for each in self.searches)

    @invariant()
    def searches_tell_what_is_true(self) -> None:
        if not hasattr(self, "files"):
            return
        truth = self.truth()
        for search in list(self.searches):
            search.look(truth)
            if search.found.done:
                search.check()
                self.searches.remove(search)

    @rule(age=st.integers(-300, 30))
    def nothing_is_put_off_for_ever(self, age: int) -> None:
        for _ in range(2 * len(self.log.segments) + 3):
            self.disk.clock.advance(0)
            search = Search(self, self.now + age)
            self.disk.clock.advance(0)
            search.look(self.truth())
            search.check()
            if not self._is_put_off(search):
                return
        pytest.fail("a search is put off for ever")

    def _is_put_off(self, search: Search) -> bool:
        try:
            search.found.result()
        except OffsetNotAvailable:
            return True
        except ApiError:
            return False
        return False

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        offset = data.draw(st.integers(start, end))
        truth = self.truth()
        wanted = next((fact.offset for fact in truth.facts if fact.offset >= offset), None)
        for _ in range(2 * len(self.log.segments) + 3):
            try:
                found = logs.records_of(logs.read_bytes(self.log, offset))
            except OffsetNotAvailable:
                self.disk.clock.advance(0)
                continue
            except CorruptMessage:
                assert any(wanted is None or first <= wanted for first in truth.damaged)
                return
            got = next((each.offset for each in found if each.offset >= offset), None)
            # Cleaning may have taken the last records of a batch behind which stands damage.
            assert got == wanted or (got is None and found and truth.damaged)
            return
        pytest.fail("a read is put off for ever")

    def teardown(self) -> None:
        if hasattr(self, "disk"):
            self.finish()
            self.searches_tell_what_is_true()


@pytest.fixture(autouse=True)
def _far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "SEARCH_MAX", FAR)


TestIndexes = IndexMachine.TestCase
TestIndexes.settings = hypothesis_settings(max_examples=60, stateful_step_count=40, deadline=None)
