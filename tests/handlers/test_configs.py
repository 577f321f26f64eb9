"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources."""

import logging

import pytest
from tests.handlers.broker import Broker, registered

from ottla.common.errors import ErrorCode, NotController
from ottla.config.changes import Resource
from ottla.config.layers import Source
from ottla.handlers import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from ottla.protocol.generated import alter_configs as legacy
from ottla.protocol.generated import incremental_alter_configs as incremental
from ottla.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from ottla.protocol.generated.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from ottla.protocol.message import from_bytes, to_bytes

SET, DELETE, APPEND = 0, 1, 2


def described(
    broker: Broker,
    resource_type: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    synonyms: bool = False,
    documentation: bool = False,
) -> DescribeConfigsResult:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=resource_type, resource_name=name, configuration_keys=keys
            )
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    (result,) = broker.ask(describe_configs, request, version, DescribeConfigsResponse).results
    assert (result.resource_type, result.resource_name) == (resource_type, name)
    return result


@pytest.fixture
def broker() -> Broker:
    made = Broker({"log.segment.bytes": "2000000", "log.retention.hours": "100"})
    made.add_topic("t")
    made.set_configs(Resource.TOPIC, "t", {"retention.ms": "5000"})
    made.set_configs(Resource.BROKER, "", {"min.insync.replicas": "2"})
    made.set_configs(Resource.BROKER, "1", {"log.cleaner.threads": "3"})
    return made


