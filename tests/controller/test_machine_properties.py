"""A controller with up to five brokers that come and go, under any row of requests.

After each step: a second machine that replays the same records from bytes has an equal image; the
image's snapshot makes an equal image; every partition is as a partition must be; and no committed
record is lost by an election that was said to be clean. Whenever all brokers are back and have
caught up, no reassignment is left under way.
"""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.controller.machines import Controller, QuorumVersion
from tests.controller.replicas_model import ReplicasModel
from tests.metadata.samples import image_of

from ottla.common.errors import DuplicateBrokerRegistration, ErrorCode, StaleBrokerEpoch
from ottla.common.identifiers import LOST_DIRECTORY
from ottla.controller.partition_index import PartitionIndex
from ottla.controller.result import ControllerResult
from ottla.metadata.snapshot import image_to_records
from ottla.metadata.topics import NO_LEADER, RECOVERED, PartitionImage, TopicImage
from ottla.protocol.generated import alter_partition as ap
from ottla.protocol.generated import alter_partition_reassignments as apr
from ottla.protocol.generated import assign_replicas_to_dirs as ard
from ottla.protocol.generated import create_partitions as cp
from ottla.protocol.generated import elect_leaders as el
from ottla.protocol.generated import incremental_alter_configs as iac
from ottla.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.generated.broker_registration import BrokerRegistrationRequest
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.generated.update_features import FeatureUpdateKey, UpdateFeaturesRequest

BROKERS = (1, 2, 3, 4, 5)
ELR = "eligible.leader.replicas.version"
NAMES = ("a", "b.c", "b_c", "d", "bad name")
broker_ids = st.sampled_from(BROKERS)
names = st.sampled_from(NAMES)
replica_lists = st.lists(broker_ids, min_size=1, max_size=3, unique=True)
few_brokers = st.lists(broker_ids, max_size=5, unique=True)


class ControllerWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(brokers=4)
        self.controller.create(
            "a", assignments=[[1, 2, 3], [2, 3, 4]], configs={"min.insync.replicas": "2"}
        )
        self.replicas = ReplicasModel()
        self.unclean_asked: set[bytes] = set()
        self.stale: list[ap.AlterPartitionRequest] = []
        self.topic_ids: set[bytes] = set()
        self.epochs: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.producer_ids = 0
        self.controller.on_apply = self._follow

    # Brokers

    def _registration(self, broker_id: int, previous: int) -> BrokerRegistrationRequest:
        """A broker begins with one directory, and has two from its second life on."""
        request = self.controller.registration(broker_id, previous)
        request.log_dirs.append(b"another of no %02d" % broker_id)
        return request

    @rule(broker_id=broker_ids, clean=st.booleans())
    def register(self, broker_id: int, clean: bool) -> None:
        controller = self.controller
        previous = controller.epochs.get(broker_id, -1) if clean else -1
        epochs = dict(controller.epochs)
        try:
            controller.register(self._registration(broker_id, previous))
        except DuplicateBrokerRegistration:
            assert not controller.image.brokers[broker_id].in_controlled_shutdown
            return
        assert controller.epochs[broker_id] > epochs.get(broker_id, -1)
        if self.elr_enabled and not clean:
            for topic in controller.image.topics:
                assert all(broker_id not in p.elr for p in topic.partitions.values())
            self.replicas.lose(broker_id)
            self._follow()

    @rule(broker_id=broker_ids, fence=st.booleans(), stop=st.booleans(), behind=st.integers(0, 3))
    def heartbeat(self, broker_id: int, fence: bool, stop: bool, behind: int) -> None:
        controller = self.controller
        if broker_id in controller.image.brokers:
            offset = len(controller.records) - 1 - behind
            answer = controller.heartbeat(
                broker_id, want_fence=fence, want_shut_down=stop, offset=offset
            )
            if answer.should_shut_down:
                assert answer.is_fenced
                assert not controller.machine.state.index.leads(broker_id)

    @rule(brokers=few_brokers)
    def heartbeats(self, brokers: list[int]) -> None:
        for broker_id in brokers:
            self.heartbeat(broker_id, fence=False, stop=False, behind=0)

    @rule(broker_id=broker_ids)
    def lose_directory(self, broker_id: int) -> None:
        """A directory of several; the last one would end the broker."""
        broker = self.controller.image.brokers.get(broker_id)
        if broker is not None and len(broker.log_dirs) > 1:
            lost = broker.log_dirs[0]
            self.controller.heartbeat(broker_id, offline=[lost])
            assert lost not in self.controller.image.brokers[broker_id].log_dirs

    @rule(broker_id=broker_ids, directory=st.integers(0, 2))
    def tell_directories(self, broker_id: int, directory: int) -> None:
        """All replicas of a broker lie in one of its directories, or in one that is lost."""
        broker = self.controller.image.brokers.get(broker_id)
        if broker is None:
            return
        topics = [
            ard.AssignReplicasToDirsRequestTopicData(
                topic_id=topic.topic_id,
                partitions=[
                    ard.AssignReplicasToDirsRequestPartitionData(partition_index=each)
                    for each in topic.partitions
                ],
            )
            for topic in self.controller.image.topics
        ]
        where = [*broker.log_dirs, LOST_DIRECTORY][directory % (len(broker.log_dirs) + 1)]
        request = ard.AssignReplicasToDirsRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            directories=[ard.AssignReplicasToDirsRequestDirectoryData(id=where, topics=topics)],
        )
        manager = self.controller.machine.partitions
        self.controller.apply(manager.assign_replicas_to_dirs(request))

    @rule()
    def fail_over(self) -> None:
        """Another controller leads: nothing changes, and nobody is late."""
        controller = self.controller
        before = controller.image
        controller.fail_over()
        assert controller.image.topics == before.topics
        assert controller.machine.state.heartbeats.expired(controller.now + 8.9) == []
        controller.now += 8.0
        controller.expire()
        assert controller.image.brokers == before.brokers

    @rule(seconds=st.sampled_from([1.0, 4.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        self.controller.now += seconds
        self.controller.expire()

    @rule(broker_id=broker_ids)
    def unregister(self, broker_id: int) -> None:
        if broker_id in self.controller.image.brokers:
            request = UnregisterBrokerRequest(broker_id=broker_id)
            self.controller.apply(self.controller.machine.brokers.unregister_broker(request))

    # Topics

    @rule(name=names, partitions=st.integers(1, 3), factor=st.integers(1, 3))
    def create(self, name: str, partitions: int, factor: int) -> None:
        existed = name in self.controller.image.topics.by_name
        result = self.controller.create(name, partitions, factor)
        if result.error_code == 0:
            assert not existed
            assert result.topic_id not in self.topic_ids, "a topic id is never used again"
            self.topic_ids.add(result.topic_id)

    @rule(name=names)
    def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(topic_names=[name])
        self.controller.apply(self.controller.machine.topics.delete_topics(request))

    @rule(name=names, count=st.integers(1, 5))
    def create_partitions(self, name: str, count: int) -> None:
        topic = cp.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = cp.CreatePartitionsRequest(topics=[topic])
        manager = self.controller.machine.partition_counts
        self.controller.apply(manager.create_partitions(request))

    @rule(name=names, minimum=st.sampled_from(["1", "2", "3"]))
    def set_minimum_isr(self, name: str, minimum: str) -> None:
        self._set(2, name, "min.insync.replicas", minimum)

    @rule(minimum=st.sampled_from(["1", "2"]))
    def set_minimum_isr_of_the_cluster(self, minimum: str) -> None:
        self._set(4, "", "min.insync.replicas", minimum)

    @rule(on=st.booleans())
    def switch_eligible_leader_replicas(self, on: bool) -> None:
        update = FeatureUpdateKey(
            feature=ELR, max_version_level=int(on), upgrade_type=1 if on else 2
        )
        request = UpdateFeaturesRequest(feature_updates=[update])
        self.controller.apply(
            self.controller.machine.features.update_features(request, QuorumVersion())
        )
        assert self.elr_enabled is on

    @property
    def elr_enabled(self) -> bool:
        return self.controller.image.features.elr_enabled

    @rule(name=names, allowed=st.sampled_from(["true", "false"]))
    def allow_unclean_elections(self, name: str, allowed: str) -> None:
        self._set(2, name, "unclean.leader.election.enable", allowed)

    def _set(self, kind: int, name: str, key: str, value: str) -> None:
        change = iac.AlterableConfig(name=key, config_operation=0, value=value)
        resource = iac.AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[change]
        )
        request = iac.IncrementalAlterConfigsRequest(resources=[resource])
        self.controller.apply(self.controller.machine.configs.incremental_alter_configs(request))

    # Partitions

    @precondition(lambda self: len(self.controller.image.topics) > 0)
    @rule(data=st.data(), isr=replica_lists)
    def alter_isr(self, data: st.DataObject, isr: list[int]) -> None:
        topic = data.draw(st.sampled_from(list(self.controller.image.topics)))
        partition_id = data.draw(st.sampled_from(sorted(topic.partitions)))
        partition = topic.partitions[partition_id]
        if partition.leader != NO_LEADER:
            members = sorted({partition.leader, *isr} & set(partition.replicas))
            request = self._proposal(topic, partition_id, partition, members)
            self.stale.append(request)
            self._propose(request)

    def _proposal(
        self, topic: TopicImage, partition_id: int, partition: PartitionImage, isr: list[int]
    ) -> ap.AlterPartitionRequest:
        self.replicas.caught_up((topic.topic_id, partition_id), partition.leader, isr)
        epochs = self.controller.epochs
        proposal = ap.AlterPartitionRequestPartitionData(
            partition_index=partition_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            leader_recovery_state=RECOVERED,
            new_isr_with_epochs=[
                ap.BrokerState(broker_id=each, broker_epoch=epochs.get(each, -1)) for each in isr
            ],
        )
        topics = [ap.AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[proposal])]
        return ap.AlterPartitionRequest(
            broker_id=partition.leader, broker_epoch=epochs[partition.leader], topics=topics
        )

    def _propose(self, request: ap.AlterPartitionRequest) -> int:
        controller = self.controller
        response = controller.apply(controller.machine.partitions.alter_partition(request))
        return response.topics[0].partitions[0].error_code

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def alter_isr_late(self, data: st.DataObject) -> None:
        """What a leader proposed some time ago, and may have been decided already."""
        request = data.draw(st.sampled_from(self.stale))
        before = self.controller.image.topics
        try:
            error = self._propose(request)
        except StaleBrokerEpoch:
            return
        if error not in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED):
            assert self.controller.image.topics is before

    @precondition(lambda self: len(self.controller.image.topics) > 0)
    @rule()
    def produce(self) -> None:
        state = self.controller.machine.state
        for topic in self.controller.image.topics:
            for partition_id, partition in topic.partitions.items():
                min_isr = state.min_insync_replicas(topic.name)
                self.replicas.produce((topic.topic_id, partition_id), partition, min_isr)

    @rule(unclean=st.booleans())
    def elect_leaders(self, unclean: bool) -> None:
        if unclean:
            self.unclean_asked = {topic.topic_id for topic in self.controller.image.topics}
        request = el.ElectLeadersRequest(election_type=int(unclean), topic_partitions=None)
        self.controller.apply(self.controller.machine.partitions.elect_leaders(request))
        self.unclean_asked.clear()

    @rule()
    def elect_unasked(self) -> None:
        controller = self.controller
        for records in (
            controller.machine.partitions.preferred_elections(2),
            controller.machine.partitions.unclean_elections(2),
        ):
            before = controller.image.topics
            controller.apply(ControllerResult(None, records, atomic=False))
            assert (controller.image.topics is before) == (not records)

    @rule(name=names, moves=st.lists(st.none() | replica_lists, min_size=1, max_size=2))
    def reassign(self, name: str, moves: list[list[int] | None]) -> None:
        """A client may name a partition more than once, in one list or in two."""
        wanted = [apr.ReassignablePartition(partition_index=0, replicas=each) for each in moves]
        request = apr.AlterPartitionReassignmentsRequest(
            topics=[apr.ReassignableTopic(name=name, partitions=wanted)]
        )
        manager = self.controller.machine.reassignments
        self.controller.apply(manager.alter_reassignments(request))

    @rule(broker_id=broker_ids)
    def allocate_producer_ids(self, broker_id: int) -> None:
        if broker_id in self.controller.image.brokers:
            epoch = self.controller.epochs[broker_id]
            request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)
            response = self.controller.apply(self.controller.machine.producer_ids.allocate(request))
            assert response.producer_id_start >= self.producer_ids
            self.producer_ids = response.producer_id_start + response.producer_id_len

    # What always holds

    @invariant()
    def records_replayed_from_bytes_make_the_same_image(self) -> None:
        assert self.controller.other.image == self.controller.image

    @invariant()
    def a_snapshot_makes_the_same_image(self) -> None:
        image = self.controller.image
        again = image_of(image_to_records(image), image.offset, image.epoch)
        assert again == image

    @invariant()
    def partitions_are_as_they_must_be(self) -> None:
        image = self.controller.image
        for topic in image.topics:
            for partition_id, partition in topic.partitions.items():
                replicas = set(partition.replicas)
                assert len(replicas) == len(partition.replicas) == len(partition.directories)
                assert set(partition.isr) <= replicas
                assert len(set(partition.isr)) == len(partition.isr)
                assert not set(partition.isr) & set(partition.elr)
                assert set(partition.elr) <= replicas
                assert not partition.elr or len(partition.isr) < len(replicas)
                assert set(partition.adding_replicas) <= replicas
                assert set(partition.removing_replicas) <= replicas
                if partition.leader != NO_LEADER:
                    assert partition.leader in partition.isr
                    assert all(image.is_active(each) for each in partition.isr)
                    directory = partition.directory_of(partition.leader)
                    assert image.brokers[partition.leader].has_online_directory(directory)
                key = (topic.topic_id, partition_id)
                epochs = (partition.leader_epoch, partition.partition_epoch)
                old = self.epochs.get(key, (-1, -1))
                assert epochs[0] >= old[0]
                assert epochs[1] >= old[1]
                self.epochs[key] = epochs

    @invariant()
    def the_index_is_that_of_the_image(self) -> None:
        state = self.controller.machine.state
        anew = PartitionIndex(state.image.topics)
        for broker_id in BROKERS:
            assert sorted(state.index.in_isr(broker_id)) == sorted(anew.in_isr(broker_id))
            assert sorted(state.index.in_elr(broker_id)) == sorted(anew.in_elr(broker_id))
            assert state.index.leads(broker_id) == anew.leads(broker_id)
        for kind in ("leaderless", "imbalanced", "reassigning"):
            assert sorted(getattr(state.index, kind)) == sorted(getattr(anew, kind))

    def _follow(self) -> None:
        """Nothing that is committed is lost by an election that was said to be clean."""
        state = self.controller.machine.state
        allowed = {
            topic.topic_id
            for topic in state.image.topics
            if state.unclean_election_enabled(topic.name)
        }
        self.replicas.follow(state.image, allowed | self.unclean_asked)

    @rule()
    def everybody_catches_up(self) -> None:
        """All brokers come back cleanly and all replicas catch up: every reassignment ends."""
        controller = self.controller
        for broker_id in BROKERS:
            controller.now += 20.0
            controller.expire()
            controller.register(self._registration(broker_id, controller.epochs.get(broker_id, -1)))
            assert not controller.heartbeat(broker_id).is_fenced
            for other in range(1, broker_id):
                controller.heartbeat(other)
        for topic in list(controller.image.topics):
            for partition_id in topic.partitions:
                partition = controller.partition(topic.name, partition_id)
                if partition.leader == NO_LEADER:
                    continue  # nobody is left that may lead cleanly
                isr = sorted(partition.replicas)
                error = self._propose(self._proposal(topic, partition_id, partition, isr))
                assert error in (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
                assert not controller.partition(topic.name, partition_id).is_reassigning


ControllerWalk.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestControllerWalk = ControllerWalk.TestCase
