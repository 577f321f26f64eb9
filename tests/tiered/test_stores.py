"""What is asked of a remote store, asked of each: a directory, memory, and a real S3 server."""

import fcntl
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage import logs
from tests.tiered.remote import PARTITION, ManualClock, fill, tier
from tests.tiered.s3_server import BUCKET, S3Server, s3_server

from ottla.common.errors import InvalidConfig
from ottla.config.broker import BrokerConfig
from ottla.storage.files import OsFilesystem
from ottla.testing.remote_store import MemoryStore
from ottla.tiered.chunks import Windows
from ottla.tiered.copier import list_segments, remove
from ottla.tiered.driver import object_store
from ottla.tiered.driver.directory import TEMPORARY, DirectoryStore
from ottla.tiered.driver.stores import open_store, store_url
from ottla.tiered.index_cache import IndexCache
from ottla.tiered.manifests import Manifests
from ottla.tiered.reader import RemoteReader
from ottla.tiered.store import (
    RemoteObjectNotFound,
    RemoteStore,
    RemoteStoreError,
    StoredObject,
)

LARGE = object_store.PART_SIZE * 2 + 12345


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as running:
        yield running


@pytest.fixture(params=["directory", "memory", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RemoteStore:
    match request.param:
        case "directory":
            return open_store(f"file://{tmp_path}/store", {})
        case "memory":
            return MemoryStore(OsFilesystem())
        case _:
            server: S3Server = request.getfixturevalue("server")
            prefix = tmp_path.name
            return open_store(f"s3://{BUCKET}/{prefix}/inner", server.settings)


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(LARGE))
    return path


def test_what_was_put_is_got(store: RemoteStore) -> None:
    store.put("a/b/c.log", b"0123456789")
    assert store.get("a/b/c.log") == b"0123456789"
    store.put("a/b/c.log", b"other")
    assert store.get("a/b/c.log") == b"other"
    store.put("empty", b"")
    assert store.get("empty") == b""
    store.close()


def test_a_range_ends_with_the_object(store: RemoteStore) -> None:
    store.put("key", b"0123456789")
    assert store.get_range("key", 0, 4) == b"0123"
    assert store.get_range("key", 3, 3) == b"345"
    assert store.get_range("key", 8, 100) == b"89"


def test_what_is_not_there_is_not_found(store: RemoteStore) -> None:
    with pytest.raises(RemoteObjectNotFound):
        store.get("a/none")
    with pytest.raises(RemoteObjectNotFound):
        store.get_range("a/none", 0, 1)
    store.delete("a/none")
    assert list(store.list("a/")) == []


def test_a_deleted_object_is_gone_and_its_neighbour_is_not(store: RemoteStore) -> None:
    store.put("a/1", b"1")
    store.put("a/2", b"2")
    store.delete("a/1")
    store.delete("a/1")
    assert list(store.list("")) == [StoredObject("a/2", 1)]
    with pytest.raises(RemoteObjectNotFound):
        store.get("a/1")


def test_all_objects_that_begin_alike_are_listed_in_order(store: RemoteStore) -> None:
    keys = ["t-1/0/a.json", "t-1/0/a.log", "t-1/0/b.log", "t-1/1/a.log", "t-1/10/a.log", "t/0/x"]
    for key in reversed(keys):
        store.put(key, key.encode())
    every = [StoredObject(key, len(key)) for key in sorted(keys)]
    assert list(store.list("")) == every
    for prefix in ("t", "t-1/", "t-1/1/", "t-1/1", "t-1/0/a", "t-1/0/a.log", "t-1/0/b", "u", "t/1"):
        assert list(store.list(prefix)) == [one for one in every if one.key.startswith(prefix)]


def test_more_objects_than_a_page_has_are_all_listed(
    store: RemoteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_store, "LIST_PAGE", 7)
    for number in range(20):
        store.put(f"many/{number:03}", b"")
    assert [one.key for one in store.list("many/")] == [f"many/{n:03}" for n in range(20)]


def test_a_large_file_goes_in_pieces_that_are_told_of(store: RemoteStore, large: Path) -> None:
    told: list[int] = []
    store.put_file("large", str(large), LARGE, told.append)
    assert sum(told) == LARGE
    assert len(told) > 1
    assert list(store.list("large")) == [StoredObject("large", LARGE)]
    whole = large.read_bytes()
    assert store.get("large") == whole
    assert store.get_range("large", LARGE - 10, 20) == whole[-10:]
    store.put_file("part", str(large), 1000)
    assert store.get("part") == whole[:1000]
    store.put_file("none", str(large), 0)
    assert store.get("none") == b""


class Cancelled(Exception):
    pass


def test_a_copy_that_is_cancelled_leaves_the_object_as_it_was(
    store: RemoteStore, large: Path
) -> None:
    told: list[int] = []

    def cancel(size: int) -> None:
        told.append(size)
        if len(told) == 2:
            raise Cancelled

    with pytest.raises(Cancelled):
        store.put_file("key", str(large), LARGE, cancel)
    assert list(store.list("")) == []
    store.put("key", b"before")
    told.clear()
    with pytest.raises(Cancelled):
        store.put_file("key", str(large), LARGE, cancel)
    assert store.get("key") == b"before"


def test_a_file_that_is_too_short_or_missing_is_not_put(store: RemoteStore, large: Path) -> None:
    with pytest.raises(RemoteStoreError):
        store.put_file("key", str(large), LARGE + 1)
    with pytest.raises(RemoteStoreError):
        store.put_file("key", str(large.parent / "missing"), 10)
    assert list(store.list("")) == []


def test_segments_are_copied_read_and_removed(store: RemoteStore, tmp_path: Path) -> None:
    files = OsFilesystem()
    settings = logs.settings(internal_segment_bytes=30_000)
    log = logs.open_log(files, settings, directory=str(tmp_path / "topic-0"))
    fill(log, batches=200)
    log.roll(logs.NOW)
    segments = tier(log, files, store)
    assert len(segments) > 2
    manifests = Manifests(store)
    indexes = IndexCache(
        files, str(tmp_path), store, manifests, clock=ManualClock(), size_max=1 << 20, ttl_ms=-1
    )
    indexes.start()
    reader = RemoteReader(manifests, indexes, Windows(store))
    found = b""
    for segment in segments:
        offset = segment.start_offset
        while offset <= segment.end_offset:
            read = reader.read(segment, offset, 10_000, upper_bound_offset=1 << 40)
            offset, found = read.next_offset, found + read.records
    assert found == b"".join(files.read(segment.path) for segment in log.segments)
    for stored in list(list_segments(store, PARTITION)):
        remove(store, stored)
    assert list(store.list("")) == []


# The directory


def test_no_key_leads_out_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"mine")
    store = DirectoryStore(str(tmp_path / "store"))
    keys = ("../outside", "/etc/passwd", "a/../../outside", "", "a//b", ".", "a\0b", ".tmp/x")
    for key in keys:
        calls: list[Callable[[str], object]] = [
            store.get,
            store.delete,
            lambda key: store.put(key, b"x"),
            lambda key: store.get_range(key, 0, 1),
            lambda key: store.put_file(key, str(tmp_path / "outside"), 4),
        ]
        for call in calls:
            with pytest.raises(RemoteStoreError):
                call(key)
    with pytest.raises(RemoteStoreError):
        list(store.list("../"))
    assert (tmp_path / "outside").read_bytes() == b"mine"


