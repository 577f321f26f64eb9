"""Indexes are fetched once, kept within bounds, and never believed when they are damaged."""

import errno
import threading

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.storage import logs
from tests.tiered.remote import Tier, fill, tiered

from ottla.common.errors import CorruptMessage
from ottla.common.identifiers import uuid_text
from ottla.storage.directories import LogDirFailed, parse_directory_name
from ottla.tiered.index_cache import DIRECTORY, NO_TTL, IndexCache
from ottla.tiered.layout import object_key
from ottla.tiered.manifests import Manifests
from ottla.tiered.segments import RemoteLogSegment

KINDS = (".index", ".timeindex")


def cache_of(tier: Tier, *, size_max: int = 1 << 30, ttl_ms: int = NO_TTL) -> IndexCache:
    """As after a start."""
    cache = IndexCache(
        tier.filesystem,
        logs.ROOT,
        tier.store,
        Manifests(tier.store),
        clock=tier.clock,
        size_max=size_max,
        ttl_ms=ttl_ms,
    )
    cache.start()
    return cache


def several() -> Tier:
    return tiered(fill, internal_segment_bytes=4_000, index_interval_bytes=100)


@pytest.fixture
def tier() -> Tier:
    return several()


def remote(tier: Tier, segment: RemoteLogSegment, suffix: str) -> bytes:
    return tier.store.objects[object_key(segment, suffix)]


def names(tier: Tier) -> list[str]:
    return tier.filesystem.list_directory(f"{logs.ROOT}/{DIRECTORY}")


def fetched(tier: Tier) -> list[str]:
    """The indexes that are fetched from now on."""
    seen: list[str] = []

    def watch(operation: str, key: str) -> None:
        if operation == "get_range" and not key.endswith(".json"):
            seen.append(key)

    tier.store.fail = watch
    return seen


def test_indexes_lie_under_the_names_that_kafka_gives_them(tier: Tier) -> None:
    cache, segment = cache_of(tier), tier.segments[1]
    for suffix in KINDS:
        assert cache.read(segment, suffix) == remote(tier, segment, suffix)
    name = f"{segment.start_offset}_{uuid_text(segment.segment_id)}"
    assert names(tier) == [name + ".index", name + ".timeindex"]
    assert parse_directory_name(DIRECTORY) is None, "no partition's directory"


def test_an_index_is_fetched_once_and_outlives_a_restart(tier: Tier) -> None:
    seen = fetched(tier)
    for _ in range(2):
        cache = cache_of(tier)
        for _ in range(3):
            cache.read(tier.segments[0], ".index")
            cache.lookup(tier.segments[0], 3)
    assert len(seen) == 1


def test_what_a_crash_made_of_an_index_is_fetched_again(tier: Tier) -> None:
    cache_of(tier).read(tier.segments[0], ".timeindex")
    (name,) = names(tier)
    path = f"{logs.ROOT}/{DIRECTORY}/{name}"
    whole = tier.filesystem.read(path)
    damaged = bytearray(whole)
    damaged[5] ^= 1
    for left in (bytes(damaged), whole[:-12], whole[:-1], b"", bytes(len(whole))):
        tier.filesystem.write(path, left)
        tier.filesystem.write(f"{path}.7.tmp", b"left")
        tier.filesystem.write(f"{path}.deleted", b"left")
        cache = cache_of(tier)
        assert cache.read(tier.segments[0], ".timeindex") == whole
        assert names(tier) == [name]


def test_an_index_that_changes_on_the_disk_is_noticed_at_the_next_use(tier: Tier) -> None:
    cache = cache_of(tier)
    whole = cache.read(tier.segments[0], ".timeindex")
    (name,) = names(tier)
    path = f"{logs.ROOT}/{DIRECTORY}/{name}"
    tier.filesystem.write(path, bytes(len(whole)))
    assert cache.read(tier.segments[0], ".timeindex") == whole
    tier.filesystem.remove(path)
    assert cache.read(tier.segments[0], ".timeindex") == whole


def test_an_offset_index_that_somebody_removed_is_fetched_again(tier: Tier) -> None:
    cache, segment = cache_of(tier), tier.segments[0]
    expected = cache.lookup(segment, segment.end_offset)
    assert expected is not None
    (name,) = names(tier)
    tier.filesystem.remove(f"{logs.ROOT}/{DIRECTORY}/{name}")
    assert cache.lookup(segment, segment.end_offset) == expected


def test_an_index_that_is_damaged_in_the_store_is_refused(tier: Tier) -> None:
    segment = tier.segments[0]
    tier.store.put(object_key(segment, ".index"), bytes(len(remote(tier, segment, ".index"))))
    cache = cache_of(tier)
    with pytest.raises(CorruptMessage, match="is damaged"):
        cache.read(segment, ".index")
    with pytest.raises(CorruptMessage, match="does not know"):
        cache.read(segment, ".txnindex")
    assert cache.size == 0
    assert names(tier) == []


