"""A controller with three brokers that come and go, under any row of requests.

After each step: a second machine that replays the same records from bytes has an equal image; the
image's snapshot makes an equal image; and every partition is as a partition must be.
"""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.controller.machines import Controller
from tests.metadata.samples import image_of

from ottla.common.errors import ApiError
from ottla.metadata.snapshot import image_to_records
from ottla.metadata.topics import NO_LEADER
from ottla.protocol.generated import alter_partition as ap
from ottla.protocol.generated import alter_partition_reassignments as apr
from ottla.protocol.generated import create_partitions as cp
from ottla.protocol.generated import elect_leaders as el
from ottla.protocol.generated import incremental_alter_configs as iac
from ottla.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.generated.delete_topics import DeleteTopicsRequest
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest

BROKERS = (1, 2, 3)
NAMES = ("a", "b.c", "b_c", "d", "bad name")
broker_ids = st.sampled_from(BROKERS)
names = st.sampled_from(NAMES)
replica_lists = st.lists(broker_ids, min_size=1, max_size=3, unique=True)


class ControllerWalk(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(brokers=2)
        self.topic_ids: set[bytes] = set()
        self.epochs: dict[tuple[bytes, int], tuple[int, int]] = {}
        self.producer_ids = 0

    # Brokers

    @rule(broker_id=broker_ids, clean=st.booleans())
    def register(self, broker_id: int, clean: bool) -> None:
        controller = self.controller
        previous = controller.epochs.get(broker_id, -1) if clean else -1
        try:
            controller.register(controller.registration(broker_id, previous))
        except ApiError:
            assert not controller.image.brokers[broker_id].in_controlled_shutdown

    @rule(broker_id=broker_ids, fence=st.booleans(), stop=st.booleans())
    def heartbeat(self, broker_id: int, fence: bool, stop: bool) -> None:
        if broker_id in self.controller.image.brokers:
            self.controller.heartbeat(broker_id, want_fence=fence, want_shut_down=stop)

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
        controller = self.controller
        topic = data.draw(st.sampled_from(list(controller.image.topics)))
        partition_id = data.draw(st.sampled_from(sorted(topic.partitions)))
        partition = topic.partitions[partition_id]
        if partition.leader == NO_LEADER:
            return
        members = [
            ap.BrokerState(broker_id=member, broker_epoch=controller.epochs.get(member, -1))
            for member in sorted({partition.leader, *isr})
        ]
        proposal = ap.AlterPartitionRequestPartitionData(
            partition_index=partition_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            new_isr_with_epochs=members,
        )
        topics = [ap.AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[proposal])]
        epoch = controller.epochs[partition.leader]
        request = ap.AlterPartitionRequest(
            broker_id=partition.leader, broker_epoch=epoch, topics=topics
        )
        controller.apply(controller.machine.partitions.alter_partition(request))

    @rule(unclean=st.booleans())
    def elect_leaders(self, unclean: bool) -> None:
        request = el.ElectLeadersRequest(election_type=int(unclean), topic_partitions=None)
        self.controller.apply(self.controller.machine.partitions.elect_leaders(request))

    @rule(name=names, replicas=st.none() | replica_lists)
    def reassign(self, name: str, replicas: list[int] | None) -> None:
        wanted = apr.ReassignablePartition(partition_index=0, replicas=replicas)
        request = apr.AlterPartitionReassignmentsRequest(
            topics=[apr.ReassignableTopic(name=name, partitions=[wanted])]
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
                assert set(partition.adding_replicas) <= replicas
                assert set(partition.removing_replicas) <= replicas
                if partition.leader != NO_LEADER:
                    assert partition.leader in partition.isr
                    assert image.is_active(partition.leader)
                key = (topic.topic_id, partition_id)
                epochs = (partition.leader_epoch, partition.partition_epoch)
                old = self.epochs.get(key, (-1, -1))
                assert epochs[0] >= old[0]
                assert epochs[1] >= old[1]
                self.epochs[key] = epochs


ControllerWalk.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestControllerWalk = ControllerWalk.TestCase
