"""Brokers register, are unfenced, fall silent, stop and come back.

The records of a single broker's stop, kill and return are those that Apache Kafka 4.3.1 wrote.
"""

from typing import Any

import pytest
from tests.controller.machines import Controller, directory_of

from ottla.common.errors import (
    ApiError,
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    StaleBrokerEpoch,
    UnsupportedVersion,
)
from ottla.controller.result import RECORDS_MAX, ControllerResult
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topics import NO_LEADER
from ottla.protocol.generated import metadata_records as r
from ottla.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    Listener,
)
from ottla.protocol.generated.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest

SESSION_SECONDS = 9.0


def change(controller: Controller, broker_id: int = 1, **fields: Any) -> MetadataRecord:
    return r.BrokerRegistrationChangeRecord(
        broker_id=broker_id, broker_epoch=controller.epochs[broker_id], **fields
    )


def partition_change(controller: Controller, **fields: Any) -> MetadataRecord:
    topic_id = controller.image.topics.by_name["t"].topic_id
    return r.PartitionChangeRecord(partition_id=0, topic_id=topic_id, **fields)


def fenced(controller: Controller) -> list[int]:
    return [broker.node_id for broker in controller.image.brokers.values() if broker.fenced]


def test_a_broker_registers_fenced_and_its_epoch_is_the_offset() -> None:
    controller = Controller()
    offset = len(controller.records)
    assert controller.register(controller.registration(1)) == offset
    broker = controller.image.brokers[1]
    assert broker.fenced
    assert broker.epoch == offset
    assert broker.log_dirs == (directory_of(1),)


def test_a_broker_is_unfenced_when_it_has_read_its_own_registration() -> None:
    controller = Controller()
    epoch = controller.register(controller.registration(1))
    behind = controller.heartbeat(1, offset=epoch - 1)
    assert (behind.is_caught_up, behind.is_fenced) == (False, True)
    unwilling = controller.heartbeat(1, want_fence=True)
    assert (unwilling.is_caught_up, unwilling.is_fenced) == (True, True)
    assert not controller.heartbeat(1).is_fenced
    assert controller.records[-1] == change(controller, fenced=-1)
    before = len(controller.records)
    assert not controller.heartbeat(1).is_fenced
    assert len(controller.records) == before


def test_cordoned_directories_are_written_once() -> None:
    controller = Controller(brokers=1)
    controller.heartbeat(1, cordoned=[])
    assert controller.records[-1] == change(controller, cordoned_log_dirs=[])
    before = len(controller.records)
    controller.heartbeat(1, cordoned=[])
    assert len(controller.records) == before
    controller.heartbeat(1, cordoned=[directory_of(1)])
    assert not controller.image.brokers[1].can_take_replicas
    assert controller.create().error_code == 38


def test_a_broker_that_leads_stops_in_two_steps() -> None:
    controller = Controller(brokers=1)
    controller.create()
    before = len(controller.records)
    first = controller.heartbeat(1, want_shut_down=True)
    assert (first.is_fenced, first.should_shut_down) == (False, False)
    assert controller.records[before:] == [
        change(controller, in_controlled_shutdown=1),
        partition_change(
            controller, isr=[], leader=-1, eligible_leader_replicas=[1], last_known_elr=[1]
        ),
    ]
    second = controller.heartbeat(1, want_shut_down=True)
    assert second.should_shut_down
    assert controller.records[-1] == change(controller, fenced=1)


def test_a_stopping_broker_waits_until_the_others_have_heard_of_it() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]])
    controller.heartbeat(2, offset=0)
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    assert controller.partition().leader == 2
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    controller.heartbeat(2)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_stopping_broker_does_not_wait_for_one_that_is_fenced() -> None:
    controller = Controller(brokers=2)
    controller.register(controller.registration(3))
    controller.heartbeat(3, offset=0)  # far behind, and not unfenced
    controller.create(assignments=[[1, 2]])
    assert not controller.heartbeat(1, want_shut_down=True).should_shut_down
    controller.heartbeat(2)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down


def test_a_broker_that_was_told_to_stop_may_come_back_at_once() -> None:
    controller = Controller(brokers=2)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    controller.start_broker(1, controller.epochs[1])


def test_a_stopping_broker_gets_no_new_replicas() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]])
    controller.heartbeat(1, want_shut_down=True)
    assert controller.create("u", 8, 1).error_code == 0
    assert {p.replicas for p in controller.image.topics.by_name["u"].partitions.values()} == {(2,)}


def test_a_forgotten_broker_that_comes_back_is_not_eligible() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]], configs={"min.insync.replicas": "2"})
    controller.heartbeat(2, want_fence=True)
    assert controller.partition().elr == (2,)
    request = UnregisterBrokerRequest(broker_id=2)
    controller.apply(controller.machine.brokers.unregister_broker(request))
    controller.start_broker(2, controller.epochs[2])
    assert controller.partition().elr == (), "nobody knows any more how it ended"


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    controller = Controller(brokers=1)
    response = controller.heartbeat(1, want_shut_down=True)
    assert (response.is_fenced, response.should_shut_down) == (True, True)
    again = controller.heartbeat(1, want_shut_down=True)
    assert again.should_shut_down, "a fenced broker may go whenever it likes"


