"""A writer of tables is killed, with its Spark, at any step; in the end each batch is in once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.killed_tables import BATCHES
from tests.spark.table_formats import FORMATS, elsewhere, spec_of
from tools.installed import IMPORT_PATH

from ottla.common.chance import Chance

PROGRAM = Path(__file__).with_name("killed_tables.py")
PROJECT = PROGRAM.parents[2]
KILLS = int(os.environ.get("OTTLA_TABLE_KILLS", "6"))
SEED = int(os.environ.get("OTTLA_TABLE_SEED", "0")) or Chance().below(1 << 32)
STEPS = len(FORMATS) * 3 * (1 + 2 * BATCHES)
"""Each table is made once; each batch is written and committed."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def run(directory: Path, last: int) -> int:
    paths = (IMPORT_PATH, str(PROJECT), os.environ.get("PYTHONPATH", ""))
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
    command = [sys.executable, str(PROGRAM), str(directory), str(last)]
    return subprocess.run(
        command, env=environment, start_new_session=True, timeout=600, check=False
    ).returncode


def test_batches_are_there_once_however_often_their_writer_is_killed(tmp_path: Path) -> None:
    print("seed", SEED)
    chance = Chance(SEED)
    for _ in range(KILLS):
        assert run(tmp_path, 1 + chance.below(STEPS // 2)) in {-signal.SIGKILL, 0}
    assert run(tmp_path, 0) == 0
    end = 10 * BATCHES
    for kind in FORMATS:
        appended, replaced, upserted = (
            sorted(elsewhere(spec_of(kind, tmp_path / kind / name)))
            for name in ("appended", "replaced", "upserted")
        )
        assert appended == [(i, f"batch {i // 10}") for i in range(end)]
        assert replaced == [(i, f"batch {BATCHES - 1}") for i in range(end - 10, end)]
        assert upserted == [(i, f"batch {min(i // 10, BATCHES - 1)}") for i in range(end + 5)]
