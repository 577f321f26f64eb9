"""AlterPartition, ElectLeaders, AssignReplicasToDirs, CreatePartitions, reassignments."""

import pytest
from tests.controller.machines import Controller, directory_of, error

from ottla.common.errors import InvalidRequest, PolicyViolation, StaleBrokerEpoch
from ottla.controller import partition_counts
from ottla.controller.assignments import place
from ottla.controller.state import ControllerState
from ottla.metadata.topics import NO_LEADER, RECOVERED, RECOVERING
from ottla.protocol.generated import alter_partition as ap
from ottla.protocol.generated import alter_partition_reassignments as apr
from ottla.protocol.generated import assign_replicas_to_dirs as ard
from ottla.protocol.generated import create_partitions as cp
from ottla.protocol.generated import elect_leaders as el
from ottla.protocol.generated import list_partition_reassignments as lpr
from ottla.protocol.generated.metadata_records import PartitionChangeRecord


def alter(
    controller: Controller,
    isr: list[int],
    *,
    broker_id: int | None = None,
    leader_epoch: int | None = None,
    partition_epoch: int | None = None,
    recovery_state: int = RECOVERED,
    member_epochs: dict[int, int] | None = None,
    with_epochs: bool = True,
    topic_id: bytes | None = None,
    partition_id: int = 0,
) -> ap.AlterPartitionResponsePartitionData:
    partition = controller.partition()
    broker_id = partition.leader if broker_id is None else broker_id
    epochs = {member: controller.epochs.get(member, -1) for member in isr} | (member_epochs or {})
    members = [ap.BrokerState(broker_id=member, broker_epoch=epochs[member]) for member in isr]
    proposal = ap.AlterPartitionRequestPartitionData(
        partition_index=partition_id,
        leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
        new_isr=[] if with_epochs else isr,
        new_isr_with_epochs=members if with_epochs else [],
        leader_recovery_state=recovery_state,
        partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
    )
    topic_id = topic_id or controller.image.topics.by_name["t"].topic_id
    request = ap.AlterPartitionRequest(
        broker_id=broker_id,
        broker_epoch=controller.epochs[broker_id],
        topics=[ap.AlterPartitionRequestTopicData(topic_id=topic_id, partitions=[proposal])],
    )
    response = controller.apply(controller.machine.partitions.alter_partition(request))
    return response.topics[0].partitions[0]


def code(result: ap.AlterPartitionResponsePartitionData) -> str:
    return error(result.error_code, None)[0]


@pytest.fixture
def controller() -> Controller:
    controller = Controller(brokers=3)
    controller.create(assignments=[[1, 2, 3]])
    return controller


@pytest.mark.parametrize("with_epochs", [True, False])
def test_a_leader_shrinks_and_grows_its_isr(controller: Controller, with_epochs: bool) -> None:
    result = alter(controller, [1, 3], with_epochs=with_epochs)
    assert (code(result), result.isr, result.partition_epoch) == ("NONE", [1, 3], 1)
    assert (result.leader_id, result.leader_epoch) == (1, 0)
    assert controller.partition().isr == (1, 3)
    assert alter(controller, [1, 3, 2], with_epochs=with_epochs).partition_epoch == 2
    before = len(controller.records)
    assert alter(controller, [1, 3, 2], with_epochs=with_epochs).partition_epoch == 2
    assert len(controller.records) == before, "what is so already is no record"


def test_a_proposal_that_does_not_fit_is_refused(controller: Controller) -> None:
    alter(controller, [1, 2])
    assert code(alter(controller, [1], leader_epoch=1)) == "NOT_CONTROLLER"
    assert code(alter(controller, [1], partition_epoch=2)) == "NOT_CONTROLLER"
    assert code(alter(controller, [1], leader_epoch=-1)) == "FENCED_LEADER_EPOCH"
    assert code(alter(controller, [1], partition_epoch=0)) == "INVALID_UPDATE_VERSION"
    assert code(alter(controller, [2], broker_id=2)) == "INVALID_REQUEST"
    assert code(alter(controller, [1, 1])) == "INVALID_REQUEST"
    assert code(alter(controller, [1, 9])) == "INVALID_REQUEST"
    assert code(alter(controller, [2])) == "INVALID_REQUEST"
    assert code(alter(controller, [1], recovery_state=RECOVERING)) == "INVALID_REQUEST"
    assert code(alter(controller, [1], partition_id=7)) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert code(alter(controller, [1], topic_id=b"0" * 16)) == "UNKNOWN_TOPIC_ID"
    assert controller.partition().isr == (1, 2)


