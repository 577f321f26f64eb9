"""Processes that ``ottla.processes`` no longer counts, and whose directories are still there."""

from collections.abc import Sequence
from pathlib import Path

from ottla.config.broker import BrokerConfig
from ottla.config.processes import COUNT, process_directory
from ottla.server.shared_server import StartRefused
from ottla.storage.checkpoints import META_PROPERTIES


def check_left_out(configs: Sequence[BrokerConfig]) -> None:
    """StartRefused when there were more processes: what they had would be served by nobody."""
    for directory in configs[0].log_dirs:
        left = process_directory(directory, len(configs) + 1)
        if (Path(left) / META_PROPERTIES).exists():
            raise StartRefused(
                f"{left} is of a process that {COUNT}={len(configs)} leaves out: move its "
                "partitions away by `ottla reassign plan --from-broker` first, then remove it"
            )
