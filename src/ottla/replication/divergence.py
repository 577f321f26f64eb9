"""Where a follower cuts its log when the leader's diverges from it (KIP-101, KIP-279).

The leader has told its largest epoch that is not above the follower's last one, and where that
epoch ends in its log. Below the lesser of both ends of an epoch that both logs have, they are
equal. An epoch that the follower does not have proves nothing about its own records: it cuts to the
end of the largest one that it has below, and the next fetch asks again from there. The high
watermark is never what decides: a follower's is behind the truth, and what is above it may be
committed.
"""

from ottla.storage.leader_epochs import UNDEFINED_OFFSET
from ottla.storage.log import Log


def truncation_offset(log: Log, leader_epoch: int, leader_end_offset: int) -> int:
    """What is to be kept of ``log``, by what the leader says of its epoch and where that ends."""
    own_end = log.log_end_offset
    found = log.end_offset_for_epoch(leader_epoch)
    if found.end_offset == UNDEFINED_OFFSET:
        # Nothing of ours is as old as that, or nothing is known of our epochs.
        return min(leader_end_offset, own_end)
    if found.epoch != leader_epoch:
        return min(found.end_offset, own_end)
    return min(found.end_offset, leader_end_offset, own_end)