def test_what_a_broken_off_put_left_is_swept_but_not_what_is_being_written(tmp_path: Path) -> None:
    DirectoryStore(str(tmp_path))
    left, busy = tmp_path / TEMPORARY / "left", tmp_path / TEMPORARY / "busy"
    left.write_bytes(b"half")
    with busy.open("wb") as writing:
        fcntl.flock(writing, fcntl.LOCK_EX)
        store = DirectoryStore(str(tmp_path))
        assert not left.exists()
        assert busy.exists()
        assert list(store.list("")) == []


def test_directories_go_with_their_last_object_even_under_a_writer(tmp_path: Path) -> None:
    store = DirectoryStore(str(tmp_path))

    def churn(name: str) -> None:
        for _ in range(100):
            store.put(f"a/b/{name}", b"x")
            store.delete(f"a/b/{name}")

    threads = [threading.Thread(target=churn, args=(name,)) for name in "12"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == [TEMPORARY]


def test_a_directory_that_cannot_be_made_is_trouble_with_the_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RemoteStoreError):
        DirectoryStore(str(tmp_path / "file" / "store"))


# Addresses


@pytest.mark.parametrize("url", ["hdfs://x/y", "nothing", "", "http://x", "s4://bucket"])
def test_an_unknown_scheme_is_told_which_are_known(url: str) -> None:
    with pytest.raises(InvalidConfig, match="known are file://, s3://, gs://, az://"):
        open_store(url, {})