@pytest.mark.parametrize("version", range(1, 5))
def test_a_topics_settings_come_with_their_origin(broker: Broker, version: int) -> None:
    result = described(broker, Resource.TOPIC, "t", version=version)
    assert (result.error_code, result.error_message) == (0, "")
    found = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert found["retention.ms"] == ("5000", Source.TOPIC_CONFIG)
    assert found["min.insync.replicas"] == ("2", Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert found["segment.bytes"] == ("2000000", Source.STATIC_BROKER_CONFIG)
    assert found["cleanup.policy"] == ("delete", Source.DEFAULT_CONFIG)
    kinds = {entry.name: entry.config_type for entry in result.configs}
    assert kinds["retention.ms"] == (5 if version >= 3 else 0)


def test_only_the_settings_that_are_named_are_shown_and_an_empty_list_names_all(
    broker: Broker,
) -> None:
    named = described(broker, Resource.TOPIC, "t", ["retention.ms", "nope"])
    assert [entry.name for entry in named.configs] == ["retention.ms"]
    everything = described(broker, Resource.TOPIC, "t", [])
    assert len(everything.configs) == 33


def test_synonyms_and_documentation_are_told_on_request(broker: Broker) -> None:
    (silent,) = described(broker, Resource.TOPIC, "t", ["segment.bytes"]).configs
    assert (silent.synonyms, silent.documentation) == ([], None)
    (entry,) = described(
        broker, Resource.TOPIC, "t", ["segment.bytes"], synonyms=True, documentation=True
    ).configs
    assert [(s.name, s.value, s.source) for s in entry.synonyms] == [
        ("log.segment.bytes", "2000000", Source.STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", Source.DEFAULT_CONFIG),
    ]
    assert entry.documentation


def test_a_brokers_settings_are_its_own_and_passwords_are_not_shown() -> None:
    broker = Broker({"ssl.keystore.password": "secret"})
    broker.set_configs(Resource.BROKER, "1", {"log.cleaner.threads": "3"})
    keys = ["node.id", "ssl.keystore.password", "log.cleaner.threads"]
    found = {e.name: e for e in described(broker, Resource.BROKER, "1", keys).configs}
    assert (found["node.id"].value, found["node.id"].read_only) == ("1", True)
    password = found["ssl.keystore.password"]
    assert (password.value, password.is_sensitive) == (None, True)
    assert found["log.cleaner.threads"].config_source == Source.DYNAMIC_BROKER_CONFIG


def test_what_holds_for_all_brokers_is_what_was_set_for_them(broker: Broker) -> None:
    result = described(broker, Resource.BROKER, "")
    assert [(e.name, e.value) for e in result.configs] == [("min.insync.replicas", "2")]


@pytest.mark.parametrize(
    ("resource_type", "name", "code", "message"),
    [
        (Resource.TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            Resource.TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            Resource.BROKER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 or empty string, but received 9",
        ),
        (
            Resource.BROKER,
            "x",
            ErrorCode.INVALID_REQUEST,
            "Broker id must be an integer, but it is: x",
        ),
        (Resource.BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (
            Resource.BROKER_LOGGER,
            "9",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1 but received 9",
        ),
        (
            Resource.CLIENT_METRICS,
            "",
            ErrorCode.INVALID_REQUEST,
            "Client metrics subscription name must not be empty",
        ),
        (Resource.GROUP, "", ErrorCode.INVALID_REQUEST, "Group name must not be empty"),
    ],
)
def test_what_cannot_be_described_says_why(
    broker: Broker, resource_type: int, name: str, code: ErrorCode, message: str
) -> None:
    result = described(broker, resource_type, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def test_groups_and_metrics_subscriptions_have_settings(broker: Broker) -> None:
    broker.set_configs(Resource.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    (entry,) = described(broker, Resource.GROUP, "g", ["consumer.session.timeout.ms"]).configs
    assert (entry.value, entry.config_source) == ("50000", Source.GROUP_CONFIG)
    names = [e.name for e in described(broker, Resource.CLIENT_METRICS, "m").configs]
    assert names == ["interval.ms", "match", "metrics"]


@pytest.mark.parametrize("version", range(1, 5))
def test_many_are_described_in_turns_as_they_were_and_each_once(version: int) -> None:
    broker = Broker()
    names = [f"t-{number}" for number in range(3 * describe_configs.AT_ONCE)]
    for name in names:
        broker.add_topic(name)
    broker.set_configs(Resource.TOPIC, "t-7", {"retention.ms": "7"})
    last = names[-1]
    asked = [
        DescribeConfigsResource(
            resource_type=Resource.TOPIC, resource_name=name, configuration_keys=["retention.ms"]
        )
        for name in [*names, *names]
    ]
    answered = broker.start(describe_configs, DescribeConfigsRequest(resources=asked), version)
    assert not answered.done, "others have their turn"
    broker.set_configs(Resource.TOPIC, last, {"retention.ms": "1"})
    broker.scheduler.run_for(0.0)
    answer = from_bytes(DescribeConfigsResponse, to_bytes(answered.result(), version), version)
    assert [result.resource_name for result in answer.results] == names
    values = {result.resource_name: result.configs[0].value for result in answer.results}
    assert (values["t-7"], values["t-8"], values[last]) == ("7", "604800000", "604800000")


def test_a_resource_of_an_unknown_kind_spoils_the_whole_request(broker: Broker) -> None:
    assert described(broker, 64, "x").error_code == ErrorCode.INVALID_REQUEST


def test_loggers_have_levels_and_the_topmost_is_called_root(broker: Broker) -> None:
    logging.getLogger("ottla.network.server").setLevel(logging.WARNING)
    found = {e.name: e for e in described(broker, Resource.BROKER_LOGGER, "1").configs}
    assert found["ottla.network.server"].value == "WARN"
    assert found["root"].config_source == Source.DYNAMIC_BROKER_LOGGER_CONFIG
    assert "ottla" not in found
    (only,) = described(broker, Resource.BROKER_LOGGER, "1", ["root"]).configs
    assert only.name == "root"


# Changes

Changes = list[tuple[str, int, str | None]]


def changed(
    broker: Broker, *resources: tuple[int, str, Changes], validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = incremental.IncrementalAlterConfigsRequest(
        resources=[
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=validate_only,
    )
    answer = broker.ask(
        incremental_alter_configs, request, 1, incremental.IncrementalAlterConfigsResponse
    )
    assert [(r.resource_type, r.resource_name) for r in answer.responses] == [
        (kind, name) for kind, name, _ in resources
    ]
    return [(r.error_code, r.error_message) for r in answer.responses]


def controller_agrees(broker: Broker, *names: tuple[int, str]) -> None:
    broker.controller.answers.append(
        incremental.IncrementalAlterConfigsResponse(
            responses=[
                incremental.AlterConfigsResourceResponse(resource_type=kind, resource_name=name)
                for kind, name in names
            ]
        )
    )


def test_what_is_right_reaches_the_controller_and_its_answer_the_client(broker: Broker) -> None:
    controller_agrees(broker, (Resource.TOPIC, "t"))
    assert changed(
        broker, (Resource.TOPIC, "t", [("retention.ms", SET, "1")]), validate_only=True
    ) == [(0, None)]
    (asked,) = broker.controller.asked
    assert isinstance(asked, incremental.IncrementalAlterConfigsRequest)
    assert asked.validate_only


def test_answers_come_in_the_order_of_the_request_whoever_gave_them(broker: Broker) -> None:
    controller_agrees(broker, (Resource.TOPIC, "t"))
    assert changed(
        broker,
        (64, "x", []),
        (Resource.TOPIC, "t", [("retention.ms", SET, "1")]),
        (Resource.BROKER_LOGGER, "1", [("root", SET, "INFO")]),
    ) == [
        (ErrorCode.INVALID_REQUEST, "Unknown resource type 64"),
        (ErrorCode.NONE, None),
        (ErrorCode.NONE, None),
    ]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("a", SET, "1"), ("a", SET, "2")], "Error due to duplicate config keys"),
        ([("a", SET, None), ("b", APPEND, None)], "Null value not supported for : a, b"),
    ],
)
def test_changes_that_cannot_be_right_go_no_further(
    broker: Broker, changes: Changes, message: str
) -> None:
    assert changed(broker, (Resource.TOPIC, "t", changes)) == [(ErrorCode.INVALID_REQUEST, message)]
    assert broker.controller.asked == []


def test_a_resource_that_is_named_twice_is_refused_twice(broker: Broker) -> None:
    changes: Changes = [("retention.ms", SET, "1")]
    once = (Resource.TOPIC, "t", changes)
    refused = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    assert changed(broker, once, once) == [refused, refused]


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        (
            "9",
            [("log.cleaner.threads", SET, "2")],
            "Unexpected broker id, expected 1, but received 9",
        ),
        ("x", [("log.cleaner.threads", SET, "2")], "Node id must be an integer, but it is: x"),
        ("1", [("node.id", SET, "2")], "Cannot update these configs dynamically: [node.id]"),
        (
            "1",
            [("log.cleaner.threads", SET, "x")],
            "Invalid value x for configuration log.cleaner.threads: Not a number of type INT",
        ),
        (
            "",
            [("listeners", SET, "PLAINTEXT://:1")],
            (
                "Cannot update these configs at default cluster level, broker id must be "
                "specified: [listeners]"
            ),
        ),
        ("1", [("log.cleaner.threads", 9, "1")], "Unknown operations type 9"),
    ],
)
def test_a_broker_answers_for_its_own_settings(
    broker: Broker, name: str, changes: Changes, message: str
) -> None:
    assert changed(broker, (Resource.BROKER, name, changes)) == [
        (ErrorCode.INVALID_REQUEST, message)
    ]
    assert broker.controller.asked == []


def test_a_brokers_settings_that_can_change_reach_the_controller(broker: Broker) -> None:
    controller_agrees(broker, (Resource.BROKER, "1"))
    assert changed(broker, (Resource.BROKER, "1", [("log.cleaner.threads", DELETE, None)])) == [
        (0, None)
    ]


def test_without_a_controller_every_resource_is_refused(broker: Broker) -> None:
    broker.controller.answers.append(NotController("nobody"))
    assert changed(broker, (Resource.TOPIC, "t", [("retention.ms", SET, "1")])) == [
        (ErrorCode.NOT_CONTROLLER, "nobody")
    ]


@pytest.mark.parametrize(
    ("name", "change", "code", "message"),
    [
        (
            "1",
            ("root", DELETE, None),
            ErrorCode.INVALID_REQUEST,
            "Removing the log level of the root logger is not allowed",
        ),
        ("1", ("nope", SET, "INFO"), ErrorCode.INVALID_CONFIG, "Logger nope does not exist!"),
        (
            "1",
            ("root", SET, "info"),
            ErrorCode.INVALID_CONFIG,
            (
                "Cannot set the log level of root to info as it is not a supported log level. "
                "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"
            ),
        ),
        (
            "1",
            ("root", APPEND, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "APPEND operation is not allowed for the BROKER_LOGGER resource",
        ),
        ("1", ("root", 7, "INFO"), ErrorCode.INVALID_REQUEST, "Unknown operations type 7"),
        (
            "9",
            ("root", SET, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "Unexpected node id. Expected 1, but received 9",
        ),
        (
            "",
            ("root", SET, "INFO"),
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: ",
        ),
    ],
)
def test_log_levels_are_refused_as_kafka_refuses_them(
    broker: Broker, name: str, change: tuple[str, int, str | None], code: ErrorCode, message: str
) -> None:
    assert changed(broker, (Resource.BROKER_LOGGER, name, [change])) == [(code, message)]


def test_log_levels_change_at_once_and_all_or_none(broker: Broker) -> None:
    logger = logging.getLogger("ottla.network.server")
    logger.setLevel(logging.NOTSET)
    name = logger.name

    def change(*changes: tuple[str, int, str | None], validate_only: bool = False) -> int:
        resource = (Resource.BROKER_LOGGER, "1", list(changes))
        return changed(broker, resource, validate_only=validate_only)[0][0]

    assert change((name, SET, "ERROR"), validate_only=True) == ErrorCode.NONE
    assert change((name, SET, "ERROR"), ("nope", SET, "INFO")) == ErrorCode.INVALID_CONFIG
    assert logger.level == logging.NOTSET
    assert change((name, SET, "ERROR")) == ErrorCode.NONE
    assert logger.level == logging.ERROR
    assert change((name, DELETE, None)) == ErrorCode.NONE
    assert logger.level == logging.NOTSET
    assert broker.controller.asked == []


def replaced(
    broker: Broker, kind: int, name: str, settings: list[tuple[str, str | None]], version: int = 2
) -> tuple[int, str | None]:
    request = legacy.AlterConfigsRequest(
        resources=[
            legacy.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[legacy.AlterableConfig(name=key, value=value) for key, value in settings],
            )
        ]
    )
    answer = broker.ask(alter_configs, request, version, legacy.AlterConfigsResponse)
    return answer.responses[0].error_code, answer.responses[0].error_message


@pytest.mark.parametrize("version", range(3))
def test_a_replacement_reaches_the_controller(broker: Broker, version: int) -> None:
    agreed = legacy.AlterConfigsResourceResponse(resource_type=Resource.TOPIC, resource_name="t")
    broker.controller.answers.append(legacy.AlterConfigsResponse(responses=[agreed]))
    assert replaced(broker, Resource.TOPIC, "t", [("retention.ms", "1")], version) == (0, None)


@pytest.mark.parametrize(
    ("kind", "name", "settings", "message"),
    [
        (Resource.BROKER_LOGGER, "1", [("root", "INFO")], "Unknown resource type 8"),
        (Resource.TOPIC, "t", [("a", None)], "Null value not supported for : a"),
        (Resource.TOPIC, "t", [("a", "1"), ("a", "2")], "Error due to duplicate config keys"),
        (Resource.BROKER, "9", [], "Unexpected broker id, expected 1, but received 9"),
        (
            Resource.BROKER,
            "1",
            [("node.id", "3")],
            "Cannot update these configs dynamically: [node.id]",
        ),
    ],
)
def test_a_replacement_that_cannot_be_right_goes_no_further(
    broker: Broker, kind: int, name: str, settings: list[tuple[str, str | None]], message: str
) -> None:
    assert replaced(broker, kind, name, settings) == (ErrorCode.INVALID_REQUEST, message)
    assert broker.controller.asked == []


# ListConfigResources


def resources(broker: Broker, version: int, *kinds: int) -> ListConfigResourcesResponse:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    return broker.ask(list_config_resources, request, version, ListConfigResourcesResponse)


def test_what_has_settings_is_listed_by_kind() -> None:
    broker = Broker()
    broker.add_topic("b")
    broker.add_topic("a")
    broker.set_image(brokers={1: registered(1), 4: registered(4, fenced=True)})
    broker.set_configs(Resource.GROUP, "g", {"consumer.session.timeout.ms": "50000"})
    broker.set_configs(Resource.CLIENT_METRICS, "m", {"interval.ms": "100"})
    listed = {
        kind: [r.resource_name for r in resources(broker, 1, kind).config_resources]
        for kind in (Resource.TOPIC, Resource.BROKER, Resource.BROKER_LOGGER, Resource.GROUP, 16)
    }
    assert listed == {2: ["a", "b"], 4: ["1", "4"], 8: ["1", "4"], 32: ["g"], 16: ["m"]}
    assert len(resources(broker, 1).config_resources) == 8
    assert [r.resource_name for r in resources(broker, 0).config_resources] == ["m"]


@pytest.mark.parametrize("kind", [0, 3, 64])
def test_kinds_without_settings_are_refused(kind: int) -> None:
    answer = resources(Broker(), 1, Resource.TOPIC, kind)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
