"""What this process has made durable, in which order."""

import os
from pathlib import Path

import pytest


class SyncedFiles:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._synced: list[int] = []
        self._original = os.fsync
        monkeypatch.setattr(os, "fsync", self._sync)

    def _sync(self, file: int) -> None:
        self._synced.append(os.fstat(file).st_ino)
        self._original(file)

    def first(self, path: Path) -> int:
        """The place of a file or directory in the order; ValueError if it may be lost."""
        return self._synced.index(path.stat().st_ino)

    def last(self, path: Path) -> int:
        return len(self._synced) - 1 - self._synced[::-1].index(path.stat().st_ino)
