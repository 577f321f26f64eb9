"""AlterConfigs and IncrementalAlterConfigs; codes and texts are those of Apache Kafka 4.3.1."""

import pytest
from tests.controller.machines import Controller, error

from ottla.protocol.generated import alter_configs as legacy
from ottla.protocol.generated import incremental_alter_configs as incremental
from ottla.protocol.generated.metadata_records import ClearElrRecord, ConfigRecord

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Op = tuple[str, int, str | None]


def resource(kind: int, name: str, *ops: Op) -> incremental.AlterConfigsResource:
    return incremental.AlterConfigsResource(
        resource_type=kind,
        resource_name=name,
        configs=[
            incremental.AlterableConfig(name=key, config_operation=operation, value=value)
            for key, operation, value in ops
        ],
    )


def alter(
    controller: Controller,
    *resources: incremental.AlterConfigsResource,
    validate_only: bool = False,
) -> list[tuple[str, str | None]]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=list(resources), validate_only=validate_only
    )
    response = controller.apply(controller.machine.configs.incremental_alter_configs(request))
    return [error(each.error_code, each.error_message) for each in response.responses]


def replace(
    controller: Controller, kind: int, name: str, **settings: str
) -> tuple[str, str | None]:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    legacy.AlterableConfig(name=key.replace("_", "."), value=value)
                    for key, value in settings.items()
                ],
            )
        ]
    )
    (answer,) = controller.apply(controller.machine.configs.alter_configs(request)).responses
    return error(answer.error_code, answer.error_message)


@pytest.fixture
def controller() -> Controller:
    controller = Controller(brokers=1)
    controller.create("t", configs={"retention.ms": "1"})
    return controller


OK = ("NONE", None)


def test_settings_are_set_and_removed_one_by_one(controller: Controller) -> None:
    assert alter(controller, resource(TOPIC, "t", ("max.message.bytes", SET, "9"))) == [OK]
    assert controller.image.configs_of(TOPIC, "t") == {
        "retention.ms": "1",
        "max.message.bytes": "9",
    }
    assert alter(controller, resource(TOPIC, "t", ("retention.ms", DELETE, None))) == [OK]
    assert controller.image.configs_of(TOPIC, "t") == {"max.message.bytes": "9"}
    assert controller.records[-1] == ConfigRecord(
        resource_type=TOPIC, resource_name="t", name="retention.ms", value=None
    )


def test_lists_grow_and_shrink(controller: Controller) -> None:
    policy = "cleanup.policy"
    alter(controller, resource(TOPIC, "t", (policy, APPEND, "compact")))
    assert controller.image.configs_of(TOPIC, "t")[policy] == "delete,compact"
    alter(controller, resource(TOPIC, "t", (policy, SUBTRACT, "delete")))
    assert controller.image.configs_of(TOPIC, "t")[policy] == "compact"


def test_what_a_topic_already_has_is_not_written_again(controller: Controller) -> None:
    before = len(controller.records)
    assert alter(controller, resource(TOPIC, "t", ("retention.ms", SET, "1"))) == [OK]
    assert alter(controller, resource(TOPIC, "t", ("bla", DELETE, None))) == [OK]
    assert len(controller.records) == before


def test_what_a_broker_already_has_is_written_again_for_it_may_stand_for_something_new(
    controller: Controller,
) -> None:
    for _ in range(2):
        before = len(controller.records)
        assert alter(controller, resource(BROKER, "1", ("log.cleaner.threads", SET, "2"))) == [OK]
        assert len(controller.records) == before + 1


def test_only_validating_changes_nothing(controller: Controller) -> None:
    before = len(controller.records)
    wanted = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    assert alter(controller, wanted, validate_only=True) == [OK]
    assert len(controller.records) == before