def test_replicas_that_are_not_there_to_lead_do_not_come_into_the_isr(
    controller: Controller,
) -> None:
    alter(controller, [1])
    assert code(alter(controller, [1, 2], member_epochs={2: 1})) == "INELIGIBLE_REPLICA"
    controller.heartbeat(2, want_fence=True)
    assert code(alter(controller, [1, 2])) == "INELIGIBLE_REPLICA"
    controller.heartbeat(2)
    assert code(alter(controller, [1, 2], member_epochs={2: -1})) == "NONE"


def test_a_replica_that_shuts_down_does_not_come_into_the_isr(controller: Controller) -> None:
    controller.create("led-by-two", assignments=[[2, 1]])
    alter(controller, [1])
    controller.heartbeat(2, want_shut_down=True)
    broker = controller.image.brokers[2]
    assert broker.in_controlled_shutdown
    assert not broker.fenced, "what else would refuse it is not so"
    assert code(alter(controller, [1, 2])) == "INELIGIBLE_REPLICA"
    assert code(alter(controller, [1, 2], member_epochs={2: -1})) == "INELIGIBLE_REPLICA"
    assert controller.partition().isr == (1,)


def test_a_replica_that_was_restarted_comes_into_the_isr_only_in_its_new_life(
    controller: Controller,
) -> None:
    alter(controller, [1])
    before = controller.epochs[2]
    controller.heartbeat(2, want_shut_down=True)
    controller.start_broker(2, before)
    assert code(alter(controller, [1, 2], member_epochs={2: before})) == "INELIGIBLE_REPLICA"
    assert code(alter(controller, [1, 2])) == "NONE"


def test_a_proposal_of_another_life_is_refused(controller: Controller) -> None:
    controller.epochs[1] -= 1
    with pytest.raises(StaleBrokerEpoch):
        alter(controller, [1])


def test_a_leader_that_recovered_says_so() -> None:
    controller = Controller(brokers=1)
    controller.create()
    controller.machine.activate([], 0.0)
    controller.start_broker(1)
    assert controller.partition().leader_recovery_state == RECOVERING
    result = alter(controller, [1], recovery_state=RECOVERED)
    assert (code(result), result.leader_recovery_state) == ("NONE", RECOVERED)
    assert controller.partition().leader_recovery_state == RECOVERED


# ElectLeaders


def elect(
    controller: Controller, election_type: int, *wanted: tuple[str, int]
) -> list[tuple[str, int, str, str | None]]:
    request = el.ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=[el.TopicPartitions(topic=t, partitions=[p]) for t, p in wanted] or None,
    )
    response = controller.apply(controller.machine.partitions.elect_leaders(request))
    return [
        (topic.topic, each.partition_id, *error(each.error_code, each.error_message))
        for topic in response.replica_election_results
        for each in topic.partition_result
    ]


def test_leadership_goes_back_to_the_preferred_replica(controller: Controller) -> None:
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(1)
    assert controller.partition().leader == 2
    assert elect(controller, 0, ("t", 0)) == [
        (
            "t",
            0,
            "PREFERRED_LEADER_NOT_AVAILABLE",
            "The preferred leader was not available.",
        )
    ]
    alter(controller, [2, 3, 1])
    assert elect(controller, 0) == [("t", 0, "NONE", None)]
    assert controller.partition().leader == 1
    assert controller.partition().leader_epoch == 2


