"""Who leads: preferred, in sync, eligible, last known, unclean."""

import pytest

from ottla.metadata.election import Candidates, Elected, Election, elect
from ottla.metadata.topics import NO_LEADER


def elected(
    alive: set[int],
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    elr: tuple[int, ...] = (),
    last_known: tuple[int, ...] = (),
    leader: int = NO_LEADER,
    election: Election = Election.ONLINE,
    elr_enabled: bool = True,
) -> Elected:
    candidates = Candidates(
        (1, 2, 3), isr, elr, last_known, leader, alive.__contains__, elr_enabled
    )
    return elect(candidates, election)


def test_a_leader_that_may_lead_goes_on_leading() -> None:
    assert elected({1, 2, 3}, leader=3) == Elected(3)


def test_the_first_replica_in_sync_and_alive_leads_when_the_leader_may_not() -> None:
    assert elected({2, 3}, leader=1) == Elected(2)
    assert elected({1, 2, 3}, isr=(3, 2), leader=NO_LEADER) == Elected(2)


def test_a_preferred_election_moves_to_the_first_replica_if_it_may_lead() -> None:
    assert elected({1, 2, 3}, leader=3, election=Election.PREFERRED) == Elected(1)
    assert elected({2, 3}, leader=3, election=Election.PREFERRED) == Elected(3)
    assert elected({2}, leader=3, election=Election.PREFERRED) == Elected(2)


def test_nobody_leads_when_nobody_in_sync_is_alive() -> None:
    assert elected({3}, isr=(1, 2)) == Elected(NO_LEADER)


def test_an_eligible_leader_replica_leads_cleanly() -> None:
    assert elected({3}, isr=(), elr=(3,)) == Elected(3)
    assert elected({3}, isr=(), elr=(3,), elr_enabled=False) == Elected(3), "still eligible"
    assert elected({3}, isr=(1,), elr=(3,)) == Elected(NO_LEADER), "the ISR may come back"


def test_the_last_known_leader_comes_back_when_nobody_else_is_left() -> None:
    assert elected({2}, isr=(), last_known=(2,)) == Elected(2, unclean=True)
    assert elected({3}, isr=(), last_known=(2,)) == Elected(NO_LEADER)
    assert elected({2}, isr=(1,), last_known=(2,)) == Elected(NO_LEADER), "the ISR may come back"
    assert elected({2}, isr=(), elr=(3,), last_known=(2,)) == Elected(NO_LEADER)
    assert elected({2}, isr=(), last_known=(2, 3)) == Elected(NO_LEADER)
    assert elected({2}, isr=(), last_known=(2,), elr_enabled=False) == Elected(NO_LEADER)


@pytest.mark.parametrize("election", [Election.ONLINE, Election.PREFERRED])
def test_a_replica_that_is_not_in_sync_leads_only_where_that_is_allowed(election: Election) -> None:
    assert elected({3}, isr=(1,), election=Election.UNCLEAN) == Elected(3, unclean=True)
    assert elected({3}, isr=(1,), election=election) == Elected(NO_LEADER)
    assert elected(set(), isr=(1,), election=Election.UNCLEAN) == Elected(NO_LEADER)