def test_a_broker_that_stopped_cleanly_leads_again_with_all_its_records() -> None:
    controller = Controller(brokers=1)
    controller.create()
    for _ in range(2):
        controller.heartbeat(1, want_shut_down=True)
    before = len(controller.records)
    controller.start_broker(1, previous_epoch=controller.epochs[1])
    assert controller.records[before + 1 :] == [
        change(controller, fenced=-1),
        partition_change(
            controller, isr=[1], leader=1, eligible_leader_replicas=[], last_known_elr=[]
        ),
    ]


def test_a_broker_that_was_killed_leads_again_recovering() -> None:
    controller = Controller(brokers=1)
    controller.create()
    controller.machine.activate([], 0.0)  # the process begins again, and forgets the session
    before = len(controller.records)
    controller.start_broker(1)
    assert controller.records[before] == partition_change(
        controller, isr=[], leader=-1, last_known_elr=[1]
    )
    registered = controller.records[before + 1]
    assert isinstance(registered, r.RegisterBrokerRecord)
    assert registered.broker_epoch == before + 1  # its own offset
    assert controller.records[-1] == partition_change(
        controller, isr=[1], leader=1, leader_recovery_state=1, last_known_elr=[]
    )


def test_a_broker_that_falls_silent_is_fenced_and_its_leaderships_go() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]])
    controller.now = SESSION_SECONDS - 0.1
    controller.heartbeat(2)
    controller.expire()
    assert fenced(controller) == []
    controller.now = SESSION_SECONDS
    controller.expire()
    assert fenced(controller) == [1]
    assert (controller.partition().leader, controller.partition().isr) == (2, (2,))
    assert controller.records[-1] == change(controller, fenced=1)
    before = len(controller.records)
    controller.expire()
    assert len(controller.records) == before


def test_a_second_life_must_wait_for_the_session_of_the_first() -> None:
    controller = Controller(brokers=2)
    with pytest.raises(DuplicateBrokerRegistration, match="self-resolve"):
        controller.register(controller.registration(2))
    controller.now += SESSION_SECONDS
    controller.register(controller.registration(2))


def test_the_same_life_may_register_again_and_stays_what_it_was() -> None:
    controller = Controller()
    request = controller.registration(1)
    epoch = controller.register(request)
    controller.heartbeat(1)
    request.rack = "new"
    assert controller.register(request) == epoch
    broker = controller.image.brokers[1]
    assert (broker.rack, broker.fenced, broker.epoch) == ("new", False, epoch)


def test_a_stopping_broker_may_be_replaced_at_once() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[2, 1]])
    controller.heartbeat(2, want_shut_down=True)
    controller.register(controller.registration(2, controller.epochs[2]))
    assert not controller.image.brokers[2].in_controlled_shutdown


def registration(**fields: object) -> tuple[dict[str, object], type[ApiError], str]:
    refusal = fields.pop("refused")
    message = fields.pop("message")
    assert isinstance(refusal, type)
    return fields, refusal, str(message)


@pytest.mark.parametrize(
    ("fields", "refused", "message"),
    [
        registration(
            cluster_id="other", refused=InconsistentClusterId, message="but got cluster ID other"
        ),
        registration(log_dirs=[], refused=InvalidRegistration, message="No directories"),
        registration(
            log_dirs=[bytes(16)], refused=InvalidRegistration, message="Reserved directory ID"
        ),
        registration(
            log_dirs=[directory_of(3)] * 2, refused=InvalidRegistration, message="Duplicate"
        ),
        registration(
            log_dirs=[directory_of(1)],
            refused=InvalidRegistration,
            message="Broker 1 is already registered with directory",
        ),
        registration(
            features=[],
            refused=InvalidRegistration,
            message="Request features do not contain 'metadata.version'",
        ),
        registration(
            is_migrating_zk_broker=True, refused=UnsupportedVersion, message="registering ZK"
        ),
    ],
)
def test_a_registration_that_does_not_fit_is_refused(
    fields: dict[str, object], refused: type[ApiError], message: str
) -> None:
    controller = Controller(brokers=1)
    request = controller.registration(3)
    for name, value in fields.items():
        setattr(request, name, value)
    with pytest.raises(refused, match=message):
        controller.register(request)


def test_a_broker_must_support_what_the_cluster_uses() -> None:
    controller = Controller()
    request = controller.registration(1)
    for feature in request.features:
        if feature.name == "metadata.version":
            feature.max_supported_version = 29
    with pytest.raises(UnsupportedVersion, match=r"finalized version 30 of metadata\.version"):
        controller.register(request)


