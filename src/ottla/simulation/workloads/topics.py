"""Settings of topics, drawn from the seed: whatever changes when something is done with a log."""

from collections.abc import Mapping
from typing import Final

from ottla.common.chance import Chance

DRAWN: Final[Mapping[str, tuple[str, ...]]] = {
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip"),
    "file.delete.delay.ms": ("0", "500", "5000"),
    "flush.messages": ("1", "2", "7"),
    "flush.ms": ("0", "200", "3000"),
    "index.interval.bytes": ("0", "200"),
    "internal.segment.bytes": ("1500", "10000"),
    "message.timestamp.type": ("LogAppendTime",),
    "min.insync.replicas": ("1", "3"),
    "segment.ms": ("2000", "15000"),
}
"""Each with what it may be besides its default."""
_ONE_IN: Final = 4
"""How rarely one is set: what one setting finds is drowned by nine."""


def draw_configs(chance: Chance) -> dict[str, str]:
    """Half of all topics have only defaults."""
    if chance.below(2):
        return {}
    return {
        key: chance.choose(values) for key, values in DRAWN.items() if chance.below(_ONE_IN) == 0
    }
