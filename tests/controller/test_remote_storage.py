"""Topics with a remote part, on a node that is the whole cluster and on others."""

from tests.controller.machines import Controller, error
from tests.controller.test_configs import SET, TOPIC, alter, resource

from ottla.protocol.generated.controller_registration import ControllerRegistrationRequest
from ottla.protocol.generated.unregister_broker import UnregisterBrokerRequest

REMOTE = "remote.storage.enable"
FACTOR = "rlmm.config.remote.log.metadata.topic.replication.factor"
REASON = (
    "Tiered storage cannot be used: its topic __remote_log_metadata is to have 3 replicas, and "
    f"this broker is the only one. Add brokers, or set {FACTOR}=1."
)
REFUSED = ("INVALID_CONFIG", REASON)
DONE = ("NONE", None)


def cluster(brokers: int, factor: str | None = None, **changes: str) -> Controller:
    if factor is not None:
        changes[FACTOR] = factor
    changes["remote_log_storage_system_enable"] = "true"
    return Controller(brokers=brokers, seed=1, **changes)


def create(controller: Controller, name: str = "t") -> tuple[str, str | None]:
    made = controller.create(name, configs={REMOTE: "true"})
    return error(made.error_code, made.error_message)


def enable(controller: Controller) -> tuple[str, str | None]:
    controller.create("plain")
    (answer,) = alter(controller, resource(TOPIC, "plain", (REMOTE, SET, "true")))
    return answer


def test_a_node_that_is_told_of_more_replicas_than_it_can_have_refuses_a_remote_part() -> None:
    controller = cluster(1, "3")
    assert create(controller) == REFUSED
    assert enable(controller) == REFUSED
    assert controller.create("other").error_code == 0


def test_so_does_one_whose_quorum_is_fixed_and_that_is_told_nothing() -> None:
    controller = cluster(1, controller_quorum_voters="1@localhost:9093")
    assert create(controller) == REFUSED


def test_the_first_of_several_fixed_voters_waits_for_the_others() -> None:
    controller = cluster(1, controller_quorum_voters="1@localhost:9093,2@localhost:9095")
    assert create(controller) == DONE


def test_one_that_may_choose_has_one_replica() -> None:
    controller = cluster(1)
    assert (create(controller), enable(controller)) == (DONE, DONE)
    controller = cluster(1, "1")
    assert (create(controller), enable(controller)) == (DONE, DONE)


def test_where_the_metadata_topic_is_already_nothing_is_refused() -> None:
    controller = cluster(1, "3")
    controller.create("__remote_log_metadata")
    assert (create(controller), enable(controller)) == (DONE, DONE)


def test_a_cluster_that_has_other_brokers_decides_when_the_topic_is_made() -> None:
    """One that is down comes back, and one that was never here may come."""
    controller = cluster(2, "3")
    controller.now += 60
    controller.expire()
    controller.heartbeat(1)
    assert controller.image.brokers[2].fenced
    assert (create(controller), enable(controller)) == (DONE, DONE)


def test_so_does_one_that_has_other_controllers() -> None:
    controller = cluster(1, "3")
    registration = ControllerRegistrationRequest(
        controller_id=2, incarnation_id=b"incarnation two!", zk_migration_ready=False
    )
    controller.apply(controller.machine.brokers.register_controller(registration))
    assert (create(controller), enable(controller)) == (DONE, DONE)


def test_a_setting_that_has_nothing_to_do_with_it_can_be_changed() -> None:
    controller = cluster(2, "3")
    create(controller)
    gone = UnregisterBrokerRequest(broker_id=2)
    controller.apply(controller.machine.brokers.unregister_broker(gone))
    assert enable(controller) == REFUSED
    (answer,) = alter(controller, resource(TOPIC, "t", ("retention.ms", SET, "5")))
    assert answer == DONE
