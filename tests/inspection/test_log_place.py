"""Logs by their directories, and what the checkpoints around them tell."""

from pathlib import Path

import pytest

from ottla.common.topic_partition import TopicPartition
from ottla.inspection import log_place
from ottla.inspection.log_place import places_below
from ottla.storage.checkpoints import CLEANER_OFFSETS, LOG_START_OFFSETS, read_offsets
from ottla.storage.files import Filesystem


def test_many_logs_cost_one_look_at_each_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each tells of all partitions: to read it for every one of them takes minutes."""
    count = 30
    for partition in range(count):
        (tmp_path / f"t-{partition}").mkdir()
    for name, more in ((LOG_START_OFFSETS, 0), (CLEANER_OFFSETS, 100)):
        lines = [f"t {partition} {partition + more}" for partition in range(count)]
        (tmp_path / name).write_text("\n".join(["0", str(count), *lines, ""]))
    read: list[str] = []

    def note(files: Filesystem, path: str) -> dict[TopicPartition, int]:
        read.append(Path(path).name)
        return read_offsets(files, path)

    monkeypatch.setattr(log_place, "read_offsets", note)
    places = places_below(str(tmp_path))
    assert sorted(read) == sorted([LOG_START_OFFSETS, CLEANER_OFFSETS])
    assert [(each.start_offset, each.clean_offset) for each in places] == [
        (partition, partition + 100) for partition in range(count)
    ]
