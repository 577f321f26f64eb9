"""The row of a machine of several processes asks all of them, and counts what all of them take."""

from pathlib import Path

import pytest
from benchmarks.machine import TOPIC, machine_of, one_record_requests_to_all
from tools.kafka_peer.broker_process import ottla, process_tree

pytestmark = pytest.mark.timeout(120)


def test_one_record_requests_go_to_both_processes(tmp_path: Path) -> None:
    with machine_of(ottla(), tmp_path, {}, 2) as machine:
        figures = one_record_requests_to_all(machine, 2, connections=8, seconds=0.3)
        _, *processes = process_tree(machine.pid)
        assert len(processes) == 2
    assert figures["requests"][0] > 0
    assert figures["cpu"][0] > 0, "the supervisor alone takes nothing"
    for directory in ("data", "data/process.2"):
        logs = list((tmp_path / directory).glob(f"{TOPIC}-*/*.log"))
        assert len(logs) == 2
        assert all(log.stat().st_size for log in logs)