def test_what_was_used_last_stays_when_there_is_too_much(tier: Tier) -> None:
    sizes = [len(remote(tier, segment, ".index")) for segment in tier.segments]
    first, second, third = tier.segments[:3]
    cache = cache_of(tier, size_max=sum(sizes[:3]) - 1)
    cache.read(first, ".index")
    cache.read(second, ".index")
    cache.read(first, ".index")
    cache.read(third, ".index")
    assert cache.size == sizes[0] + sizes[2]
    seen = fetched(tier)
    cache.read(first, ".index")
    cache.read(third, ".index")
    assert seen == []
    cache.size_max = 0
    cache.expire()
    assert cache.size == 0
    assert names(tier) == []


def test_what_is_not_used_for_long_goes(tier: Tier) -> None:
    cache = cache_of(tier, ttl_ms=1000)
    cache.read(tier.segments[0], ".index")
    tier.clock.now += 0.9
    cache.read(tier.segments[1], ".index")
    tier.clock.now += 0.9
    cache.expire()
    assert len(names(tier)) == 1
    tier.clock.now += 0.9
    cache.expire()
    assert names(tier) == []


def test_a_removed_segment_leaves_no_index(tier: Tier) -> None:
    cache = cache_of(tier)
    for suffix in KINDS:
        cache.read(tier.segments[0], suffix)
        cache.read(tier.segments[1], suffix)
    cache.remove(tier.segments[0])
    assert len(names(tier)) == 2
    assert all(name.startswith(f"{tier.segments[1].start_offset}_") for name in names(tier))


def test_an_index_that_is_being_used_stays_whatever_the_bound(tier: Tier) -> None:
    cache = cache_of(tier, size_max=0)
    used: list[str] = []

    def use(operation: str, path: str) -> None:
        if operation == "read" and path.endswith(".index"):
            used.append(path)
            cache.expire()
            assert tier.filesystem.exists(path)

    tier.filesystem.fail = use
    segment = tier.segments[0]
    assert cache.read(segment, ".index") == remote(tier, segment, ".index")
    assert len(used) == 1
    assert names(tier) == []


def test_several_who_need_the_same_index_fetch_it_once(tier: Tier) -> None:
    cache = cache_of(tier)
    seen: list[str] = []
    everybody = threading.Barrier(8)
    answers: list[bytes] = []

    def slowly(operation: str, key: str) -> None:
        if operation == "get_range" and not key.endswith(".json"):
            seen.append(key)
            # Time for the others to come: they must find that it is on its way.
            threading.Event().wait(0.05)

    tier.store.fail = slowly

    def ask() -> None:
        everybody.wait()
        answers.append(cache.read(tier.segments[0], ".index"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [remote(tier, tier.segments[0], ".index")] * 8
    assert len(seen) == 1


def test_a_disk_that_fails_fails_its_log_directory(tier: Tier) -> None:
    cache = cache_of(tier)

    def fail(operation: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "broken", path) if DIRECTORY in path else None

    tier.filesystem.fail = fail
    with pytest.raises(LogDirFailed) as failed:
        cache.read(tier.segments[0], ".index")
    assert failed.value.directory == logs.ROOT


class CacheMachine(RuleBasedStateMachine):
    """Reads, removals, restarts, damage in any order: bounds hold and the bytes are right."""

    tier: Tier
    cache: IndexCache

    @initialize()
    def begin(self) -> None:
        self.tier = several()
        self.restart()

    @rule()
    def restart(self) -> None:
        self.cache = cache_of(self.tier, size_max=400, ttl_ms=5000)

    @rule(number=st.integers(0, 3), suffix=st.sampled_from(KINDS))
    def read(self, number: int, suffix: str) -> None:
        segment = self.tier.segments[number]
        assert self.cache.read(segment, suffix) == remote(self.tier, segment, suffix)

    @rule(number=st.integers(0, 3), ahead=st.integers(0, 20))
    def lookup(self, number: int, ahead: int) -> None:
        segment = self.tier.segments[number]
        local = self.tier.log.segments[number]
        offset = segment.start_offset + ahead
        assert self.cache.lookup(segment, offset) == local.offset_index.lookup(offset)

    @rule(number=st.integers(0, 3))
    def remove(self, number: int) -> None:
        self.cache.remove(self.tier.segments[number])

    @rule(seconds=st.integers(0, 4))
    def wait(self, seconds: int) -> None:
        self.tier.clock.now += seconds
        self.cache.expire()

    @rule(data=st.data(), junk=st.binary(max_size=30))
    def damage_and_restart(self, data: st.DataObject, junk: bytes) -> None:
        if names(self.tier):
            name = data.draw(st.sampled_from(names(self.tier)))
            self.tier.filesystem.write(f"{logs.ROOT}/{DIRECTORY}/{name}", junk)
            self.restart()

    @invariant()
    def it_knows_what_is_on_the_disk_and_that_is_not_too_much(self) -> None:
        folder = f"{logs.ROOT}/{DIRECTORY}"
        sizes = [self.tier.filesystem.size(f"{folder}/{name}") for name in names(self.tier)]
        assert self.cache.size == sum(sizes)
        assert self.cache.size <= 400


CacheMachine.TestCase.settings = hypothesis_settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
TestCacheMachine = CacheMachine.TestCase