def test_a_heartbeat_of_another_life_is_refused() -> None:
    controller = Controller(brokers=1)
    controller.epochs[1] += 1
    with pytest.raises(StaleBrokerEpoch):
        controller.heartbeat(1)


DIRECTORIES = [b"first directory.", b"second directory"]


def with_two_directories() -> Controller:
    """Broker 1 has the first replica of a topic in the first of its two directories."""
    controller = Controller()
    request = controller.registration(1)
    request.log_dirs = list(DIRECTORIES)
    controller.register(request)
    controller.heartbeat(1)
    controller.start_broker(2)
    controller.create(assignments=[[1, 2]])
    topic_id = controller.image.topics.by_name["t"].topic_id
    placed = r.PartitionChangeRecord(
        partition_id=0, topic_id=topic_id, directories=[DIRECTORIES[0], directory_of(2)]
    )
    controller.apply(ControllerResult(None, [placed]))
    return controller


def test_a_directory_that_fails_takes_its_replicas_out_of_sync() -> None:
    controller = with_two_directories()
    controller.heartbeat(1, offline=DIRECTORIES[:1])
    assert controller.image.brokers[1].log_dirs == (b"second directory",)
    assert (controller.partition().leader, controller.partition().isr) == (2, (2,))
    before = len(controller.records)
    controller.heartbeat(1, offline=DIRECTORIES[:1])
    assert len(controller.records) == before


def test_a_directory_that_fails_while_its_broker_starts_leads_nothing() -> None:
    controller = with_two_directories()
    controller.heartbeat(2, want_shut_down=True)
    controller.heartbeat(1, want_shut_down=True)
    assert controller.heartbeat(1, want_shut_down=True).should_shut_down
    request = controller.registration(1, controller.epochs[1])
    request.log_dirs = list(DIRECTORIES)
    controller.register(request)
    assert controller.heartbeat(1, offline=DIRECTORIES[:1]).is_fenced
    assert not controller.heartbeat(1, offline=DIRECTORIES[:1]).is_fenced
    assert controller.partition().leader == NO_LEADER


def test_a_broker_with_very_many_partitions_is_unregistered_too() -> None:
    """As it would be fenced: a bound on what one request writes left such brokers in the log."""
    controller = Controller(brokers=2)
    many = [[1, 2]] * (RECORDS_MAX // 2)
    for name in ("a", "b", "c"):
        assignments = [
            CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
            for index, replicas in enumerate(many)
        ]
        topic = CreatableTopic(
            name=name, num_partitions=-1, replication_factor=-1, assignments=assignments[:-1]
        )
        request = CreateTopicsRequest(topics=[topic])
        created = controller.apply(controller.machine.topics.create_topics(request))
        assert created.topics[0].error_code == 0
    unregister = UnregisterBrokerRequest(broker_id=1)
    controller.apply(controller.machine.brokers.unregister_broker(unregister))
    assert set(controller.image.brokers) == {2}
    assert controller.partition("c", 0).isr == (2,)


def test_a_broker_is_unregistered() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]])
    request = UnregisterBrokerRequest(broker_id=1)
    controller.apply(controller.machine.brokers.unregister_broker(request))
    assert set(controller.image.brokers) == {2}
    assert controller.partition().leader == 2
    with pytest.raises(BrokerIdNotRegistered, match="Broker ID 1 is not currently registered"):
        controller.machine.brokers.unregister_broker(request)


def test_a_controller_registers() -> None:
    controller = Controller()
    request = ControllerRegistrationRequest(
        controller_id=5,
        incarnation_id=b"0123456789abcdef",
        listeners=[Listener(name="CONTROLLER", host="localhost", port=9093)],
    )
    controller.apply(controller.machine.brokers.register_controller(request))
    assert controller.image.controllers[5].listeners["CONTROLLER"].port == 9093


def test_a_new_controller_gives_every_broker_a_session() -> None:
    controller = Controller(brokers=3)
    heartbeats = controller.machine.state.heartbeats
    heartbeats.clear()
    controller.machine.activate([], 100.0)
    assert heartbeats.session(1) is None, "the broker of this process ended with the process"
    assert heartbeats.has_valid_session(2, controller.epochs[2], 100.0)


def test_a_former_controller_has_half_a_session_left_however_long_it_was_silent() -> None:
    """There may have been no quorum for as long; a broker that lives has the time to say so."""
    controller = Controller(brokers=3)
    heartbeats = controller.machine.state.heartbeats
    heard = {2: 99.0, 3: 1.0}  # the session is 9 s
    controller.machine.activate([], 100.0, heard)
    assert heartbeats.expired(104.4) == []
    assert heartbeats.expired(104.6) == [3]
    assert heartbeats.expired(107.9) == [3], "since its last answer"
    assert heartbeats.expired(108.1) == [2, 3]
