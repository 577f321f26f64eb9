"""The file system for looking only: nothing can be written, nothing needs to be allowed."""

import os
from typing import Final

from ottla.storage.files import OsFile, OsFilesystem


class ReadOnlyFilesystem(OsFilesystem):
    def open(self, path: str, *, create: bool = False, stays: bool = False) -> OsFile:  # noqa: ARG002
        assert not create
        return OsFile(os.open(path, os.O_RDONLY | os.O_CLOEXEC))


FILES: Final = ReadOnlyFilesystem()
