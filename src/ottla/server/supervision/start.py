"""The start of all processes of a machine; what must fail is refused before any is started."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import parse_http_listeners
from ottla.server.local_nodes import is_busy
from ottla.server.node_process import own_environment
from ottla.server.shared_server import StartRefused
from ottla.server.supervision.driver import Driver
from ottla.server.supervision.left_out import check_left_out
from ottla.server.supervision.state_file import StateFile
from ottla.storage.checkpoints import LOCK, META_PROPERTIES, CorruptCheckpoint, MetaProperties
from ottla.storage.files import DirectoryInUse, OsLock


def run_processes(
    configs: Sequence[BrokerConfig],
    words: Sequence[str],
    *,
    as_json: bool = False,
    output: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    ready: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Run them until they are stopped; the exit code. StartRefused when they cannot be.

    ``words`` are those of `ottla server` that each process is started with.
    """
    if not sys.executable:
        raise StartRefused("nobody can say which program we are, so that it cannot start others")
    check_left_out(configs)
    check_processes(configs)
    try:
        state_file = StateFile(configs[0].log_dirs)
    except DirectoryInUse as error:
        raise StartRefused(f"another supervisor has these processes: {error}") from error

    def command(number: int) -> list[str]:
        own = ["--process", str(number), "--until-eof", "--answers-to", "{answers}"]
        return [sys.executable, "-m", "ottla", "server", *words, *own]

    surroundings = own_environment() if environment is None else environment
    return Driver(
        configs, command, surroundings, state_file, as_json=as_json, output=output, ready=ready
    ).run()


def check_processes(configs: Sequence[BrokerConfig]) -> None:
    """StartRefused for a directory that is not formatted or in use, or a port that is taken."""
    clusters: dict[str, str] = {}
    for config in configs:
        for directory in dict.fromkeys((*config.log_dirs, config.metadata_log_dir)):
            cluster_id = _cluster_id(config, directory)
            if cluster_id is not None:
                clusters[cluster_id] = directory
            _check_free(directory)
        for listener in config.listeners:
            if listener.port > 0 and is_busy(listener.host, listener.port):
                raise StartRefused(
                    f"node {config.node_id} cannot listen on {listener}: another process has this "
                    "port"
                )
    for listener in parse_http_listeners(configs[0].ottla_processes_http_listeners):
        if listener.port > 0 and is_busy(listener.host, listener.port):
            raise StartRefused(f"cannot listen on {listener}: another process has this port")
    if len(clusters) > 1:
        raise StartRefused(f"the directories belong to different clusters: {clusters}")


def _cluster_id(config: BrokerConfig, directory: str) -> str | None:
    """None for a directory that cannot be read now: its node decides whether it can do without."""
    file = Path(directory) / META_PROPERTIES
    try:
        meta = MetaProperties.decode(file.read_bytes())
    except FileNotFoundError:
        raise StartRefused(
            f"No `{META_PROPERTIES}` found in {directory} of node {config.node_id}: format it by "
            "`ottla storage format --ignore-formatted`, which passes over what is formatted"
        ) from None
    except (OSError, CorruptCheckpoint):
        return None
    return meta.cluster_id


def _check_free(directory: str) -> None:
    lock = f"{directory}/{LOCK}"
    if Path(lock).exists():
        try:
            OsLock(lock).release()
        except DirectoryInUse as error:
            raise StartRefused(str(error)) from error
        except OSError:
            return  # its node says so itself