def test_elections_that_cannot_be_are_refused(controller: Controller) -> None:
    assert elect(controller, 0, ("t", 0), ("t", 9), ("nope", 0)) == [
        ("t", 0, "ELECTION_NOT_NEEDED", "Leader election not needed for topic partition."),
        ("t", 9, "UNKNOWN_TOPIC_OR_PARTITION", "No such partition as t-9"),
        ("nope", 0, "UNKNOWN_TOPIC_OR_PARTITION", "No such topic as nope"),
    ]
    assert elect(controller, 0) == [], "of all partitions, those that need none are not listed"
    with pytest.raises(InvalidRequest, match="Unknown election type 7"):
        elect(controller, 7, ("t", 0))


def test_an_unclean_election_on_request_takes_any_replica_that_lives() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]])
    alter(controller, [1])
    controller.heartbeat(1, want_fence=True)
    assert controller.partition().leader == NO_LEADER
    assert elect(controller, 1, ("t", 0)) == [("t", 0, "NONE", None)]
    partition = controller.partition()
    assert (partition.leader, partition.isr) == (2, (2,))
    assert partition.leader_recovery_state == RECOVERING
    assert elect(controller, 1, ("t", 0))[0][2] == "ELECTION_NOT_NEEDED"


def test_unclean_leaders_are_elected_unasked_where_the_topic_allows_it() -> None:
    controller = Controller(brokers=2)
    for name, allowed in (("t", "true"), ("other", "false")):
        configs: dict[str, str | None] = {"unclean.leader.election.enable": allowed}
        controller.create(name, assignments=[[1, 2]], configs=configs)
    alter(controller, [1])
    controller.heartbeat(1, want_fence=True)
    assert controller.partition().leader == 2, "at once, when the broker went"
    assert controller.machine.partitions.unclean_elections(100) == []


def test_preferred_leaders_are_elected_unasked_a_few_at_a_time() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1, 2]] * 5)
    controller.heartbeat(1, want_fence=True)
    controller.heartbeat(1)
    changes = [
        PartitionChangeRecord(
            partition_id=partition_id,
            topic_id=controller.image.topics.by_name["t"].topic_id,
            isr=[2, 1],
        )
        for partition_id in range(5)
    ]
    controller.machine.replay(
        list(changes), base_offset=len(controller.records), epoch=1, timestamp_ms=0
    )
    assert len(controller.machine.partitions.preferred_elections(3)) == 3
    assert len(controller.machine.partitions.preferred_elections(100)) == 5


# AssignReplicasToDirs


def assign(controller: Controller, directory: bytes, topic_id: bytes, partition: int) -> str:
    topic = ard.AssignReplicasToDirsRequestTopicData(
        topic_id=topic_id,
        partitions=[ard.AssignReplicasToDirsRequestPartitionData(partition_index=partition)],
    )
    request = ard.AssignReplicasToDirsRequest(
        broker_id=2,
        broker_epoch=controller.epochs[2],
        directories=[ard.AssignReplicasToDirsRequestDirectoryData(id=directory, topics=[topic])],
    )
    response = controller.apply(controller.machine.partitions.assign_replicas_to_dirs(request))
    (result,) = response.directories[0].topics[0].partitions
    return error(result.error_code, None)[0]


def test_a_broker_tells_where_its_replicas_are(controller: Controller) -> None:
    topic_id = controller.image.topics.by_name["t"].topic_id
    assert controller.partition().directory_of(2) == directory_of(2)
    unknown = bytes(15) + b"\x01"
    assert assign(controller, unknown, topic_id, 0) == "NONE"
    assert controller.partition().directory_of(2) == unknown
    assert assign(controller, directory_of(2), topic_id, 0) == "NONE"
    assert controller.partition().directory_of(2) == directory_of(2)
    assert assign(controller, directory_of(2), topic_id, 9) == "UNKNOWN_TOPIC_OR_PARTITION"
    assert assign(controller, directory_of(2), b"0" * 16, 0) == "UNKNOWN_TOPIC_ID"


def test_a_replica_in_a_lost_directory_is_out_of_sync(controller: Controller) -> None:
    topic_id = controller.image.topics.by_name["t"].topic_id
    assert assign(controller, bytes(15) + b"\x02", topic_id, 0) == "NONE"
    assert controller.partition().isr == (1, 3)


