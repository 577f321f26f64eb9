"""``ottla log`` shows what files hold and finds what is wrong with them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.records.batch import seal
from ottla.records.builder import build_batch
from ottla.records.control import ControlType, control_batch, transaction_marker_batch
from ottla.records.record import Record
from ottla.storage.checkpoints import encode_epochs, encode_partition_metadata
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.producer_snapshots import encode_snapshot
from ottla.storage.producer_state import BatchMetadata, ProducerEntry

NAME = "00000000000000000000"


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["log", *words], prog_name="ottla")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def document(*words: str) -> dict[str, object]:
    code, text, _ = run(*words, "--json")
    assert code == 0
    content = json.loads(text)
    assert isinstance(content, dict)
    return content


def batches() -> list[bytes]:
    first = [
        Record(key=b"k", value=b"v", timestamp=1000, headers=[("h", b"x"), ("h", None)]),
        Record(key=None, value=b"\xff\x00", timestamp=2000),
    ]
    second = [Record(key=b"k2", value=None, timestamp=3000)]
    return [
        bytes(build_batch(first, base_offset=0, leader_epoch=4)),
        bytes(
            build_batch(
                second,
                base_offset=2,
                codec=1,
                producer_id=7,
                producer_epoch=1,
                base_sequence=5,
                transactional=True,
                leader_epoch=4,
            )
        ),
        bytes(
            transaction_marker_batch(
                commit=False,
                producer_id=7,
                producer_epoch=1,
                coordinator_epoch=9,
                timestamp=4000,
                base_offset=3,
                leader_epoch=4,
            )
        ),
    ]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """A sound partition, written by hand."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    parts = batches()
    (directory / f"{NAME}.log").write_bytes(b"".join(parts))
    (directory / f"{NAME}.index").write_bytes(pack(">ii", 2, len(parts[0])) + bytes(16))
    (directory / f"{NAME}.timeindex").write_bytes(pack(">qi", 3000, 2) + pack(">qi", 4000, 3))
    (directory / f"{NAME}.txnindex").write_bytes(pack(">hqqqq", 0, 7, 2, 3, 2))
    (directory / "leader-epoch-checkpoint").write_bytes(encode_epochs([EpochEntry(4, 0)]))
    (directory / "partition.metadata").write_bytes(encode_partition_metadata(bytes(15) + b"\x09"))
    producer = ProducerEntry(7, 1, 9, 4000, -1)
    producer.batches.append(BatchMetadata(5, 2, 0, 3000))
    (directory / "00000000000000000004.snapshot").write_bytes(encode_snapshot([producer]))
    return directory


def test_batches_are_shown(partition: Path) -> None:
    code, text, _ = run("dump", str(partition))
    assert code == 0
    lines = [line.split() for line in text.splitlines()]
    assert lines[0][:3] == ["BASE-OFFSET", "LAST-OFFSET", "COUNT"]
    assert [line[0] for line in lines[1:]] == ["0", "2", "3"]
    (file,) = document("dump", str(partition))["files"].values()  # type: ignore[attr-defined]
    second = file["batches"][1]
    assert second["codec"] == "gzip"
    assert second["producer_id"] == 7
    assert second["transactional"] is True
    assert second["crc_valid"] is True


def test_records_are_shown_from_an_offset_and_not_too_many(partition: Path) -> None:
    (file,) = document("dump", "-r", str(partition))["files"].values()  # type: ignore[attr-defined]
    assert [record["offset"] for record in file["records"]] == [0, 1, 2, 3]
    first, second, third, marker = file["records"]
    assert (first["key"], first["value"]) == ("k", "v")
    assert first["headers"] == [{"key": "h", "value": "x"}, {"key": "h", "value": None}]
    assert (second["key"], second["value"]) == (None, "0xff00")
    assert third["value"] is None
    assert marker["control"] == "ABORT"
    assert marker["value"] == {"coordinatorEpoch": 9}
    (file,) = document("dump", "-r", "-o", "1", "-n", "2", str(partition))["files"].values()  # type: ignore[attr-defined]
    assert [record["offset"] for record in file["records"]] == [1, 2]


