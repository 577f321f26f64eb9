"""Storage that formats itself: for `ottla dev`, containers and the embedded broker."""

import time
from collections.abc import Iterable, Sequence

from ottla.common.chance import Chance
from ottla.common.identifiers import random_uuid, uuid_text
from ottla.config.broker import BrokerConfig
from ottla.server.format import format_storage
from ottla.storage.checkpoints import META_PROPERTIES, MetaProperties
from ottla.storage.files import OsFilesystem


def prepare_storage(
    config: BrokerConfig, cluster_id: str | None = None, *, add_scram: Iterable[str] = ()
) -> None:
    """Format the log directories unless they are; a single node becomes its own quorum."""
    filesystem = OsFilesystem()
    if all(filesystem.exists(f"{path}/{META_PROPERTIES}") for path in config.log_dirs):
        return
    chance = Chance()
    format_storage(
        filesystem,
        config,
        cluster_id or uuid_text(random_uuid(chance)),
        standalone=config.is_controller and not config.controller_quorum_voters,
        ignore_formatted=True,
        add_scram=add_scram,
        chance=chance,
        now_ms=time.time_ns() // 1_000_000,
    )


def prepare_processes(configs: Sequence[BrokerConfig], cluster_id: str | None = None) -> None:
    """Format the log directories of all processes of a machine, unless they are, as one cluster."""
    first, *others = configs
    prepare_storage(first, cluster_id)
    meta = OsFilesystem().read(f"{first.log_dirs[0]}/{META_PROPERTIES}")
    for config in others:
        prepare_storage(config, MetaProperties.decode(meta).cluster_id)
