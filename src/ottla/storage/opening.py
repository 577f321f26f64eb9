"""A log is opened, or made, in its directory."""

from typing import Final

from ottla.common.chance import Chance
from ottla.common.topic_partition import TopicPartition
from ottla.storage.checkpoints import (
    LEADER_EPOCHS,
    PARTITION_METADATA,
    CorruptCheckpoint,
    decode_partition_metadata,
)
from ottla.storage.config import LogConfig, has_remote_part
from ottla.storage.directories import LogDirFailed, LogUnavailable
from ottla.storage.files import Filesystem, is_disks
from ottla.storage.listener import LogListener, StandsAlone
from ottla.storage.log import Log
from ottla.storage.open_files import OpenFiles
from ottla.storage.recovery import LogLoader
from ottla.storage.segments import Segments
from ottla.storage.verification import Verify

PRODUCER_EXPIRATION_MS: Final = 86_400_000
OPEN_FILES_ALONE: Final = 16


def open_log(
    filesystem: Filesystem,
    directory: str,
    *,
    topic_partition: TopicPartition,
    topic_id: bytes | None,
    config: LogConfig,
    now_ms: int,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clean_shutdown: bool = True,
    may_have_gaps: bool = False,
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
    open_files: OpenFiles | None = None,
    listener: LogListener | None = None,
    chance: Chance | None = None,
    verify: Verify = Verify.ONCE,
) -> Log:
    """Open the log in ``directory``, or make one there; without a listener it stands alone."""
    if open_files is None:
        open_files = OpenFiles(OPEN_FILES_ALONE, is_urgent=True)
    if listener is None:
        listener = StandsAlone(filesystem)
    try:
        is_new = not filesystem.is_directory(directory)
        if is_new:
            filesystem.make_directory(directory)
        opened = LogLoader(
            Segments(
                filesystem,
                directory,
                config=config,
                chance=chance,
                open_files=open_files,
                listener=listener,
            ),
            producer_expiration_ms=producer_expiration_ms,
            now_ms=now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean_shutdown=clean_shutdown,
            may_have_gaps=may_have_gaps or "compact" in config.cleanup_policy,
            has_remote_part=has_remote_part(topic_partition.topic, config),
        ).load()
        log = Log(
            opened,
            topic_partition=topic_partition,
            topic_id=None if is_new else read_topic_id(filesystem, directory),
            config=config,
            listener=listener,
            now_ms=now_ms,
            verify=verify,
        )
        if is_new:
            filesystem.open(f"{directory}/{LEADER_EPOCHS}", create=True).close()
        if topic_id is not None:
            log.assign_topic_id(topic_id)
    except OSError as error:
        failed = LogDirFailed if is_disks(error) else LogUnavailable
        raise failed(directory.rpartition("/")[0], error) from error
    else:
        return log


def read_topic_id(filesystem: Filesystem, directory: str) -> bytes | None:
    """The topic that a partition's directory belongs to; None when that is not, or badly, told."""
    path = f"{directory}/{PARTITION_METADATA}"
    try:
        return decode_partition_metadata(filesystem.read(path))
    except (FileNotFoundError, CorruptCheckpoint):
        return None
