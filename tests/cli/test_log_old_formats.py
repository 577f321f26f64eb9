"""``ottla log`` over a partition whose records are of magic 0, 1 and 2."""

import json
from pathlib import Path

import pytest
from tests.cli.test_log_verify import findings, run
from tests.storage import logs, old_logs
from tests.storage.old_logs import Shape, Written

SHAPES = [
    Shape(magic, codec, [(b"k", b"v" * 40, logs.NOW + time) for time in (codec, 9, 2)], append)
    for magic in (0, 1, 2)
    for codec in (0, 1, 2, 3)
    for append in (None, logs.NOW + 20 + magic)
]
PIECES = old_logs.pieces(SHAPES)


def write(directory: Path, *, by_record: bool) -> Path:
    """The path of the one segment."""
    directory.mkdir()
    written = Written(0, PIECES)
    path = directory / f"{0:020d}.log"
    path.write_bytes(written.data)
    offsets, times = written.indexes(by_record=by_record)
    path.with_suffix(".index").write_bytes(offsets)
    path.with_suffix(".timeindex").write_bytes(times)
    return path


@pytest.mark.parametrize("by_record", [True, False])
def test_a_sound_log_of_old_formats_has_no_findings(tmp_path: Path, by_record: bool) -> None:
    """Kafka up to 3.6 named records within their batches; a wrapper does not tell its first."""
    path = write(tmp_path / "t-0", by_record=by_record)
    assert findings(str(path.parent)) == []
    times = bytearray(path.with_suffix(".timeindex").read_bytes())
    times[7] ^= 1
    path.with_suffix(".timeindex").write_bytes(times)
    assert [file for file, _ in findings(str(path.parent))] == [f"{0:020d}.timeindex"]


def test_damage_in_an_old_message_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", by_record=False)
    data = bytearray(path.read_bytes())
    data[len(PIECES[0].data) + 30] ^= 1
    path.write_bytes(data)
    found = findings(str(path.parent))
    assert (path.name, "the checksum does not match") in found


def test_a_dump_tells_what_the_headers_of_old_messages_say(tmp_path: Path) -> None:
    path = write(tmp_path / "t-0", by_record=False)
    code, text, _ = run("dump", str(path), "--json")
    assert code == 0
    (file,) = json.loads(text)["files"].values()
    rows = file["batches"]
    assert len(rows) == len(PIECES)
    assert all(row["crc_valid"] for row in rows)
    assert [row["last_offset"] for row in rows] == [piece.last_offset for piece in PIECES]
    assert [row["max_timestamp"] for row in rows] == [piece.max_timestamp for piece in PIECES]


def test_an_offset_that_is_not_that_of_the_last_record_is_found(tmp_path: Path) -> None:
    """Of one magic the wrapped offsets contradict it, of the other the neighbours do."""
    path = write(tmp_path / "t-0", by_record=False)
    data, position, last = path.read_bytes(), 0, -1
    for piece in PIECES:
        if len(piece.records) > 1 and piece.data[16] < 2:
            for offset in (piece.last_offset - 1, piece.last_offset + 1):
                changed = offset.to_bytes(8, "big")
                path.write_bytes(data[:position] + changed + data[position + 8 :])
                texts = [text for file, text in findings(str(path.parent)) if file == path.name]
                assert any("after" in text or "around" in text for text in texts), (last, offset)
        position += len(piece.data)
        last = piece.last_offset


def test_a_lost_segment_of_wrappers_is_found(tmp_path: Path) -> None:
    """They bear the offset of their last record, which is no gap: the log is not compacted."""
    path = write(tmp_path / "t-0", by_record=False)
    end = PIECES[-1].last_offset + 1
    assert findings(str(path.parent)) == []
    path.with_name(f"{end + 5:020d}.log").write_bytes(b"")
    assert findings(str(path.parent)) != []
