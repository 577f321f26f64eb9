"""A follower begins behind what only the remote store has, with all that a leader must know."""

from contextlib import suppress

import pytest
from tests.storage import logs
from tests.tiered.test_manager import copied
from tests.tiered.tier import OWNER, Tier, tiered, value_of
from tests.turns import TURN

from ottla.common.chance import Chance
from ottla.common.promise import Promise, fulfilled
from ottla.storage.leader_epochs import EpochEnd, EpochEntry
from ottla.storage.log import Log
from ottla.storage.producer_snapshots import encode_snapshot
from ottla.storage.producer_state import ProducerEntry
from ottla.testing.files import PowerLost
from ottla.tiered.driver.follower_starts import LeaderLog

EPOCHS = [EpochEntry(0, 0), EpochEntry(3, 60)]
DIRECTORY = f"{logs.ROOT}/follower-0"


def end_of_epoch(tier: Tier, epoch: int) -> Promise[EpochEnd]:
    return fulfilled(TURN, tier.local.end_offset_for_epoch(epoch))


def leader_of(tier: Tier) -> LeaderLog:
    """The log of the tier as its followers see it."""
    local_start = tier.local.local_log_start_offset
    return LeaderLog(
        local_start,
        tier.local.epoch_for_offset(local_start),
        lambda epoch: end_of_epoch(tier, epoch),
    )


def led() -> Tier:
    """A log of several epochs, most of which is in the remote store only."""
    tier = copied()
    tier.local.begin_leader_epoch(3)
    tier.fill(40, epoch=3)
    tier.run(5)
    tier.delete_local()
    return tier


def follower(tier: Tier) -> Log:
    """Another replica, which has nothing yet, and is followed in place of the first."""
    other = logs.open_log(tier.files, tier.config, directory=DIRECTORY)
    tier.manager.follow(OWNER)
    tier.log = other
    return other


def start(tier: Tier, leader: LeaderLog) -> None:
    tier.manager.start_follower(OWNER, leader)
    tier.manager.start_follower(OWNER, leader)  # asked again before it is done
    tier.run(5)


def test_it_begins_behind_a_remote_segment_with_the_epochs_and_producers_before_it() -> None:
    tier = led()
    first, leader = tier.local, leader_of(tier)
    other = follower(tier)
    start(tier, leader)
    assert other.log_end_offset == other.high_watermark == leader.local_start
    assert other.log_start_offset == 0
    assert other.epochs.entries == [
        entry for entry in first.epochs.entries if entry.start_offset < leader.local_start
    ]
    assert EpochEntry(3, 60) in other.epochs.entries
    assert tier.read(0)[0].offset == 0


@pytest.mark.parametrize("changes", range(24))
def test_a_crash_leaves_all_of_it_or_a_log_that_still_has_to_begin_there(changes: int) -> None:
    files = logs.filesystem()
    log = logs.open_log(files, tiered())
    for number in range(40):
        logs.append(log, value_of(number))
    log.flush(logs.NOW)
    files.stop_after(changes)
    with suppress(PowerLost):
        log.start_behind_remote(90, EPOCHS, encode_snapshot([ProducerEntry(7)]), logs.NOW)
    survivors = [files.after_crash(Chance(seed)) for seed in range(3)]
    for disk in [files.after_kill(), files.after_crash(), *survivors]:
        again = logs.open_log(disk, tiered(), clean=False)
        if again.log_end_offset == 90:
            assert again.epochs.entries == EPOCHS
            assert list(again.producers.producers) == [7]
        else:
            assert again.log_end_offset <= 40


def test_without_the_segment_nothing_is_forgotten() -> None:
    tier = led()
    leader = leader_of(tier)._replace(epoch=9)
    other = follower(tier)
    logs.append(other, b"kept")
    start(tier, leader._replace(end_of_epoch=lambda _: fulfilled(TURN, EpochEnd(-1, -1))))
    assert (other.log_end_offset, other.epochs.latest_epoch) == (1, 0)


def test_who_leads_meanwhile_is_left_alone() -> None:
    tier = led()
    leader = leader_of(tier)
    other = follower(tier)
    tier.manager.start_follower(OWNER, leader)
    tier.manager.lead(OWNER)
    tier.run(0.1)
    assert other.log_end_offset == 0