def test_records_of_the_metadata_log_are_shown_by_their_fields(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    # A frame: version 1, type 2 (topic), version 0, then the message.
    topic = Record(value=b"\x01\x02\x00\x02t" + bytes(15) + b"\x07\x00", timestamp=1)
    data = control_batch([(ControlType.KRAFT_VERSION, b"\x00\x00\x00\x01\x00")], timestamp=1)
    data += build_batch([topic], base_offset=1)
    (directory / f"{NAME}.log").write_bytes(bytes(data))
    (file,) = document("dump", "-r", str(directory))["files"].values()  # type: ignore[attr-defined]
    control, record = file["records"]
    assert control["control"] == "KRAFT_VERSION"
    assert control["value"]["kRaftVersion"] == 1
    assert record["value"]["TopicRecord"]["name"] == "t"


@pytest.mark.parametrize(
    ("name", "noun", "rows"),
    [
        (f"{NAME}.index", "entries", [{"offset": 2, "position": 87}]),
        (
            f"{NAME}.timeindex",
            "entries",
            [{"timestamp": 3000, "offset": 2}, {"timestamp": 4000, "offset": 3}],
        ),
        (
            f"{NAME}.txnindex",
            "aborted_transactions",
            [{"producer_id": 7, "first_offset": 2, "last_offset": 3, "last_stable_offset": 2}],
        ),
        ("leader-epoch-checkpoint", "epochs", [{"epoch": 4, "start_offset": 0}]),
        ("partition.metadata", "partition_metadata", [{"topic_id": "AAAAAAAAAAAAAAAAAAAACQ"}]),
    ],
)
def test_small_files_are_shown(
    partition: Path, name: str, noun: str, rows: list[dict[str, object]]
) -> None:
    path = str(partition / name)
    assert document("dump", path) == {"files": {path: {noun: rows}}}


def test_producers_of_a_snapshot_are_shown(partition: Path) -> None:
    path = str(partition / "00000000000000000004.snapshot")
    (file,) = document("dump", path)["files"].values()  # type: ignore[attr-defined]
    (producer,) = file["producers"]
    assert producer["producer_id"] == 7
    assert producer["last_sequence"] == 5


def test_a_file_that_is_none_of_ours_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    assert run("dump", str(tmp_path / "x.txt"))[0] == 2
    assert run("dump", str(tmp_path / "missing"))[0] == 2


def test_a_damaged_file_does_not_hide_the_others(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("nonsense")
    code, text, complaint = run(
        "dump", str(partition / "leader-epoch-checkpoint"), str(partition / f"{NAME}.index")
    )
    assert code == 1
    assert "no version and number of entries" in complaint
    assert "POSITION" in text


def test_a_sound_log_is_verified(partition: Path) -> None:
    expected = {
        "log": "t-0",
        "segments": 1,
        "remote_segments": 0,
        "batches": 3,
        "records": 4,
        "problems": 0,
    }
    assert document("verify", str(partition)) == {"logs": [expected], "problems": []}
    assert document("verify", str(partition.parent)) == {"logs": [expected], "problems": []}


def damage(partition: Path, name: str, position: int, data: bytes) -> None:
    path = partition / name
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(bytes(content))


@pytest.mark.parametrize(
    ("name", "position", "data", "problem"),
    [
        (f"{NAME}.log", 80, b"\xee", "the checksum does not match"),
        (f"{NAME}.log", 87, pack(">q", 1), "offset 1 after 1"),
        (f"{NAME}.log", 8, pack(">i", 5), "no record batch begins at position 0"),
        (f"{NAME}.index", 4, pack(">i", 17), "no batch begins at position 17"),
        (f"{NAME}.index", 0, pack(">i", 1), "offset 1 where 2 stands"),
        (f"{NAME}.index", 24, b"x", "the size is no multiple of 8"),
        (f"{NAME}.timeindex", 12, pack(">q", 5), "the timestamps do not grow"),
        (f"{NAME}.timeindex", 20, pack(">i", 99), "offset 99 is not there"),
        (f"{NAME}.txnindex", 0, b"\x07", "not the aborted transactions of this segment"),
        ("leader-epoch-checkpoint", 0, b"9", "unknown version 9"),
        ("00000000000000000004.snapshot", 30, b"\xee", "the checksum does not match"),
    ],
)
def test_damage_is_found(
    partition: Path, name: str, position: int, data: bytes, problem: str
) -> None:
    damage(partition, name, position, data)
    code, text, _ = run("verify", str(partition), "--json")
    assert code == 1
    problems = json.loads(text)["problems"]
    assert problem in {each["problem"] for each in problems}
    assert {Path(each["file"]).name for each in problems} >= {name}


def test_a_cut_segment_is_found(partition: Path) -> None:
    path = partition / f"{NAME}.log"
    path.write_bytes(path.read_bytes()[:-5])
    code, text, complaint = run("verify", str(partition))
    assert code == 1
    assert "that are no whole batch" in complaint
    assert text.splitlines()[1].split()[-1] != "0"


def test_a_shallow_look_does_not_read_records(partition: Path) -> None:
    batch = bytearray(build_batch([Record(value=b"a", timestamp=1)], base_offset=4, leader_epoch=4))
    batch[64] = 10  # the record says that it is the fifth after the base offset
    seal(batch, 0, len(batch))
    path = partition / f"{NAME}.log"
    path.write_bytes(path.read_bytes() + bytes(batch))
    assert run("verify", "--shallow", str(partition))[0] == 0
    assert run("verify", str(partition))[0] == 1


def test_verify_wants_a_directory_with_segments(tmp_path: Path) -> None:
    assert run("verify", str(tmp_path))[0] == 2


def test_what_stands_before_damage_is_shown(partition: Path) -> None:
    first = len(batches()[0])
    damage(partition, f"{NAME}.log", first + 8, b"\xff")
    code, text, complaint = run("dump", str(partition))
    assert code == 1
    assert [line.split()[0] for line in text.splitlines()] == ["BASE-OFFSET", "0"]
    assert f"no record batch begins at position {first}" in complaint
    code, text, _ = run("dump", str(partition), "--json")
    content = json.loads(text)
    (file,) = content["files"].values()
    assert (code, len(file["batches"]), len(content["errors"])) == (1, 1, 1)


def test_a_long_table_is_printed_as_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    parts = [
        build_batch([Record(value=b"v", timestamp=1)], base_offset=number) for number in range(1200)
    ]
    (tmp_path / "t-0" / f"{NAME}.log").write_bytes(b"".join(map(bytes, parts)))
    for form in ("table", "tsv"):
        _, text, _ = run("dump", str(tmp_path / "t-0"), "--format", form)
        offsets = [line.split()[0] for line in text.splitlines()]
        assert offsets[1:] == [str(number) for number in range(1200)]
        if form == "table":
            assert len({len(line) for line in text.splitlines()[1:]}) == 1


def test_a_reader_that_has_enough_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.log"
    one = [Record(key=b"k", value=b"v" * 50, timestamp=1000)]
    file.write_bytes(
        b"".join(bytes(build_batch(one, base_offset=at, leader_epoch=0)) for at in range(5000))
    )
    for words in (("dump", str(file)), ("dump", str(file), "-r")):
        started = subprocess.Popen(
            [sys.executable, "-m", "ottla", "log", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(ottla.__file__).parents[1])},
        )
        assert started.stdout is not None
        assert started.stderr is not None
        assert started.stdout.readline().split()
        started.stdout.close()
        complaint = started.stderr.read()
        started.stderr.close()
        started.wait(30)
        assert complaint == b""


def test_a_file_that_holds_nothing_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    file = tmp_path / f"{NAME}.log"
    file.write_bytes(b"")
    assert run("dump", str(file)) == (0, "", f"there are no batches in {file}\n")
    assert run("dump", str(file), "-r") == (0, "", f"there are no records in {file}\n")
