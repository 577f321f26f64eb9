"""``ottla log verify`` and ``dump`` over several segments, and over both tiers."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.partitions import HandMade

from ottla.cli.main import cli
from ottla.inspection.log_check import LogCheck
from ottla.inspection.log_place import place_of
from ottla.records.batch import batches, set_base_offset_and_epoch
from ottla.records.control import transaction_marker_batch
from ottla.storage.checkpoints import encode_epochs
from ottla.storage.leader_epochs import EpochEntry
from ottla.tiered.driver.directory import DirectoryStore


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["log", *words], prog_name="ottla")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def findings(*words: str) -> list[tuple[str, str]]:
    """File name and problem of each finding; the exit code says whether there are any."""
    code, text, complaint = run("verify", *words, "--json")
    assert text, complaint
    problems = json.loads(text)["problems"]
    assert code == (1 if problems else 0)
    return [(each["file"].rpartition("/")[2], each["problem"]) for each in problems]


@pytest.fixture
def tiered(log: HandMade, store: DirectoryStore, tmp_path: Path) -> tuple[str, ...]:
    """The first segment is remote only, the second is in both tiers: how to verify them."""
    log.upload(store, 0, 5)
    log.upload(store, 5, 9)
    log.forget(0)
    return ("t", "-d", str(log.log_dir), "--remote-store", f"file://{tmp_path}/remote")


def test_a_sound_log_has_no_findings(log: HandMade) -> None:
    assert findings("t", "-d", str(log.log_dir)) == []
    assert findings("t-0", "-d", str(log.log_dir), "--shallow") == []


def test_a_gap_between_segments_is_found(log: HandMade) -> None:
    log.forget(5)
    assert findings(str(log.directory)) == [
        (log.path(9).name, "offsets 5 to 8 are in no segment"),
    ]


def test_in_a_compacted_log_offsets_may_be_missing(log: HandMade) -> None:
    log.segment(2, base_offset=20)
    assert findings(str(log.directory)) != []
    log.cleaned_to(20)
    assert findings(str(log.directory)) == []


def test_offsets_that_are_missing_within_segments_show_that_a_log_was_compacted(
    log: HandMade,
) -> None:
    log.segment(2, base_offset=20)
    log.path(0).write_bytes(batches_of(log.path(0))[1])
    log.path(0, ".index").write_bytes(b"")
    log.path(0, ".timeindex").write_bytes(log.path(0, ".timeindex").read_bytes()[12:])
    assert findings(str(log.directory)) == []


def batches_of(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[start : start + size] for start, size in batches(data)]


@pytest.mark.parametrize("position", [8, 9, 10, 11, 16, 21, 40, 70])
def test_what_lies_behind_damage_is_looked_at_too(log: HandMade, position: int) -> None:
    """Three batches; the first is damaged in its length, its magic or its body, the last too."""
    base = log.segment(3, 3, 3)
    log.segment(1)
    path = log.path(base)
    sizes = [len(each) for each in batches_of(path)]
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    data[-1] ^= 1
    path.write_bytes(data)
    code, text, _ = run("verify", str(log.directory), "--json")
    assert code == 1
    content = json.loads(text)
    found = {(each["file"], each["position"]) for each in content["problems"]}
    assert found == {(str(path), 0), (str(path), sizes[0] + sizes[1])}
    assert content["logs"][0]["records"] == 11 + 3 + 1


def test_any_bit_that_flips_in_a_closed_segment_is_found(log: HandMade) -> None:
    """But for an entry of the time index that then names another record of the same batch."""
    files = [log.path(0, suffix) for suffix in (".log", ".index", ".timeindex")]
    passed_over = []
    for path in [*files, log.path(5, ".snapshot")]:
        data = path.read_bytes()
        for place, bit in itertools.product(range(len(data)), range(8)):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            check = LogCheck(place_of(str(log.directory)), None, deep=True, progress=lambda _: None)
            if not check.run([]).problems:
                passed_over.append((path.suffix, place, bit))
        path.write_bytes(data)
    assert passed_over == [(".timeindex", 11, 0)]


def test_an_epoch_that_the_checkpoint_does_not_know_at_this_offset_is_found(log: HandMade) -> None:
    log.epochs = [EpochEntry(3, 0), EpochEntry(4, 7)]
    log.write_epochs()
    found = {problem for _, problem in findings(str(log.directory))}
    assert found == {"leader epoch 4 where the checkpoint has 3"}


def test_an_epoch_that_is_newer_than_the_checkpoint_is_none(log: HandMade) -> None:
    log.epochs = [EpochEntry(3, 0)]
    log.write_epochs()
    assert findings(str(log.directory)) == []


def test_an_epoch_that_goes_back_is_found(log: HandMade) -> None:
    path = log.path(9)
    data = bytearray(path.read_bytes())
    set_base_offset_and_epoch(data, 0, 9, 6)
    path.write_bytes(data)
    assert (path.name, "leader epoch 4 after 6") in findings(str(log.directory))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "no version and number of entries"),
        (
            encode_epochs([EpochEntry(4, 9), EpochEntry(5, 3)]),
            "epochs or their start offsets go back: EpochEntry(epoch=5, start_offset=3)",
        ),
        (encode_epochs([EpochEntry(-2, 0)]), "an epoch or a start offset is negative"),
    ],
)
def test_a_damaged_checkpoint_of_epochs_is_found(
    log: HandMade, content: bytes, problem: str
) -> None:
    (log.directory / "leader-epoch-checkpoint").write_bytes(content)
    assert findings(str(log.directory)) == [("leader-epoch-checkpoint", problem)]


def test_an_aborted_transaction_has_its_marker(log: HandMade) -> None:
    marker = transaction_marker_batch(
        commit=False,
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp=1,
        base_offset=11,
        leader_epoch=4,
    )
    path = log.path(9)
    path.write_bytes(path.read_bytes() + bytes(marker))
    index = log.path(9, ".txnindex")
    entry = bytes(2) + b"".join(each.to_bytes(8, "big") for each in (7, 9, 11, 9))
    index.write_bytes(entry)
    assert findings(str(log.directory)) == []
    index.write_bytes(entry[:9] + b"\x08" + entry[10:])
    assert findings(str(log.directory)) == [(index.name, "no abort of producer 8 at offset 11")]
    # Without a look into the batches nobody knows which marker it is.
    assert findings(str(log.directory), "--shallow") == []


def test_a_time_that_its_batch_does_not_have_is_found(log: HandMade) -> None:
    index = log.path(5, ".timeindex")
    index.write_bytes(b"\x00" * 7 + b"\x05" + index.read_bytes()[8:])
    ((name, problem),) = findings(str(log.directory))
    assert name == index.name
    assert problem.startswith("timestamp 5 where 17")


def test_zeros_at_the_end_of_an_index_are_room_and_within_it_are_none(log: HandMade) -> None:
    index = log.path(9, ".index")
    entries = index.read_bytes()
    index.write_bytes(entries + bytes(80_000))
    assert findings(str(log.directory)) == []
    index.write_bytes(entries + bytes(8) + entries)
    assert (index.name, "the entries do not grow") in findings(str(log.directory))


def test_rubbish_of_every_kind_ends_in_findings_and_not_in_a_crash(log: HandMade) -> None:
    for path in sorted(log.directory.iterdir()):
        before = path.read_bytes()
        for content in (b"", b"\xff" * 1000, bytes(1000), before[:-1], before[1:], before * 2):
            path.write_bytes(content)
            assert run("verify", str(log.directory))[0] in {0, 1}
            assert run("segments", "--deep", str(log.directory))[0] in {0, 1}
            assert run("segments", str(log.directory))[0] in {0, 1}
            assert run("dump", "-r", str(log.directory), str(path))[0] in {0, 1}
        path.unlink()
        path.mkdir()
        assert run("verify", str(log.directory))[0] in {0, 1}
        assert run("segments", str(log.directory))[0] in {0, 1}
        path.rmdir()
        path.write_bytes(before)
    assert findings(str(log.directory)) == []


def test_not_all_of_a_thousand_problems_are_listed(log: HandMade) -> None:
    log.path(0, ".index").write_bytes(b"\x01" * 80_000)
    found = findings(str(log.directory))
    assert len(found) == 100
    assert found[-1] == (log.path(0, ".index").name, "more problems than are listed")


# Both tiers


def test_both_tiers_are_verified(tiered: tuple[str, ...]) -> None:
    assert findings(*tiered) == []
    _, text, _ = run("verify", *tiered, "--json")
    (row,) = json.loads(text)["logs"]
    assert (row["segments"], row["remote_segments"], row["records"]) == (2, 2, 5 + 4 + 4 + 2)


def test_a_gap_at_the_seam_is_found(log: HandMade, store: DirectoryStore, tmp_path: Path) -> None:
    log.upload(store, 0, 5)
    log.forget(0)
    log.forget(5)
    where = ("-d", str(log.log_dir), "--remote-store", f"file://{tmp_path}/remote")
    assert findings("t", *where) == [(log.path(9).name, "offsets 5 to 8 are in no segment")]


def test_a_gap_between_remote_segments_is_found(tiered: tuple[str, ...], log: HandMade) -> None:
    log.segment(3)
    log.upload(DirectoryStore(tiered[-1].removeprefix("file://")), 11, 14)
    for base in (5, 9, 11):
        log.forget(base)
    ((name, problem),) = findings(*tiered)
    assert name.startswith("00000000000000000011-")
    assert problem == "offsets 9 to 10 are in no segment"


def test_where_the_log_begins_something_begins(
    tiered: tuple[str, ...], log: HandMade, tmp_path: Path
) -> None:
    checkpoint = log.log_dir / "log-start-offset-checkpoint"
    checkpoint.write_text("0\n1\nt 0 0\n")
    assert findings(*tiered) == []
    # Without a look into the store it is not known.
    assert findings("t", "-d", str(log.log_dir)) == []
    empty = ("t", "-d", str(log.log_dir), "--remote-store", f"file://{tmp_path}/empty")
    assert findings(*empty) == [(log.path(5).name, "offsets 0 to 4 are in no segment")]
    checkpoint.write_text("0\n1\nt 0 6\n")
    assert findings(*empty) == []


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".snapshot", ".json"])
def test_damage_in_the_store_is_found(tiered: tuple[str, ...], tmp_path: Path, suffix: str) -> None:
    (path, _) = sorted((tmp_path / "remote").rglob(f"*{suffix}"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    found = findings(*tiered)
    assert found
    assert found[0][0].startswith("00000000000000000000-")


def test_an_object_that_is_missing_is_found(tiered: tuple[str, ...], tmp_path: Path) -> None:
    (path, _) = sorted((tmp_path / "remote").rglob("*.timeindex"))
    path.unlink()
    assert "not as the manifest has it: .timeindex" in {problem for _, problem in findings(*tiered)}


def dumped(*words: str) -> dict[str, Any]:
    code, text, _ = run("dump", *words, "--json")
    assert code == 0
    files = json.loads(text)["files"]
    assert isinstance(files, dict)
    return files


def test_a_dump_begins_in_the_remote_store_and_ends_here(
    tiered: tuple[str, ...], log: HandMade
) -> None:
    files = dumped("-r", *tiered)
    offsets = [record["offset"] for file in files.values() for record in file["records"]]
    assert offsets == list(range(11))
    first, *here = files
    assert first.startswith("file://")
    assert here == [str(log.path(5)), str(log.path(9))]


def test_a_dump_from_an_offset_passes_over_older_segments(
    tiered: tuple[str, ...], log: HandMade
) -> None:
    files = dumped("-r", "-o", "6", *tiered)
    assert list(files) == [str(log.path(5)), str(log.path(9))]
    offsets = [record["offset"] for file in files.values() for record in file["records"]]
    assert offsets == [6, 7, 8, 9, 10]
    files = dumped("--tier", "remote", *tiered)
    assert [batch["base_offset"] for file in files.values() for batch in file["batches"]] == [
        0,
        2,
        5,
    ]


def test_a_damaged_remote_segment_does_not_hide_the_others(
    tiered: tuple[str, ...], tmp_path: Path
) -> None:
    (path, _) = sorted((tmp_path / "remote").rglob("*.log"))
    path.write_bytes(path.read_bytes()[:-1])
    code, text, complaint = run("dump", *tiered)
    assert code == 1
    assert "BASE-OFFSET" in text
    assert ".log" in complaint


def test_nothing_is_left_behind(
    tiered: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = sorted(tmp_path.rglob("*"))
    findings(*tiered)
    dumped(*tiered)
    run("segments", "--deep", *tiered)
    assert sorted(tmp_path.rglob("*")) == before