def test_each_resource_stands_for_itself(controller: Controller) -> None:
    results = alter(
        controller,
        resource(TOPIC, "t", ("retention.ms", SET, "5")),
        resource(TOPIC, "nope", ("retention.ms", SET, "5")),
        resource(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")),
    )
    assert [code for code, _ in results] == ["NONE", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"]
    assert controller.image.configs_of(GROUP, "g") == {"consumer.session.timeout.ms": "50000"}


def test_a_resource_may_appear_only_once(controller: Controller) -> None:
    wanted = resource(TOPIC, "t", ("retention.ms", SET, "5"))
    message = "Each resource must appear at most once."
    assert alter(controller, wanted, wanted) == [("INVALID_REQUEST", message)] * 2


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (
            resource(TOPIC, "t", ("bla", SET, "1")),
            ("INVALID_CONFIG", "Unknown topic config name: bla"),
        ),
        (
            resource(TOPIC, "t", ("retention.ms", SET, None)),
            ("INVALID_REQUEST", "Null value not supported for : retention.ms"),
        ),
        (
            resource(TOPIC, "t", ("retention.ms", APPEND, "1")),
            (
                "INVALID_CONFIG",
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
        ),
        (resource(TOPIC, "t", ("retention.ms", 7, "1")), ("UNKNOWN_SERVER_ERROR", None)),
        (
            resource(TOPIC, "t", ("a", SET, "1"), ("a", SET, "2")),
            ("INVALID_REQUEST", "Error due to duplicate config keys"),
        ),
        (
            resource(TOPIC, "nope", ("retention.ms", SET, "1")),
            ("UNKNOWN_TOPIC_OR_PARTITION", "The topic 'nope' does not exist."),
        ),
        (
            resource(TOPIC, "", ("retention.ms", SET, "1")),
            ("INVALID_REQUEST", "Default topic resources are not allowed."),
        ),
        (
            resource(BROKER, "", ("min.insync.replicas", DELETE, None)),
            (
                "INVALID_CONFIG",
                "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
            ),
        ),
        (
            resource(BROKER, "1", ("min.insync.replicas", SET, "1")),
            (
                "INVALID_CONFIG",
                "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
            ),
        ),
        (
            resource(BROKER, "7", ("log.retention.ms", SET, "1")),
            ("BROKER_ID_NOT_REGISTERED", "No broker with id 7 found."),
        ),
        (
            resource(BROKER, "x", ("log.retention.ms", SET, "1")),
            ("INVALID_REQUEST", "Node id must be an integer, but it is: x"),
        ),
        (
            resource(BROKER, "1", ("node.id", SET, "3")),
            ("INVALID_REQUEST", "Cannot update these configs dynamically: [node.id]"),
        ),
        (
            resource(GROUP, "g", ("bla", SET, "1")),
            ("INVALID_CONFIG", "Unknown group config name: bla"),
        ),
        (
            resource(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
            ("INVALID_REQUEST", "Default group resources are not allowed."),
        ),
        (
            resource(METRICS, "m", ("bla", SET, "1")),
            ("INVALID_REQUEST", "Unknown client metrics configuration: bla"),
        ),
        (resource(0, "t"), ("INVALID_REQUEST", "Unknown resource type 0")),
        (resource(99, "t"), ("INVALID_REQUEST", "Unknown resource type 99")),
    ],
)
def test_what_may_not_be_set_is_refused(
    controller: Controller,
    wanted: incremental.AlterConfigsResource,
    expected: tuple[str, str | None],
) -> None:
    before = len(controller.records)
    assert alter(controller, wanted) == [expected]
    assert len(controller.records) == before


def test_the_old_form_removes_what_it_does_not_name(controller: Controller) -> None:
    assert replace(controller, TOPIC, "t", max_message_bytes="7") == OK
    assert controller.image.configs_of(TOPIC, "t") == {"max.message.bytes": "7"}
    assert replace(controller, TOPIC, "t") == OK
    assert controller.image.configs_of(TOPIC, "t") == {}


def test_the_old_form_cannot_forget_the_minimum_isr_of_the_cluster(controller: Controller) -> None:
    assert replace(controller, BROKER, "", log_retention_ms="1") == (
        "INVALID_CONFIG",
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )


def test_the_old_form_knows_no_loggers(controller: Controller) -> None:
    assert replace(controller, LOGGER, "1", root="DEBUG") == (
        "INVALID_REQUEST",
        "Unknown resource type 8",
    )


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "")])
def test_a_new_minimum_isr_makes_eligible_replicas_void(
    controller: Controller, kind: int, name: str
) -> None:
    assert alter(controller, resource(kind, name, ("min.insync.replicas", SET, "2"))) == [OK]
    assert controller.records[-1] == ClearElrRecord(topic_name=name)


def test_a_minimum_isr_that_stays_leaves_the_eligible_replicas(controller: Controller) -> None:
    alter(controller, resource(TOPIC, "t", ("min.insync.replicas", SET, "2")))
    both = (("min.insync.replicas", SET, "2"), ("retention.ms", SET, "5"))
    assert alter(controller, resource(TOPIC, "t", *both)) == [OK]
    last = controller.records[-1]
    assert isinstance(last, ConfigRecord)
    assert last.name == "retention.ms"


def test_a_dynamic_default_holds_for_new_topics(controller: Controller) -> None:
    alter(controller, resource(BROKER, "", ("log.retention.ms", SET, "4711")))
    result = controller.create("new")
    told = {config.name: config for config in result.configs or []}
    assert (told["retention.ms"].value, told["retention.ms"].config_source) == ("4711", 3)
