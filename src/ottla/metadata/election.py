"""Who leads a partition now: preferred, clean, by eligible leader replicas, or unclean.

Pure. The candidates are looked at in the order of the replica list; the first that may lead does.

A replica may lead cleanly when it is in sync or, when none is, an eligible leader replica (KIP-966:
it had everything that was committed when it left the ISR). When neither is left, the
last known leader may come back alone, and any replica may when the topic allows unclean elections;
both may lose records, and the ISR becomes that one replica.
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import NamedTuple

from ottla.metadata.topics import NO_LEADER


class Election(Enum):
    PREFERRED = auto()
    """Move to the first replica if it may lead."""
    ONLINE = auto()
    """Only when the present leader may not."""
    UNCLEAN = auto()
    """As ONLINE; and at worst by a replica that is not in sync."""


class Elected(NamedTuple):
    leader: int
    unclean: bool = False


class Candidates(NamedTuple):
    """What an election looks at."""

    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    last_known_elr: Sequence[int]
    leader: int
    is_acceptable: Callable[[int], bool]
    """Whether the broker is there to lead: alive, and the replica's directory online."""
    elr_enabled: bool

    def may_lead(self, replica: int) -> bool:
        in_sync = replica in (self.isr or self.elr)
        return in_sync and self.is_acceptable(replica)


def elect(candidates: Candidates, election: Election) -> Elected:
    """The leader that there should be; NO_LEADER when nobody may."""
    replicas = candidates.replicas
    if election is Election.PREFERRED and candidates.may_lead(replicas[0]):
        return Elected(replicas[0])
    if candidates.may_lead(candidates.leader):
        return Elected(candidates.leader)
    for replica in replicas:
        if candidates.may_lead(replica):
            return Elected(replica)
    if _last_known_leader_may_lead(candidates):
        return Elected(candidates.last_known_elr[0], unclean=True)
    if election is Election.UNCLEAN:
        for replica in replicas:
            if candidates.is_acceptable(replica):
                return Elected(replica, unclean=True)
    return Elected(NO_LEADER)


def _last_known_leader_may_lead(candidates: Candidates) -> bool:
    return (
        candidates.elr_enabled
        and not candidates.isr
        and not candidates.elr
        and len(candidates.last_known_elr) == 1
        and candidates.is_acceptable(candidates.last_known_elr[0])
    )