@pytest.mark.parametrize("url", ["file://host/dir", "file:relative", "s3:///prefix"])
def test_an_address_that_names_nothing_is_refused(url: str) -> None:
    with pytest.raises(InvalidConfig, match="names no"):
        open_store(url, {})


def test_buckets_of_other_clouds_are_opened_without_being_asked() -> None:
    secret = {"ottla.remote.store.access.key.id": "account"}
    secret["ottla.remote.store.secret.access.key"] = "a2V5"
    open_store("az://container/prefix", secret).close()
    open_store("gs://bucket", {"ottla.remote.store.endpoint": "http://127.0.0.1:1"}).close()


def test_what_is_not_set_comes_from_the_environment(
    server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = server.settings
    names = {
        "AWS_ACCESS_KEY_ID": "ottla.remote.store.access.key.id",
        "AWS_SECRET_ACCESS_KEY": "ottla.remote.store.secret.access.key",
        "AWS_REGION": "ottla.remote.store.region",
        "AWS_ENDPOINT_URL": "ottla.remote.store.endpoint",
    }
    for name, setting in names.items():
        monkeypatch.setenv(name, settings.pop(setting))
    store = open_store(f"s3://{BUCKET}/by-environment", settings)
    store.put("key", b"value")
    assert store.get("key") == b"value"


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(InvalidConfig, match=r"pip install ottla\[tiered\]"):
        open_store("s3://bucket", {})


def test_a_server_that_is_not_there_is_trouble_with_the_store(server: S3Server) -> None:
    settings = {**server.settings, "ottla.remote.store.endpoint": "http://127.0.0.1:1"}
    with pytest.raises(RemoteStoreError):
        open_store(f"s3://{BUCKET}", settings).get("key")


def test_a_bucket_that_is_not_there_is_trouble_with_the_store(server: S3Server) -> None:
    with pytest.raises(RemoteStoreError):
        open_store("s3://nowhere", server.settings).put("key", b"")


NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.quorum.bootstrap.servers": "localhost:9093",
}


def node(**settings: str) -> BrokerConfig:
    names = {name.replace("_", "."): value for name, value in settings.items()}
    return BrokerConfig({**NODE, **names})


def test_the_default_is_a_directory_beside_the_first_log_directory() -> None:
    assert store_url(node(log_dirs="/data/a b/logs,/other")) == "file:///data/a%20b/ottla-remote"
    assert store_url(node(ottla_remote_store_url="s3://x/y")) == "s3://x/y"


def test_a_store_within_a_log_directory_is_refused() -> None:
    for settings in (
        {"log_dirs": "/data/logs,/data"},
        {"log_dirs": "/data", "ottla_remote_store_url": "file:///data/remote"},
        {"log_dirs": "/data", "ottla_remote_store_url": "file:///data"},
    ):
        with pytest.raises(InvalidConfig, match="within a log directory"):
            store_url(node(**settings))
    assert store_url(node(log_dirs="/data", ottla_remote_store_url="file:///data2"))


def test_a_secret_is_never_shown() -> None:
    config = node(ottla_remote_store_secret_access_key="hush")
    assert "hush" not in repr(config.values)
