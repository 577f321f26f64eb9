"""The walk through the security guide is walked: its lines make a secured cluster of three."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.installed import IMPORT_PATH
from tools.kafka_peer.broker_process import free_ports

from ottla.protocol.api import ApiKey
from ottla.requests.table import HANDLERS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "security.md"
WALK = PAGE.read_text("utf-8").split("\n## ")[1]
BLOCKS = re.findall(r"^```sh\n(.*?)^```", WALK, re.MULTILINE | re.DOTALL)


def script() -> str:
    """All lines, on ports that nobody has."""
    ports = free_ports(6)
    # Where the requests of quotas are not served, the lines on them are left out.
    has_quotas = ApiKey.ALTER_CLIENT_QUOTAS in HANDLERS
    text = "\n".join(each for each in BLOCKS if has_quotas or "ottla quotas" not in each)
    for place in range(6):
        node, kind = place // 2 + 1, place % 2 + 2
        text = text.replace(f"localhost:9{node}9{kind}", f"localhost:{ports[place]}")
    clients, controllers = (" ".join(map(str, ports[first::2])) for first in (0, 1))
    text = text.replace("localhost:9${id}92", "localhost:${clients[$id]}")
    text = text.replace("localhost:9${id}93", "localhost:${controllers[$id]}")
    return f"set -euo pipefail\nclients=(0 {clients})\ncontrollers=(0 {controllers})\n{text}"


@pytest.mark.timeout(300)
def test_the_lines_make_a_secured_cluster(tmp_path: Path) -> None:
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    command = bin_directory / "ottla"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PYTHONPATH": IMPORT_PATH,
        "PATH": f"{bin_directory}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
    }
    process = subprocess.Popen(
        ["bash", "-c", f"{script()}\necho WALKED\n"],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=280)
    finally:
        # The three brokers are in its group, and in no other.
        os.killpg(process.pid, signal.SIGKILL)
    logs = "".join(f"{path}\n{path.read_text()[-1500:]}" for path in tmp_path.glob("node-*.log"))
    assert "WALKED" in said, said + logs
    assert "hello" in said
    assert "User:alice" in said
    for secret in ("admin-secret", "alice-secret", "node-secret"):
        assert secret not in said + logs