# CreatePartitions


def more(
    controller: Controller, name: str, count: int, assignments: list[list[int]] | None = None
) -> tuple[str, str | None]:
    wanted = cp.CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None
        if assignments is None
        else [cp.CreatePartitionsAssignment(broker_ids=each) for each in assignments],
    )
    request = cp.CreatePartitionsRequest(topics=[wanted])
    (result,) = controller.apply(
        controller.machine.partition_counts.create_partitions(request)
    ).results
    return error(result.error_code, result.error_message)


def test_a_topic_gets_more_partitions_with_as_many_replicas(controller: Controller) -> None:
    assert more(controller, "t", 3) == ("NONE", None)
    partitions = controller.image.topics.by_name["t"].partitions
    assert sorted(partitions) == [0, 1, 2]
    assert {len(partition.replicas) for partition in partitions.values()} == {3}
    assert more(controller, "t", 4, [[3, 2, 1]]) == ("NONE", None)
    assert controller.partition("t", 3).replicas == (3, 2, 1)


def test_the_metadata_of_the_tier_is_not_spread_anew(controller: Controller) -> None:
    """What is in the remote store is looked for in a partition that their number leads to."""
    name = "__remote_log_metadata"
    controller.create(name, assignments=[[1, 2, 3]])
    code, message = more(controller, name, 2)
    assert code == "INVALID_PARTITIONS"
    assert message is not None
    assert name in message
    assert len(controller.image.topics.by_name[name].partitions) == 1


def test_how_many_is_bounded_before_anything_is_placed(controller: Controller) -> None:
    """The number came over the wire: to place two thousand million replicas takes all memory."""
    reason = "Excessively large number of partitions per request."
    assert more(controller, "t", 2**31 - 1) == ("POLICY_VIOLATION", reason)
    assert len(controller.image.topics.by_name["t"].partitions) == 1


