"""Any history of a compacted log, cleaned again and again, on a disk in memory.

Puts, tombstones, idempotent producers, transactions that commit, abort or stay open, all codecs,
rolls, time that passes, cleanings with maps that are too small, clean restarts and crashes. Beside
the log a model keeps all that was ever appended, and knows what compaction owes it.
"""

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.storage import cleaning, logs
from tests.storage.cleaning import Seen

from ottla.storage.producer_state import ProducerState

DELETE_RETENTION_MS = 1000
LAG_MS = 50
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"e"])
VALUES = st.one_of(st.none(), st.binary(max_size=40))
RECORDS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=6)
PRODUCERS = st.integers(1, 3)
CODECS = st.integers(0, 4)
CONFIG = cleaning.compacted(delete_retention_ms=DELETE_RETENTION_MS, min_compaction_lag_ms=LAG_MS)


def producers_of(state: ProducerState) -> dict[int, tuple[int, int, int, int]]:
    return {
        entry.producer_id: (
            entry.epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.transaction_first_offset,
        )
        for entry in state.producers.values()
    }


class Compaction(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = logs.filesystem()
        self.now_ms = logs.NOW
        self.log = logs.open_log(self.files, CONFIG)
        self.clean_offset: int | None = None
        self.history: list[Seen] = []
        """All records, uncommitted ones too."""
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[int]] = {}
        """Offsets of each producer's open transaction."""
        self.aborted: set[int] = set()
        self.undecided: set[int] = set()
        self.first_cleaned_ms: dict[int, int] = {}
        """When a tombstone was first in a segment that was cleaned."""

    def append(
        self, records: list[tuple[bytes, bytes | None]], producer: int | None, codec: int
    ) -> None:
        transactional = producer in self.open
        sequence = -1
        if producer is not None:
            sequence = self.sequences.get(producer, 0)
            self.sequences[producer] = sequence + len(records)
        first = cleaning.put(
            self.log,
            records,
            now_ms=self.now_ms,
            producer_id=-1 if producer is None else producer,
            producer_epoch=-1 if producer is None else 0,
            sequence=sequence,
            transactional=transactional,
            codec=codec,
        )
        offsets = range(first, first + len(records))
        if producer is not None and transactional:
            self.open[producer] += offsets
            self.undecided |= set(offsets)
        self.history += [
            Seen(offset, key, value, self.now_ms + number)
            for number, (offset, (key, value)) in enumerate(zip(offsets, records, strict=True))
        ]

    @rule(records=RECORDS, codec=CODECS)
    def put(self, records: list[tuple[bytes, bytes | None]], codec: int) -> None:
        self.append(records, None, codec)

    @rule(records=RECORDS, producer=PRODUCERS, codec=CODECS)
    def put_by_producer(
        self, records: list[tuple[bytes, bytes | None]], producer: int, codec: int
    ) -> None:
        self.append(records, producer, codec)

    @rule(records=RECORDS, producer=PRODUCERS, codec=CODECS)
    def put_in_transaction(
        self, records: list[tuple[bytes, bytes | None]], producer: int, codec: int
    ) -> None:
        self.open.setdefault(producer, [])
        self.append(records, producer, codec)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end_transaction(self, producer: int, commit: bool) -> None:
        offsets = self.open.pop(producer, None)
        if offsets is None:
            return
        cleaning.end_transaction(self.log, producer, 0, commit=commit, now_ms=self.now_ms)
        self.undecided -= set(offsets)
        if not commit:
            self.aborted |= set(offsets)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.now_ms)

    @rule(passed_ms=st.sampled_from([1, LAG_MS, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS]))
    def wait(self, passed_ms: int) -> None:
        self.now_ms += passed_ms
        self.files.now_ms = self.now_ms

    @rule(slots=st.sampled_from([3, 6, 1000]), buffer_size=st.sampled_from([64, 500, 100_000]))
    def clean(self, slots: int, buffer_size: int) -> None:
        log = self.log
        before = cleaning.read_uncommitted(log)
        table = cleaning.newest(cleaning.read_committed(log))
        producers = producers_of(log.producers)
        was_clean = self.clean_offset or 0
        self.clean_offset = cleaning.clean(
            self.files, log, self.clean_offset, self.now_ms, slots=slots, buffer_size=buffer_size
        )
        assert was_clean <= self.clean_offset <= log.segments.active.base_offset
        after = cleaning.read_uncommitted(log)
        assert [seen for seen in before if seen in after] == after, "kept, unchanged, in order"
        self.check_what_went(before, after)
        assert cleaning.newest(cleaning.read_committed(log)) == table
        assert producers_of(log.producers) == producers
        following = log.segments.higher(self.clean_offset - 1)
        assert following is not None
        for seen in after:
            if seen.value is None and seen.offset < following.base_offset:
                self.first_cleaned_ms.setdefault(seen.offset, self.now_ms)
        self.check_readers()

    def check_what_went(self, before: list[Seen], after: list[Seen]) -> None:
        kept = {seen.offset for seen in after}
        assert self.clean_offset is not None
        committed = [
            seen for seen in before if seen.offset not in self.aborted and seen.offset not in kept
        ]
        for seen in committed:
            assert seen.offset < self.clean_offset, "beyond the clean point all stays"
            newer = [
                other
                for other in self.history
                if other.key == seen.key
                and seen.offset < other.offset < self.clean_offset
                and other.offset not in self.aborted
            ]
            if newer:
                continue
            assert seen.value is None, "the newest value of a key stays"
            assert self.now_ms >= self.first_cleaned_ms[seen.offset] + DELETE_RETENTION_MS, (
                "a tombstone stays for as long as it was promised"
            )

    @rule()
    def restart(self) -> None:
        producers = producers_of(self.log.producers)
        self.log.close(self.now_ms)
        self.files.kill()
        self.log = logs.open_log(self.files, CONFIG, now_ms=self.now_ms)
        self.log.set_high_watermark(self.log.log_end_offset)
        assert producers_of(self.log.producers) == producers
        self.check_readers()

    @rule()
    def crash(self) -> None:
        """Everything was flushed, nothing was closed, and nobody knows up to where."""
        producers = producers_of(self.log.producers)
        self.log.flush(self.now_ms)
        self.files.crash()
        self.log = logs.open_log(self.files, CONFIG, now_ms=self.now_ms, clean=False)
        self.log.set_high_watermark(self.log.log_end_offset)
        recovered = producers_of(self.log.producers)
        # Of one whose every record and marker is gone nothing need be known.
        assert recovered.items() <= producers.items()
        self.check_readers()

    def check_readers(self) -> None:
        visible = cleaning.read_committed(self.log)
        offsets = [seen.offset for seen in visible]
        assert offsets == sorted(set(offsets))
        assert not self.aborted & set(offsets), "aborted records never reappear"
        bound = self.log.last_stable_offset
        expected = cleaning.newest(
            [
                seen
                for seen in self.history
                if seen.offset < bound and seen.offset not in self.aborted
            ]
        )
        assert cleaning.newest(visible) == expected
        assert set(visible) <= set(self.history)
        assert self.log.log_end_offset > max((seen.offset for seen in self.history), default=-1)

    def teardown(self) -> None:
        self.check_readers()


def test_compaction_keeps_what_it_owes() -> None:
    run_state_machine_as_test(
        Compaction,
        settings=settings(
            max_examples=60,
            stateful_step_count=30,
            deadline=None,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
