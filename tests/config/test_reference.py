"""The reference page of the settings is what the source makes of it."""

import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]


def test_the_page_of_settings_is_current() -> None:
    done = subprocess.run(
        [sys.executable, str(PROJECT / "tools" / "docgen.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
