"""The file system of the machine and the one in memory keep the same promises.

What only the one in memory can show, that it forgets what was not synced, is held here too: the
crash tests are worth as much as that.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.common.chance import Chance
from ottla.storage.files import DirectoryInUse, FileRegion, Filesystem, OsFilesystem
from ottla.testing.files import MemoryFilesystem, PowerLost


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Filesystem, str]:
    """A file system and an empty directory in it."""
    if request.param == "os":
        return OsFilesystem(), str(tmp_path)
    memory = MemoryFilesystem()
    memory.make_directory("/root")
    return memory, "/root"


Place = tuple[Filesystem, str]


def test_bytes_are_read_where_they_were_written(place: Place) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.write_at(0, b"hello")
    file.write_at(5, memoryview(bytearray(b" world")))
    file.write_at(0, bytearray(b"J"))
    assert file.read_at(0, 100) == b"Jello world"
    assert file.read_at(6, 3) == b"wor"
    assert file.read_at(11, 3) == b""
    assert file.size() == 11
    file.truncate(5)
    file.sync()
    assert files.read(f"{root}/a") == b"Jello"
    assert files.size(f"{root}/a") == 5
    assert FileRegion(file, 1, 3).read() == b"ell"


def test_a_file_that_is_not_there_is_not_made_by_accident(place: Place) -> None:
    files, root = place
    with pytest.raises(FileNotFoundError):
        files.open(f"{root}/a")
    for attempt in (files.read, files.remove, files.size, files.modified_ms):
        with pytest.raises(FileNotFoundError):
            attempt(f"{root}/a")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{root}/a", f"{root}/b")


def test_names_are_listed_in_order(place: Place) -> None:
    files, root = place
    for name in ("b", "a", "c"):
        files.write(f"{root}/{name}", b"")
    files.make_directory(f"{root}/d/e")
    files.make_directory(f"{root}/d/e")
    assert files.list_directory(root) == ["a", "b", "c", "d"]
    assert files.is_directory(f"{root}/d/e")
    assert not files.is_directory(f"{root}/a")
    assert files.exists(f"{root}/a")


def test_a_rename_replaces(place: Place) -> None:
    files, root = place
    files.write(f"{root}/a", b"new")
    files.write(f"{root}/b", b"old")
    files.rename(f"{root}/a", f"{root}/b")
    assert files.list_directory(root) == ["b"]
    assert files.read(f"{root}/b") == b"new"


def test_a_directory_is_renamed_with_its_files_and_open_ones_go_on(place: Place) -> None:
    files, root = place
    files.make_directory(f"{root}/d")
    file = files.open(f"{root}/d/a", create=True)
    files.rename(f"{root}/d", f"{root}/e")
    file.write_at(0, b"x")
    assert files.read(f"{root}/e/a") == b"x"
    files.remove_directory(f"{root}/e")
    assert file.read_at(0, 1) == b"x"
    files.remove_directory(f"{root}/e")
    assert files.list_directory(root) == []


def test_a_whole_file_is_replaced_at_one_stroke(place: Place) -> None:
    files, root = place
    files.write_atomically(f"{root}/a", b"one")
    files.write_atomically(f"{root}/a", b"2")
    assert files.read(f"{root}/a") == b"2"
    assert files.list_directory(root) == ["a"]
    files.write(f"{root}/a", b"three")
    files.write(f"{root}/a", b"4")
    assert files.read(f"{root}/a") == b"4"


def test_a_closed_file_is_no_more(place: Place) -> None:
    files, root = place
    file = files.open(f"{root}/a", create=True)
    file.close()
    file.close()
    with pytest.raises(OSError, match=r"closed|descriptor"):
        file.read_at(0, 1)


def test_a_directory_is_locked_once(place: Place) -> None:
    files, root = place
    lock = files.lock(f"{root}/.lock")
    with pytest.raises(DirectoryInUse):
        files.lock(f"{root}/.lock")
    lock.release()
    lock.release()
    files.lock(f"{root}/.lock").release()


def test_the_rest(place: Place) -> None:
    files, root = place
    files.write(f"{root}/a", b"x")
    files.set_mode(f"{root}/a", 0o400)
    total, usable = files.space(root)
    assert 0 <= usable <= total
    assert files.modified_ms(f"{root}/a") >= 0
    files.sync_directory(root)
    files.sync_all(root)


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    lock = OsFilesystem().lock(str(tmp_path / ".lock"))
    program = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError: sys.exit(7)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path / ".lock")]
    assert subprocess.run(words, check=False).returncode == 7
    lock.release()
    assert subprocess.run(words, check=False).returncode == 0


def test_a_file_that_is_let_go_closes_itself_after_its_last_region(tmp_path: Path) -> None:
    file = OsFilesystem().open(str(tmp_path / "a"), create=True)
    file.write_at(0, b"hello")
    descriptor = file.fileno()
    region = FileRegion(file, 1, 3)
    del file
    assert Path(f"/proc/self/fd/{descriptor}").exists()
    assert region.read() == b"ell"
    del region
    assert not Path(f"/proc/self/fd/{descriptor}").exists()


# Crashes


@pytest.fixture
def memory() -> MemoryFilesystem:
    files = MemoryFilesystem()
    files.make_directory("/d")
    files.sync_directory("/")
    return files


def test_what_was_not_synced_is_lost(memory: MemoryFilesystem) -> None:
    file = memory.open("/d/a", create=True)
    memory.sync_directory("/d")
    file.write_at(0, b"one")
    file.sync()
    file.write_at(3, b"two")
    file.truncate(1)
    memory.crash()
    assert memory.read("/d/a") == b"one"
    with pytest.raises(OSError, match="closed"):
        file.write_at(0, b"x")


def test_a_name_is_lost_unless_its_directory_was_synced(memory: MemoryFilesystem) -> None:
    file = memory.open("/d/a", create=True)
    file.write_at(0, b"one")
    file.sync()
    memory.crash()
    assert not memory.exists("/d/a")


@pytest.mark.parametrize(
    "change",
    [
        lambda files: files.remove("/d/a"),
        lambda files: files.rename("/d/a", "/d/b"),
        lambda files: files.remove_directory("/d"),
    ],
)
def test_a_change_of_names_is_undone(
    memory: MemoryFilesystem, change: Callable[[MemoryFilesystem], None]
) -> None:
    memory.write_atomically("/d/a", b"one")
    change(memory)
    memory.crash()
    assert memory.read("/d/a") == b"one"


def test_an_atomic_write_is_old_or_new_at_every_moment(memory: MemoryFilesystem) -> None:
    memory.write_atomically("/d/a", b"old" * 1000)
    found = set()

    def look(_operation: str, _path: str) -> None:
        for seed in (None, *range(20)):
            crashed = memory.after_crash(None if seed is None else Chance(seed))
            found.add(crashed.read("/d/a"))

    memory.after = look
    memory.write_atomically("/d/a", b"new" * 1000)
    assert found == {b"old" * 1000, b"new" * 1000}
    assert memory.after_crash().read("/d/a") == b"new" * 1000


def test_a_plain_write_may_be_torn(memory: MemoryFilesystem) -> None:
    memory.write_atomically("/d/a", b"o" * 2000)
    file = memory.open("/d/a")
    file.write_at(0, b"n" * 2000)
    found = {memory.after_crash(Chance(seed)).read("/d/a") for seed in range(50)}
    assert {b"o" * 2000, b"n" * 2000} < found
    assert all(len(data) == 2000 for data in found)


def test_a_killed_process_loses_nothing_but_its_files_and_locks(memory: MemoryFilesystem) -> None:
    lock = memory.lock("/d/.lock")
    file = memory.open("/d/a", create=True)
    file.write_at(0, b"one")
    memory.kill()
    assert memory.read("/d/a") == b"one"
    other = memory.lock("/d/.lock")
    lock.release()
    with pytest.raises(DirectoryInUse):
        memory.lock("/d/.lock")
    other.release()
    with pytest.raises(OSError, match="closed"):
        file.sync()


def test_the_process_ends_after_so_many_changes(memory: MemoryFilesystem) -> None:
    file = memory.open("/d/a", create=True)
    memory.stop_after(2)
    file.write_at(0, b"1")
    file.write_at(1, b"2")
    with pytest.raises(PowerLost):
        file.write_at(2, b"3")
    with pytest.raises(PowerLost):
        memory.read("/d/a")
    memory.kill()
    assert memory.read("/d/a") == b"12"


def test_a_full_disk_takes_no_more(memory: MemoryFilesystem) -> None:
    memory.capacity = 10
    file = memory.open("/d/a", create=True)
    file.write_at(0, bytes(8))
    with pytest.raises(OSError, match="space") as failure:
        file.write_at(8, bytes(3))
    assert failure.value.errno == errno.ENOSPC
    assert memory.space("/d") == (10, 2)


def test_a_directory_goes_although_another_process_is_still_writing_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "d").mkdir()
    late = [tmp_path / "d" / "0.log.cleaned", tmp_path / "d" / "0.index.cleaned"]
    rmdir = os.rmdir

    def rmdir_after_it(path: str, **options: int) -> None:
        if late:
            late.pop().write_bytes(b"late")
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", rmdir_after_it)
    OsFilesystem().remove_directory(str(tmp_path / "d"))
    assert not late
    assert list(tmp_path.iterdir()) == []
