"""``ottla log segments``: each segment of a log as it is, on disk and in the remote store."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.cli.partitions import TIME, HandMade
from tests.tiered.s3_server import BUCKET, s3_server

from ottla.cli.main import cli
from ottla.server.defaults import development_properties
from ottla.tiered.driver.directory import DirectoryStore
from ottla.tiered.driver.stores import open_store


def run(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["log", *words], prog_name="ottla")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


def document(*words: str, code: int = 0) -> dict[str, Any]:
    found, text, complaint = run(*words, "--json")
    assert found == code, (text, complaint)
    content = json.loads(text)
    assert isinstance(content, dict)
    return content


@pytest.fixture
def url(tmp_path: Path, store: DirectoryStore) -> str:
    return f"file://{tmp_path}/remote"


def test_a_row_for_each_segment(log: HandMade) -> None:
    content = document("segments", "t", "--log-dir", str(log.log_dir))
    first, second, third = content["segments"]
    size = log.path(0).stat().st_size
    assert first == {
        "topic": "t",
        "partition": 0,
        "tier": "local",
        "base_offset": 0,
        "last_offset": 4,
        "active": False,
        "size": size,
        "first_timestamp": TIME,
        "last_timestamp": TIME + 4,
        "leader_epochs": [4],
        "indexes": {
            "index": {"entries": 1, "sound": True},
            "timeindex": {"entries": 2, "sound": True},
        },
        "cleaning": None,
        "remote_state": None,
        "segment_id": None,
    }
    assert (second["base_offset"], second["last_offset"], second["active"]) == (5, 8, False)
    assert (third["base_offset"], third["last_offset"], third["active"]) == (9, 10, True)
    assert content["problems"] == []


def test_what_a_partition_comes_to(log: HandMade) -> None:
    (partition,) = document("segments", "t", "--log-dir", str(log.log_dir))["partitions"]
    sizes = [log.path(base).stat().st_size for base in (0, 5, 9)]
    assert partition == {
        "topic": "t",
        "partition": 0,
        "directory": str(log.directory),
        "segments": 3,
        "local_size": sum(sizes),
        "remote_size": None,
        "log_start_offset": 0,
        "local_log_start_offset": 0,
        "log_end_offset": 11,
        "clean_offset": None,
        "dirty_ratio": None,
    }


def test_a_deep_look_counts_batches_records_and_tombstones(log: HandMade) -> None:
    rows = document("segments", "--deep", str(log.directory))["segments"]
    assert [(row["batches"], row["records"], row["tombstones"]) for row in rows] == [
        (2, 5, 3),
        (1, 4, 2),
        (2, 2, 1),
    ]


@pytest.mark.parametrize("word", ["t", "t:0", "t-0"])
def test_a_log_is_named_in_several_ways(log: HandMade, word: str) -> None:
    HandMade(log.log_dir, "t-0").segment(1)
    rows = document("segments", word, "-d", str(log.log_dir))["segments"]
    expected = {"t": ["t"] * 3, "t:0": ["t"] * 3, "t-0": ["t-0", "t", "t", "t"]}
    assert [row["topic"] for row in rows] == expected[word]


def test_without_names_all_logs_are_shown(log: HandMade) -> None:
    HandMade(log.log_dir, "other").segment(1)
    partitions = document("segments", "-d", str(log.log_dir))["partitions"]
    assert [each["topic"] for each in partitions] == ["other", "t"]


def test_a_topic_that_is_not_there_is_said_and_the_others_are_shown(log: HandMade) -> None:
    content = document("segments", "missing", "t", "-d", str(log.log_dir), code=1)
    assert len(content["segments"]) == 3
    (error,) = content["errors"]
    assert (error["topic"], error["error"]) == ("missing", "UNKNOWN_TOPIC_OR_PARTITION")


def test_nothing_named_is_wrong_usage(tmp_path: Path) -> None:
    assert run("segments")[0] == 2
    assert run("segments", str(tmp_path))[0] == 2
    assert run("segments", str(tmp_path / "missing"))[0] == 2


def test_the_table_has_the_segments_and_their_sum(log: HandMade) -> None:
    code, text, _ = run("segments", str(log.directory))
    assert code == 0
    segments, partitions = (part.splitlines() for part in text.split("\n\n"))
    assert segments[0].split()[:6] == [
        "TOPIC",
        "PARTITION",
        "TIER",
        "BASE-OFFSET",
        "LAST-OFFSET",
        "SIZE",
    ]
    assert [line.split()[2:5] for line in segments[1:]] == [
        ["local", "0", "4"],
        ["local", "5", "8"],
        ["local", "9", "10"],
    ]
    assert partitions[0].split()[:4] == ["TOPIC", "PARTITION", "SEGMENTS", "LOCAL-SIZE"]
    assert len(partitions) == 2


def test_the_summary_alone_and_rows_for_programs(log: HandMade) -> None:
    _, text, _ = run("segments", "--summary", str(log.directory))
    assert len(text.splitlines()) == 2
    assert "segments" not in document("segments", "-s", str(log.directory))
    _, text, _ = run("segments", str(log.directory), "--format", "tsv")
    assert len(text.splitlines()) == 4


def test_how_dirty_a_compacted_log_is(log: HandMade) -> None:
    log.segment(3)
    log.cleaned_to(5)
    content = document("segments", "t", "-d", str(log.log_dir))
    assert [row["cleaning"] for row in content["segments"]] == ["clean", "dirty", "dirty", "dirty"]
    (partition,) = content["partitions"]
    clean, *dirty = (log.path(base).stat().st_size for base in (0, 5, 9))
    assert partition["clean_offset"] == 5
    # The active segment is not the cleaner's.
    assert partition["dirty_ratio"] == round(sum(dirty) / (clean + sum(dirty)), 4)
    assert "active" in run("segments", "t", "-d", str(log.log_dir))[1]


def test_a_damaged_index_is_named_and_hides_nothing(log: HandMade) -> None:
    path = log.path(0, ".index")
    path.write_bytes(b"\x00\x00\x00\x01" + path.read_bytes()[4:])
    (first, *_) = document("segments", str(log.directory))["segments"]
    assert first["indexes"]["index"]["sound"] is False
    assert first["last_offset"] == 4
    code, text, complaint = run("segments", "--deep", str(log.directory))
    assert code == 1
    assert "damaged" in text
    assert "offset 1 where 4 stands" in complaint


def test_a_damaged_segment_does_not_hide_the_others(log: HandMade) -> None:
    log.path(0).write_bytes(b"\xff" * 200)
    content = document("segments", str(log.directory), code=1)
    assert len(content["segments"]) == 3
    assert {Path(each["file"]).name for each in content["problems"]} == {log.path(0).name}


# Both tiers


def test_segments_of_both_tiers(log: HandMade, store: DirectoryStore, url: str) -> None:
    log.upload(store, 0, 5)
    log.upload(store, 5, 9)
    size = log.path(0).stat().st_size
    log.forget(0)
    where = ("-d", str(log.log_dir), "--remote-store", url)
    content = document("segments", "t", *where)
    assert [(row["tier"], row["base_offset"]) for row in content["segments"]] == [
        ("remote", 0),
        ("both", 5),
        ("local", 9),
    ]
    first = content["segments"][0]
    assert first["size"] == size
    assert first["last_offset"] == 4
    assert first["last_timestamp"] == TIME + 4
    assert first["remote_state"] == "COPY_SEGMENT_FINISHED"
    assert first["segment_id"] == "AAAAAAAAAAAAAAAAAAAAAA"
    assert first["indexes"] == {
        "index": {"entries": 1, "sound": None},
        "timeindex": {"entries": 2, "sound": None},
    }
    (partition,) = content["partitions"]
    assert partition["remote_size"] == size + log.path(5).stat().st_size
    assert partition["log_start_offset"] == 0
    assert partition["local_log_start_offset"] == 5
    deep = document("segments", "--deep", "t", *where)["segments"][0]
    assert (deep["records"], deep["tombstones"]) == (5, 3)
    assert deep["indexes"]["index"] == {"entries": 1, "sound": True}


def test_one_tier_alone(log: HandMade, store: DirectoryStore, url: str) -> None:
    log.upload(store, 0, 5)
    where = ("-d", str(log.log_dir), "--remote-store", url)
    rows = document("segments", "t", *where, "--tier", "local")["segments"]
    assert [row["tier"] for row in rows] == ["local"] * 3
    rows = document("segments", "t", *where, "--tier", "remote")["segments"]
    assert [row["tier"] for row in rows] == ["remote"]


def test_what_only_the_store_has_is_found(
    log: HandMade, store: DirectoryStore, url: str, tmp_path: Path
) -> None:
    log.upload(store, 0, 5)
    (tmp_path / "empty").mkdir()
    rows = document("segments", "t", "-d", str(tmp_path / "empty"), "--remote-store", url)
    assert [row["base_offset"] for row in rows["segments"]] == [0]


def test_a_copy_that_was_broken_off_is_shown_as_begun(
    log: HandMade, store: DirectoryStore, url: str, tmp_path: Path
) -> None:
    log.upload(store, 0, 5)
    (manifest,) = (tmp_path / "remote").rglob("*.json")
    manifest.unlink()
    where = ("-d", str(log.log_dir), "--remote-store", url)
    row = document("segments", "t", *where)["segments"][0]
    assert (row["tier"], row["remote_state"]) == ("local", None)
    (row,) = document("segments", "t", *where, "--tier", "remote")["segments"]
    assert (row["remote_state"], row["last_offset"]) == ("COPY_SEGMENT_STARTED", None)
    assert document("segments", "t", *where, "-s")["partitions"][0]["remote_size"] == 0


def test_a_store_that_is_not_there_yet_is_an_empty_one(log: HandMade, tmp_path: Path) -> None:
    where = ("-d", str(log.log_dir), "--remote-store", f"file://{tmp_path}/nowhere")
    assert document("segments", "t", *where)["partitions"][0]["remote_size"] == 0
    assert not (tmp_path / "nowhere").exists()


def test_looking_does_not_clean_up_in_the_store(
    log: HandMade, store: DirectoryStore, url: str, tmp_path: Path
) -> None:
    left = tmp_path / "remote" / ".tmp" / "x"
    left.write_bytes(b"half a segment")
    document("segments", "t", "-d", str(log.log_dir), "--remote-store", url)
    assert left.exists()


def test_a_bucket_is_named_by_the_configuration_of_a_node(log: HandMade, tmp_path: Path) -> None:
    config = tmp_path / "server.properties"
    where = ("t", "-c", str(config))
    with s3_server() as server:
        settings = {
            **development_properties(str(log.log_dir)),
            **server.settings,
            "remote.log.storage.system.enable": "true",
            "ottla.remote.store.url": f"s3://{BUCKET}/segments",
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        log.upload(open_store(settings["ottla.remote.store.url"], settings), 0, 5)
        log.forget(0)
        rows = document("segments", "--deep", *where)["segments"]
        assert [(row["tier"], row["records"]) for row in rows] == [
            ("remote", 5),
            ("local", 4),
            ("local", 2),
        ]
        assert document("verify", *where)["problems"] == []
    # Without the store the rest is still shown, and it is said.
    content = document("segments", *where, code=1)
    assert [row["tier"] for row in content["segments"]] == ["local", "local"]
    assert content["errors"][0]["error"] == "REMOTE_STORE"