@pytest.mark.parametrize("validate_only", [False, True])
def test_how_many_of_all_topics_together_is_bounded_before_anything_is_placed(
    controller: Controller, validate_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred topics of ten thousand each took 13 seconds and 600 MB, and were refused then."""
    names = [f"t-{number}" for number in range(3)]
    for name in names:
        controller.create(name)

    def request(count: int) -> cp.CreatePartitionsRequest:
        topics = [
            cp.CreatePartitionsTopic(name=name, count=count, assignments=None) for name in names
        ]
        return cp.CreatePartitionsRequest(topics=topics, validate_only=validate_only)

    placed: list[int] = []

    def noting(state: ControllerState, *, partitions: int, replication_factor: int) -> object:
        placed.append(partitions)
        return place(state, partitions=partitions, replication_factor=replication_factor)

    monkeypatch.setattr(partition_counts, "place", noting)
    with pytest.raises(PolicyViolation, match="excessively large batch"):
        controller.machine.partition_counts.create_partitions(request(3_336))
    assert placed == []
    result = controller.machine.partition_counts.create_partitions(request(3_334))
    assert placed == [3_333] * 3
    assert len(result.records) == (0 if validate_only else 9_999)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "expected"),
    [
        ("nope", 9, None, ("UNKNOWN_TOPIC_OR_PARTITION", None)),
        ("t", 1, None, ("INVALID_PARTITIONS", "Topic already has 1 partition(s).")),
        (
            "t",
            0,
            None,
            (
                "INVALID_PARTITIONS",
                "The topic t currently has 1 partition(s); 0 would not be an increase.",
            ),
        ),
        (
            "t",
            3,
            [[1, 2, 3]],
            (
                "INVALID_REPLICA_ASSIGNMENT",
                ("Attempted to add 2 additional partition(s), but only 1 assignment(s) were "
                "specified."),
            ),
        ),
        (
            "t",
            2,
            [[9, 1, 2]],
            (
                "INVALID_REPLICA_ASSIGNMENT",
                ("The manual partition assignment includes broker 9, but no such broker is "
                "registered."),
            ),
        ),
    ],
)  # fmt: skip
def test_partitions_that_cannot_be_added_are_refused(
    controller: Controller,
    name: str,
    count: int,
    assignments: list[list[int]] | None,
    expected: tuple[str, str | None],
) -> None:
    assert more(controller, name, count, assignments) == expected


def test_a_topic_named_twice_gets_no_partitions(controller: Controller) -> None:
    wanted = cp.CreatePartitionsTopic(name="t", count=5, assignments=None)
    request = cp.CreatePartitionsRequest(topics=[wanted, wanted])
    result = controller.machine.partition_counts.create_partitions(request)
    assert [each.error_message for each in result.response.results] == ["Duplicate topic name."]
    assert result.records == []


# Reassignments


def reassign(
    controller: Controller,
    replicas: list[int] | None,
    name: str = "t",
    partition_id: int = 0,
    *,
    may_change_factor: bool = True,
) -> tuple[str, str | None]:
    wanted = apr.ReassignablePartition(partition_index=partition_id, replicas=replicas)
    request = apr.AlterPartitionReassignmentsRequest(
        allow_replication_factor_change=may_change_factor,
        topics=[apr.ReassignableTopic(name=name, partitions=[wanted])],
    )
    response = controller.apply(controller.machine.reassignments.alter_reassignments(request))
    result = response.responses[0].partitions[0]
    return error(result.error_code, result.error_message)


def moving(
    controller: Controller, topics: list[str] | None = None
) -> list[lpr.OngoingTopicReassignment]:
    request = lpr.ListPartitionReassignmentsRequest(
        topics=None
        if topics is None
        else [
            lpr.ListPartitionReassignmentsTopics(name=name, partition_indexes=[0, 9])
            for name in topics
        ]
    )
    return controller.machine.reassignments.list_reassignments(request).response.topics


@pytest.mark.parametrize("in_two_lists", [False, True])
def test_a_partition_that_is_named_twice_is_not_moved(
    controller: Controller, in_two_lists: bool
) -> None:
    """Each was decided as if it were alone: it was adding replicas that it did not have."""
    for broker_id in (4, 5, 6):
        controller.start_broker(broker_id)
    before = controller.partition()
    wanted = [
        apr.ReassignablePartition(partition_index=0, replicas=replicas)
        for replicas in ([4, 5, 6], list(reversed(before.replicas)))
    ]
    lists = [[each] for each in wanted] if in_two_lists else [wanted]
    request = apr.AlterPartitionReassignmentsRequest(
        topics=[apr.ReassignableTopic(name="t", partitions=each) for each in lists]
    )
    response = controller.apply(controller.machine.reassignments.alter_reassignments(request))
    answers = [each for topic in response.responses for each in topic.partitions]
    assert {error(each.error_code, each.error_message) for each in answers} == {
        ("INVALID_REQUEST", "Duplicate partition t-0.")
    }
    assert controller.partition() == before


def test_a_partition_moves_when_its_new_replicas_are_in_sync() -> None:
    controller = Controller(brokers=3)
    controller.create(assignments=[[1, 2]])
    assert reassign(controller, [2, 3]) == ("NONE", None)
    partition = controller.partition()
    assert partition.replicas == (2, 3, 1)
    assert (partition.adding_replicas, partition.removing_replicas) == ((3,), (1,))
    assert moving(controller) == moving(controller, ["t", "nope"])
    assert moving(controller)[0].partitions[0].adding_replicas == [3]
    result = alter(controller, [1, 2, 3])
    assert code(result) == "NEW_LEADER_ELECTED"
    partition = controller.partition()
    assert (partition.replicas, partition.isr, partition.leader) == ((2, 3), (2, 3), 2)
    assert moving(controller) == []


def test_a_move_can_be_undone() -> None:
    controller = Controller(brokers=3)
    controller.create(assignments=[[1, 2]])
    reassign(controller, [3])
    assert reassign(controller, None) == ("NONE", None)
    partition = controller.partition()
    assert (partition.replicas, partition.isr) == ((1, 2), (1, 2))
    assert not partition.is_reassigning
    assert reassign(controller, None) == ("NO_REASSIGNMENT_IN_PROGRESS", None)


def test_a_move_can_be_turned_round() -> None:
    controller = Controller(brokers=4)
    controller.create(assignments=[[1, 2, 3]])
    reassign(controller, [1, 2, 4])
    assert reassign(controller, [1, 2, 3]) == ("NONE", None)
    partition = controller.partition()
    assert (partition.replicas, partition.is_reassigning) == ((1, 2, 3), False)


def test_a_move_can_be_given_another_goal() -> None:
    controller = Controller(brokers=5)
    controller.create(assignments=[[1, 2, 3]])
    reassign(controller, [1, 2, 4])
    reassign(controller, [5, 1, 2])
    partition = controller.partition()
    assert partition.replicas == (5, 1, 2, 3, 4), "what was being added is to be removed"
    assert (partition.adding_replicas, partition.removing_replicas) == ((5,), (3, 4))
    alter(controller, [1, 2, 3, 5])
    assert controller.partition().replicas == (5, 1, 2)
    assert set(controller.partition().isr) == {1, 2, 5}


def test_fewer_replicas_are_enough_when_all_that_stay_are_in_sync() -> None:
    controller = Controller(brokers=3)
    controller.create(assignments=[[1, 2, 3]])
    alter(controller, [1, 3])
    reassign(controller, [1, 2])
    assert controller.partition().removing_replicas == (3,), "2 is not in sync yet"
    alter(controller, [1, 2, 3])
    assert controller.partition().replicas == (1, 2)


def test_the_number_of_replicas_is_that_without_those_that_go() -> None:
    controller = Controller(brokers=4)
    controller.create(assignments=[[1, 2]])
    reassign(controller, [1, 2, 3])
    assert reassign(controller, [1, 4], may_change_factor=False) == (
        "INVALID_REPLICATION_FACTOR",
        "The replication factor is changed from 3 to 2",
    )
    assert reassign(controller, [1, 2, 4], may_change_factor=False) == ("NONE", None)


def test_undoing_a_move_loses_nothing_unless_that_is_allowed() -> None:
    for allowed in ("false", "true"):
        controller = Controller(brokers=3)
        controller.create(assignments=[[1]], configs={"unclean.leader.election.enable": allowed})
        reassign(controller, [2, 3])
        alter(controller, [1, 2])
        controller.heartbeat(1, want_fence=True)
        assert controller.partition().leader == 2
        code_of, _ = reassign(controller, None)
        partition = controller.partition()
        if allowed == "false":
            assert code_of == "INVALID_REPLICA_ASSIGNMENT"
            assert (partition.leader, partition.is_reassigning) == (2, True)
        else:
            assert (code_of, partition.replicas, partition.leader) == ("NONE", (1,), NO_LEADER)


def test_a_broker_whose_directories_are_all_cordoned_gets_no_replica_by_hand() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1]])
    controller.heartbeat(2, cordoned=[directory_of(2)])
    assert reassign(controller, [2]) == (
        "INVALID_REPLICA_ASSIGNMENT",
        (
            "The manual partition assignment includes broker 2, but all its log directories are "
            "cordoned."
        ),
    )


def test_moves_that_cannot_be_are_refused() -> None:
    controller = Controller(brokers=2)
    controller.create(assignments=[[1]])
    assert reassign(controller, [1], "nope") == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "Unable to find a topic named nope.",
    )
    assert reassign(controller, [1], partition_id=9) == (
        "UNKNOWN_TOPIC_OR_PARTITION",
        "Unable to find partition t:9.",
    )
    assert reassign(controller, [])[0] == "INVALID_REPLICA_ASSIGNMENT"
    assert reassign(controller, [1, 2], may_change_factor=False) == (
        "INVALID_REPLICATION_FACTOR",
        "The replication factor is changed from 1 to 2",
    )
    assert reassign(controller, [1]) == ("NONE", None), "where it is, it may stay"
