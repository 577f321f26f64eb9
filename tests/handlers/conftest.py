"""Lets the test modules import one another; a machine under load is no failure."""

import sys
from pathlib import Path

from hypothesis import settings

PROJECT = str(Path(__file__).resolve().parents[2])
if PROJECT not in sys.path:
    sys.path.insert(0, PROJECT)

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
