"""What decisions about the remote tier need to know of a log and of its topic's settings."""

from typing import NamedTuple

from ottla.tiered.lineage import Lineage


class LocalSegment(NamedTuple):
    """A closed segment on the local disk; both offsets are inclusive."""

    base_offset: int
    end_offset: int
    size: int


class LogView(NamedTuple):
    """A log at one moment."""

    start_offset: int
    """Of both tiers together."""
    local_start_offset: int
    end_offset: int
    last_stable_offset: int
    lineage: Lineage
    segments: tuple[LocalSegment, ...]
    """Those that are closed, in order."""
    active_size: int
    retention_ms: int
    """Negative: for ever."""
    retention_bytes: int
    """Of both tiers together; negative: without limit."""
    copying: bool = True
    """Whether new segments go to the remote store: ``remote.log.copy.disable`` is not set."""
